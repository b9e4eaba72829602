"""Spending, decided purely: what the next command needs, whether the budget lets it start, which alert is due."""

from __future__ import annotations

from collections.abc import Mapping

from agentlab import budget
from agentlab.definition import Definition, ToolSpec
from agentlab.ports import Usage
from agentlab.session import commands as c
from agentlab.session.state import Call, State

CHUNK = 8
"""So many commands' worth is drawn from a pool at a time, where it has that much: steps rarely touch the pool."""
UNKNOWN_PRICE = "cost_microusd: nobody knows the price of {model}; add it to budget['prices']"


def request_base(state: State, definition: Definition) -> dict[str, int]:
    """What the next model call would need by size alone: input tokens, and the cap of its output."""
    fixed = (len(definition.system) + len(definition.goal)) // 4 + 120 * len(definition.tools) + 400
    scratch = state.context.tokens + state.context.extra_tokens
    return {"input_tokens": fixed + scratch, "output_tokens": definition.limits.max_output_tokens}


def request_estimate(state: State, definition: Definition) -> dict[str, int]:
    """What the next model call is expected to need: tokens, one call, money if its price is known.

    Under limits with the learned factors; without any there is nothing to be careful about, and nothing is learned.
    """
    base = request_base(state, definition)
    if not limited(state):
        return base
    amounts = budget.estimated(state.budget, base)
    amounts["model_calls"] = 1
    amounts.update(_time(state, "model"))
    price = budget.price_of(definition.budget.get("prices"), definition.model)
    if price is not None:
        usage = Usage(amounts["input_tokens"], amounts["output_tokens"])
        cost = budget.cost_microusd(usage, price)
        if cost is not None:
            amounts["cost_microusd"] = cost
    return amounts


def _time(state: State, what: str) -> dict[str, int]:
    """How long a command is expected to take, in the dimensions of time that are limited."""
    expected = budget.expected_ms(state.budget, what)
    return {name: expected for name in ("active_ms", "wall_ms") if name in state.budget.limits} if expected else {}


def limited(state: State) -> bool:
    """Whether anything limits the session's spending: limits of its own, or a pool."""
    return bool(state.budget.limits or state.budget.allotted)


def request_bound(state: State, definition: Definition) -> dict[str, int]:
    """What the next model call needs at most, for a pool that must not be overdrawn: the whole cap of its output."""
    if not state.budget.allotted:
        return {}
    base = request_base(state, definition)
    amounts = request_estimate(state, definition)
    amounts["input_tokens"] = max(base["input_tokens"], amounts["input_tokens"])
    amounts["output_tokens"] = base["output_tokens"]
    amounts["cache_tokens"] = amounts["input_tokens"]
    price = budget.price_of(definition.budget.get("prices"), definition.model)
    if price is not None:
        dearest = max(price.get(kind, 0.0) for kind in ("input", "cache_read", "cache_write"))
        amounts["cost_microusd"] = round(
            amounts["input_tokens"] * dearest + amounts["output_tokens"] * price.get("output", 0.0)
        )
    return amounts


def draw(state: State, amounts: Mapping[str, int]) -> c.DrawBudget | None:
    """What the pool has to set aside before ``amounts`` may be spent; None when enough is."""
    allotted = state.budget.allotted
    needs, wishes = {}, {}
    for dimension, amount in allotted.items():
        wanted = budget.amount(amounts, dimension)
        missing = state.budget.committed(dimension) + wanted - amount
        if missing > 0:
            needs[dimension] = missing
            wishes[dimension] = missing + (CHUNK - 1) * wanted
    return c.DrawBudget(needs, wishes) if needs else None


def call_estimate(state: State, tool: ToolSpec) -> dict[str, int]:
    """What one call of a tool needs."""
    amounts = {"tool_calls": 1, f"tool:{tool.name}": 1, **_time(state, tool.name)}
    if tool.price_microusd:
        amounts["cost_microusd"] = tool.price_microusd
    return amounts


def finishing(state: State) -> bool:
    """Whether the last step is in progress or done: what comes now may use the minimum reserve."""
    plan = state.plan
    return bool(plan.steps) and (plan.finished or plan.current >= len(plan.steps))


def wall_ms(state: State) -> int:
    """Milliseconds since the session began, as of the newest event."""
    return max(0, (state.ts - state.started_ts) // 1000)


def forbidden(state: State, amounts: Mapping[str, int]) -> str:
    """Which limit forbids spending ``amounts`` more; empty when none does."""
    if state.budget.refused:
        return f"the lab's pool: {state.budget.refused}"
    if not state.budget.limits:
        return ""
    found = budget.exhausted(state.budget, amounts, finishing=finishing(state), wall_ms=wall_ms(state))
    return found or ""


def step_forbidden(state: State) -> str:
    """What forbids beginning the next step of the plan: the limit of steps, nothing else; empty when nothing does."""
    plan, spent = state.plan, state.budget
    if "steps" in spent.allotted and spent.refused:
        return f"the lab's pool: {spent.refused}"
    last = plan.current + 1 >= len(plan.steps)
    if "steps" in spent.limits and budget.forbids(spent, "steps", {"steps": 1}, finishing=last):
        return "steps"
    return ""


def request_forbidden(state: State, definition: Definition, amounts: Mapping[str, int]) -> str:
    """The same for a model call: under a limit of money its price must be known."""
    money = "cost_microusd" in state.budget.limits or "cost_microusd" in state.budget.allotted
    if money and "cost_microusd" not in amounts:
        return UNKNOWN_PRICE.format(model=definition.model)
    return forbidden(state, amounts)


def alert(state: State) -> c.RaiseAlert | None:
    """The alert that is due, or None."""
    if not state.budget.limits:
        return None
    found = budget.due_alert(state.budget, wall_ms(state))
    return None if found is None else c.RaiseAlert(*found)


def request_not_before(state: State) -> int:
    """When the next model request may be sent: retries and quotas."""
    return max(state.model.not_before_us, budget.not_before(state.budget, "requests"))


def call_not_before(state: State, call: Call) -> int:
    """When a tool call may be sent: retries and quotas."""
    return max(call.not_before_us, budget.not_before(state.budget, call.tool))
