"""Spending, decided purely: what the next command needs, whether the budget lets it start, which alert is due."""

from __future__ import annotations

from collections.abc import Mapping

from agentlab import budget
from agentlab.definition import Definition, ToolSpec
from agentlab.ports import Usage
from agentlab.session import commands as c
from agentlab.session.state import Call, State

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
    price = budget.price_of(definition.budget.get("prices"), definition.model)
    if price is not None:
        usage = Usage(amounts["input_tokens"], amounts["output_tokens"])
        cost = budget.cost_microusd(usage, price)
        if cost is not None:
            amounts["cost_microusd"] = cost
    return amounts


def limited(state: State) -> bool:
    """Whether anything limits the session's spending: limits of its own, or a pool."""
    return bool(state.budget.limits or state.budget.allotted)


def call_estimate(tool: ToolSpec) -> dict[str, int]:
    """What one call of a tool needs."""
    amounts = {"tool_calls": 1, f"tool:{tool.name}": 1}
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
    if not state.budget.limits:
        return ""
    found = budget.exhausted(state.budget, amounts, finishing=finishing(state), wall_ms=wall_ms(state))
    return found or ""


def request_forbidden(state: State, definition: Definition, amounts: Mapping[str, int]) -> str:
    """The same for a model call: under a limit of money its price must be known."""
    if "cost_microusd" in state.budget.limits and "cost_microusd" not in amounts:
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
