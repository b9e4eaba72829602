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
    spent = state.budget
    changes: dict[str, Any] = {}
    if spent.estimate:
        # A provider with a prompt cache counts what it read from there apart; the request was as large all the same.
        sizes = {**amounts, "input_tokens": amounts["input_tokens"] + amounts["cache_tokens"]}
        changes = {"learned": budget.learn(spent, sizes), "estimate": {}}
    if event.cost_microusd is not None:
        amounts["cost_microusd"] = event.cost_microusd
    else:
        changes["unpriced"] = spent.unpriced + 1
    return evolve(spent, **budget.settled(spent, event.payload["request_id"], amounts), **changes)


def called(state: State, event: Event, call: Call, reused: bool) -> BudgetState:
    """The one result of a tool call: counted unless the harness answered it itself or from the record."""
    amounts = {} if reused or call.effect == "builtin" else {"tool_calls": 1, f"tool:{call.tool}": 1}
    if event.cost_microusd:
        amounts["cost_microusd"] = event.cost_microusd
    amounts["active_ms"] = round(event.duration_ms or 0.0)
    spent = budget.settle(state.budget, call.call_id, amounts)
    if spent.quotas and call.effect in ("pure", "sandboxed") and event.duration_ms is not None:
        spent = budget.sent(spent, call.tool, event.ts - round(event.duration_ms * 1000))
    return spent


def sent_again(state: State, event: Event) -> BudgetState:
    """A failed try of a pure or sandboxed tool was a send too; an external one was counted when it was registered."""
    call = state.call(event.payload["ref"])
    if call is None or call.effect == "external":
        return state.budget
    return budget.sent(state.budget, call.tool, event.ts - round((event.duration_ms or 0.0) * 1000))
