"""The meaning of effect and sandbox events: what stands outside the session. See :mod:`agentlab.session.fold`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentlab import budget
from agentlab.events import Event
from agentlab.evolve import evolve
from agentlab.session.state import Call, Settled, State, operation

Changes = dict[str, Any]


def with_call(state: State, call_id: str, **changes: Any) -> tuple[Call, ...]:
    """The open calls, one of them changed."""
    return tuple(evolve(c, **changes) if c.call_id == call_id else c for c in state.calls)


def not_happened(state: State, call_id: str) -> tuple[Call, ...]:
    """An effect that did not happen may be tried again; that of a superseded call is not wanted any more."""
    kept = tuple(c for c in state.calls if not (c.call_id == call_id and c.superseded))
    return with_call(evolve(state, calls=kept), call_id, status="requested")


# --- effects -------------------------------------------------------------------------------------------------------


def _effect_pending(state: State, event: Event) -> Changes:
    p = event.payload
    call = state.call(p["call_id"])
    tries = call.tries + 1 if call else 1
    first = {**state.effects.first_calls}
    first.setdefault(operation(p["tool"], p["input_hash"]), _first_seq(p["key"], event))
    return {
        "calls": with_call(
            state,
            p["call_id"],
            status="pending",
            key=p["key"],
            tries=tries,
            started_in=event.incarnation,
            started_ts=event.ts,
        ),
        "effects": evolve(state.effects, first_calls=first),
        "budget": budget.sent(state.budget, p["tool"], event.ts),
    }


def _first_seq(key: str, event: Event) -> int:
    # Keys made from a call end in its seq; keys by content have none and are found by the key itself.
    tail = key.rpartition("#")[2]
    return int(tail) if tail.isdecimal() else event.seq


def _effect_completed(state: State, event: Event) -> Changes:
    p = event.payload
    call = state.call(p["call_id"])
    input_hash = call.input_hash if call else p.get("input_hash", "")
    first = dict(state.effects.first_calls)
    first_seq = first.pop(operation(p["tool"], input_hash), event.seq)
    # The tool_result follows in the same commit, hence seq + 1.
    settled = Settled(p["key"], p["tool"], input_hash, first_seq, event.seq + 1, "completed")
    effects = evolve(
        state.effects,
        first_calls=first,
        recent=(*state.effects.recent, settled),
        completed=state.effects.completed + 1,
        inherited={k: v for k, v in state.effects.inherited.items() if v != p["key"]},
    )
    return {"effects": effects}


def _effect_failed(state: State, event: Event) -> Changes:
    return {"calls": not_happened(state, event.payload["call_id"])}


def _effect_verified(state: State, event: Event) -> Changes:
    following = event.payload["next"]
    if following == "retry":
        return {"calls": not_happened(state, event.payload["call_id"])}
    return {}


def _effect_in_doubt(state: State, event: Event) -> Changes:
    p = event.payload
    return {"calls": with_call(state, p["call_id"], status="in_doubt", key=p["key"])}


# --- sandbox -------------------------------------------------------------------------------------------------------


def _sandbox_ready(state: State, event: Event) -> Changes:
    p = event.payload
    sandbox = evolve(
        state.sandbox,
        status="provisioned",
        sandbox_id=p["sandbox_id"],
        record=p["record"],
        generation=p["generation"],
        filled=False,
        stale=False,
    )
    return {"sandbox": sandbox}


def _sandbox_attached(state: State, event: Event) -> Changes:
    # A harness that died between provisioning and filling leaves an empty sandbox: it is filled again.
    return {"sandbox": evolve(state.sandbox, status="ready" if state.sandbox.filled else "provisioned")}


def _sandbox_lost(state: State, event: Event) -> Changes:
    calls = tuple(
        evolve(c, status="lost") if c.effect == "sandboxed" and c.status == "started" else c for c in state.calls
    )
    return {
        "sandbox": evolve(state.sandbox, status="lost", filled=False, losses=state.sandbox.losses + 1),
        "calls": calls,
    }


def _sandbox_restored(state: State, event: Event) -> Changes:
    p = event.payload
    sandbox = evolve(state.sandbox, status="ready", filled=True, stale=False)
    if "since" in p:  # an earlier snapshot served, or none
        since = tuple((call_id, seq) for call_id, seq in p["since"])
        sandbox = evolve(sandbox, snapshot=p["snapshot"] or "", since_snapshot=since)
    changes: Changes = {"sandbox": sandbox}
    notes = [_differs(d) for d in p["differs"]]
    notes += [f"After a sandbox loss, {c} was not run again: check where it stands." for c in p["not_rerun"]]
    if notes:
        changes["context"] = evolve(state.context, notes=(*state.context.notes, *notes[:20]))
    if p["rerun"]:
        changes["recovery"] = evolve(state.recovery, redone=tuple(p["rerun"])[-50:])
    return changes


def _differs(found: dict[str, Any]) -> str:
    said = f"After a sandbox loss, {found['tool']} ({found['call_id']}) was run again and gave another result than recorded."
    if "now" not in found:
        return said
    return f"{said} Recorded: {found['recorded']}. Now: {found['now']}."


def _snapshot_taken(state: State, event: Event) -> Changes:
    return {"sandbox": evolve(state.sandbox, snapshot=event.payload["digest"], since_snapshot=(), changed_bytes=0)}


def _sandbox_destroyed(state: State, event: Event) -> Changes:
    return {"sandbox": evolve(state.sandbox, status="none", record={})}


OUTSIDE_HANDLERS: dict[str, Callable[[State, Event], Changes]] = {
    "effect_pending": _effect_pending,
    "effect_completed": _effect_completed,
    "effect_failed": _effect_failed,
    "effect_verified": _effect_verified,
    "effect_in_doubt": _effect_in_doubt,
    "sandbox_ready": _sandbox_ready,
    "sandbox_attached": _sandbox_attached,
    "sandbox_lost": _sandbox_lost,
    "sandbox_restored": _sandbox_restored,
    "snapshot_taken": _snapshot_taken,
    "sandbox_destroyed": _sandbox_destroyed,
}
