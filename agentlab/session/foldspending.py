"""The fold of spending: what a request, its answer and a tool call do to the budget."""

from __future__ import annotations

from typing import Any

from agentlab import budget
from agentlab.budget import BudgetState
from agentlab.events import Event
from agentlab.evolve import evolve
from agentlab.session.state import Call, State


def requested(state: State, event: Event) -> BudgetState:
    """A model request reserves what it is expected to need."""
    p, spent = event.payload, state.budget
    reserved = {**spent.reserved, p["request_id"]: p.get("reserved") or {}}
    spent = evolve(spent, reserved=reserved, estimate=p.get("estimate") or {})
    return budget.sent(spent, "requests", event.ts) if spent.quotas else spent


def answered(state: State, event: Event) -> BudgetState:
    """The answer settles it by the provider's own count."""
    amounts = {
        "input_tokens": event.input_tokens or 0,
        "output_tokens": event.output_tokens or 0,
        "cache_tokens": (event.cache_read_tokens or 0) + (event.cache_write_tokens or 0),
        "model_calls": 1,
        "active_ms": round(event.duration_ms or 0),
    }
    spent, request = state.budget, event.payload["request_id"]
    changes: dict[str, Any] = {}
    if spent.estimate:
        # A provider with a prompt cache counts what it read from there apart; the request was as large all the same.
        sizes = {**amounts, "input_tokens": amounts["input_tokens"] + amounts["cache_tokens"]}
        changes = {"learned": budget.learn(spent, sizes), "estimate": {}}
    if event.cost_microusd is not None:
        amounts["cost_microusd"] = event.cost_microusd
    else:
        changes["unpriced"] = spent.unpriced + 1
    changes = {**budget.settled(spent, request, amounts), **changes}
    expected = (spent.reserved.get(request) or {}).get("cost_microusd")
    if expected and event.cost_microusd is None:
        # What was used has no price here: what was expected stays counted until somebody says what it cost.
        changes["at_risk"] = budget.merged({**spent.at_risk, request: {"cost_microusd": expected}})
    return _timed(evolve(spent, **changes), "model", event)


def failed(state: State, event: Event) -> BudgetState:
    """A model call without an answer: surely nothing was spent but time, or nobody knows."""
    change = budget.cut if event.payload.get("at_risk") else budget.release
    spent = change(state.budget, event.payload["request_id"])
    return budget.settle(spent, None, {"active_ms": round(event.duration_ms)}) if event.duration_ms else spent


def _timed(spent: BudgetState, what: str, event: Event) -> BudgetState:
    """Where time is limited, how long things take is learned."""
    if not event.duration_ms or not ("active_ms" in spent.limits or "wall_ms" in spent.limits):
        return spent
    return evolve(spent, learned=budget.learn_time(spent, what, event.duration_ms))


def called(state: State, event: Event, call: Call, reused: bool) -> BudgetState:
    """The one result of a tool call: counted unless the harness answered it itself or from the record."""
    amounts = {} if reused or call.effect == "builtin" else {"tool_calls": 1, f"tool:{call.tool}": 1}
    if event.cost_microusd:
        amounts["cost_microusd"] = event.cost_microusd
    amounts["active_ms"] = round(event.duration_ms or 0.0)
    spent = _timed(budget.settle(state.budget, call.call_id, amounts), call.tool, event)
    return _sent(spent, call, event) if event.duration_ms is not None else spent


def tried(state: State, event: Event) -> BudgetState:
    """A try of a tool that failed and is made again: its time counts, and it was a send."""
    spent, call = state.budget, state.call(event.payload["ref"])
    if event.duration_ms:
        spent = budget.settle(spent, None, {"active_ms": round(event.duration_ms)})
    return spent if call is None else _sent(spent, call, event)


def _sent(spent: BudgetState, call: Call, event: Event) -> BudgetState:
    """A send is counted when it began; an external one was counted when it was registered."""
    if not spent.quotas or call.effect not in ("pure", "sandboxed"):
        return spent
    return budget.sent(spent, call.tool, event.ts - round((event.duration_ms or 0.0) * 1000))
