"""The first event of a fork: a session that shares the past of another one up to an event, and goes its own way from there.

Everything that was decided and learnt is shared; everything that belongs to the process is not: a fork has a sandbox of
its own, filled from the newest snapshot of the past, and a harness that starts. Effects are neither undone nor done
again: what has happened by the time of the fork, also after the event it begins at, is on record for it, and what is
open elsewhere is verified before it may be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab import budget
from agentlab.budget import BudgetState
from agentlab.definition import Limits
from agentlab.errors import LogCorrupt
from agentlab.events import Event
from agentlab.evolve import evolve
from agentlab.guard import GuardPolicy
from agentlab.session.state import (
    Call,
    CheckpointState,
    ControlState,
    EffectsState,
    LoopState,
    ModelState,
    RecoveryState,
    SandboxState,
    State,
    operation,
)
from agentlab.session.superseding import OPEN_OUTSIDE, asked_again

Changes = dict[str, Any]


def fold_forked(state: State, event: Event) -> Changes:
    """The fold of a ``session_started`` that names a parent; ``state`` is the parent's at the event shared last.

    Raises:
        LogCorrupt: it does not begin where it says.
    """
    p = event.payload
    parent = p["parent"]
    if (state.seq, state.hash) != (parent["seq"], parent["hash"]):
        raise LogCorrupt(
            f"session {event.session_id!r} is forked at event {parent['seq']} of {parent['session']!r},"
            f" but follows another event {state.seq}"
        )
    elsewhere = p.get("effects") or {}
    notes = (*state.context.notes, p["note"]) if p.get("note") else state.context.notes
    spent = _budget(state.budget, Limits(**p["limits"]) if "limits" in p else Limits(), p.get("budget"))
    return {
        "session_id": event.session_id,
        "started_ts": event.ts,
        "woken_ts": 0,
        "incarnation": 0,
        "process": {},
        "baseline": p["baseline"],
        "control": ControlState(resumed_turns=state.turns),
        "model": ModelState(),
        "calls": tuple(_call(c, elsewhere) for c in state.calls if not c.superseded),
        "effects": _effects(state.effects, elsewhere),
        "sandbox": SandboxState(snapshot=state.sandbox.snapshot, since_snapshot=state.sandbox.since_snapshot),
        "context": evolve(state.context, notes=notes),
        "budget": spent,
        "checkpoint": CheckpointState(
            ts=event.ts,
            passing=event.seq,
            budget_used=budget.share(spent),
            effects_completed=state.effects.completed,
        ),
        "recovery": RecoveryState(),
        "loop": LoopState(policy=GuardPolicy.from_json(p.get("guard") or {}), memory=state.loop.memory, person=True),
        "faults": (),
        "errors_in_a_row": 0,
    }


def _call(call: Call, elsewhere: Mapping[str, Any]) -> Call:
    if call.key and call.key in elsewhere.get("settled", ()):
        return evolve(call, status="requested", tries=0)  # its record is found by its key, or by tool and input
    open_key = elsewhere.get("open", {}).get(operation(call.tool, call.input_hash))
    if call.effect == "external" and (open_key or call.status in OPEN_OUTSIDE):
        return evolve(call, status="pending", key=open_key or call.key, tries=0, started_in=0)
    return asked_again(call)


def _effects(past: EffectsState, elsewhere: Mapping[str, Any]) -> EffectsState:
    chunk = elsewhere.get("chunk")
    return evolve(
        past,
        chunks=(*past.chunks, (str(chunk[0]), int(chunk[1]))) if chunk else past.chunks,
        inherited={**past.inherited, **elsewhere.get("open", {})},
    )


def _budget(past: BudgetState, limits: Limits, spec: Mapping[str, Any] | None) -> BudgetState:
    """What was spent stays spent; open reservations, and what a pool set aside, are the parent's.

    Limits that a person extended stay extended.
    """
    fresh = budget.from_limits(limits, spec)
    extended = {name: past.limits[name] for name, version in past.versions.items() if version and name in past.limits}
    return evolve(
        fresh,
        used=past.used,
        limits={**fresh.limits, **extended},
        versions=past.versions,
        recent=past.recent,
        learned=past.learned,
        unpriced=past.unpriced,
    )
