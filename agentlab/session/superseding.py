"""Going back to a checkpoint: what came after it is superseded, not erased.

``restored_to`` carries the state that the checkpoint stores, so that the fold needs nothing but the log: plan, context,
workspace and open calls become those of the checkpoint again. What has happened outside and what was spent stays as it
is: effects, budget, counters, armed faults, what people asked for. A call whose effect is still open outside is kept
although no message shows it any more; it is verified like any other, and its result stays in the log alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentlab import budget
from agentlab.context import purified
from agentlab.errors import CheckpointError, LogCorrupt
from agentlab.events import Draft, Event
from agentlab.evolve import evolve
from agentlab.session.state import (
    STATE_SCHEMA_VERSION,
    Call,
    CheckpointState,
    ControlState,
    LoopState,
    ModelState,
    SandboxState,
    State,
)
from agentlab.session.statecodec import state_from_json, to_json

Changes = dict[str, Any]

OPEN_OUTSIDE = frozenset({"pending", "in_doubt", "settled_done"})
"""States of a call whose effect may have happened and is not yet on record as completed."""


def restored_draft(
    now: State,
    then: State,
    checkpoint_seq: int,
    reason: str,
    *,
    request_id: str = "",
    label: str = "",
    note: str = "",
    superseded_to: int | None = None,
) -> Draft:
    """The event that takes a session at ``now`` back to ``then``, the state of the checkpoint at ``checkpoint_seq``.

    ``note`` is what the model is told with its next request; ``superseded_to`` the last event that is passed over
    (the newest one by default).
    """
    payload: dict[str, Any] = {
        "checkpoint_seq": checkpoint_seq,
        "cursor": then.seq,
        "superseded_from": checkpoint_seq + 1,
        "superseded_to": now.seq if superseded_to is None else superseded_to,
        "reason": reason,
        "schema_version": STATE_SCHEMA_VERSION,
        "state": to_json(then),
    }
    payload.update({k: v for k, v in (("request_id", request_id), ("label", label), ("note", note)) if v})
    return Draft("restored_to", payload, step=then.plan.current or None)


def fold_restored(state: State, event: Event) -> Changes:
    """The fold of ``restored_to``.

    Raises:
        LogCorrupt: the event carries no state, or one that can not be read.
    """
    p = event.payload
    if "state" not in p:
        raise LogCorrupt(f"event {event.seq} (restored_to) carries no state to go back to")
    try:
        then = state_from_json(p["state"], p.get("schema_version"))
    except CheckpointError as error:
        raise LogCorrupt(f"event {event.seq} (restored_to) carries a state that can not be read: {error}") from None
    context, plan = then.context, then.plan
    if state.control.own_version != then.control.own_version:  # what was lifted since stays lifted
        context, plan = evolve(context, anchors=state.context.anchors), evolve(plan, steps=state.plan.steps)
    if p.get("purified"):  # the way back from a loop: what led into it is not shown again
        context, plan = purified(context, bool(then.calls)), evolve(plan, rounds=0, failures={})
    notes = (*context.notes, p["note"]) if p.get("note") else context.notes
    return {
        "control": _control(state.control, str(p.get("request_id", ""))),
        "plan": evolve(plan, stats=state.plan.stats),
        "model": ModelState(),
        "calls": reconciled(then.calls, state.calls),
        "sandbox": _sandbox(state.sandbox, then.sandbox),
        "context": evolve(context, notes=notes),
        "checkpoint": _checkpoint(state, event),
        "recovery": evolve(state.recovery, statement="", corrections=0, went_back=True),
        "loop": LoopState(policy=state.loop.policy, memory=then.loop.memory, person=True, capped=state.loop.capped),
        "errors_in_a_row": 0,
        "responses_unread": then.responses_unread,
    }


def reconciled(then: tuple[Call, ...], now: tuple[Call, ...]) -> tuple[Call, ...]:
    """The calls of an earlier state, each with what has become of its effect since; open effects of later calls first."""
    still_open = {call.call_id: call for call in now if call.status in OPEN_OUTSIDE}
    known = {call.call_id for call in then}
    orphans = tuple(evolve(c, superseded=True) for c in still_open.values() if c.call_id not in known)
    return (*orphans, *(still_open.get(c.call_id) or asked_again(c) for c in then))


def asked_again(call: Call) -> Call:
    """A call as it was before anything of it was sent.

    Nothing of an external effect is open: either it completed (then its record is found by tool and input) or it
    surely did not happen. What ran in a sandbox ran in a workspace that is no more.
    """
    if call.effect == "external":
        status = "requested" if call.status in OPEN_OUTSIDE else call.status
        return evolve(call, status=status, key="", tries=0, not_before_us=0, started_in=0, started_ts=0)
    if call.status in ("started", "lost"):
        return evolve(call, status="requested", started_in=0, started_ts=0)
    return call


def _control(control: ControlState, request_id: str) -> ControlState:
    if control.restore is not None and control.restore[0] == request_id:
        control = evolve(control, restore=None)
    if control.status == "waiting":  # the question belongs to what is superseded
        control = evolve(control, status="running", question_seq=0, question={})
    return control


def _sandbox(now: SandboxState, then: SandboxState) -> SandboxState:
    # The folder holds what is superseded: it is emptied and filled again before anything runs in it.
    return evolve(
        now,
        status="provisioned" if now.status == "ready" else now.status,
        filled=False,
        stale=True,
        restores=now.restores + 1,
        losses=0,
        snapshot=then.snapshot,
        since_snapshot=then.since_snapshot,
        changed_bytes=then.changed_bytes,
    )


def _checkpoint(state: State, event: Event) -> CheckpointState:
    seq = event.payload["checkpoint_seq"]
    return evolve(
        state.checkpoint,
        seq=seq,
        cursor=event.payload["cursor"],
        ts=event.ts,
        steps_since=0,
        milestone=False,
        large_result=False,
        budget_used=budget.share(state.budget),
        effects_completed=state.effects.completed,
        passing=event.seq - seq,
    )


# --- inputs and refusals -------------------------------------------------------------------------------------------------


def fold_requested(state: State, event: Event) -> Changes:
    """The fold of the input ``restore_requested``: carried out by the harness at its next safe point, or at wake."""
    control = state.control
    if control.status == "ended":
        return {}
    control = evolve(control, restore=(event.payload["id"], event.payload["checkpoint_seq"]))
    if control.status == "waiting":  # nobody need answer what is about to be superseded
        control = evolve(control, status="paused", reason="restore", question_seq=0, question={})
    return {"control": control}


def fold_refused(state: State, event: Event) -> Changes:
    """The fold of ``restore_refused``: the request is answered, nothing else changes."""
    restore = state.control.restore
    if restore is None or restore[0] != event.payload["id"]:
        return {}
    return {"control": evolve(state.control, restore=None)}


# --- reading -------------------------------------------------------------------------------------------------------------


def ranges(events: Iterable[Event]) -> tuple[tuple[int, int], ...]:
    """First and last seq of what each ``restored_to`` set aside, in order of the log."""
    found = []
    for event in events:
        if event.type == "restored_to":
            p: Mapping[str, Any] = event.payload
            found.append((int(p["superseded_from"]), int(p["superseded_to"])))
    return tuple(found)


def is_superseded(seq: int, found: Iterable[tuple[int, int]]) -> bool:
    """Whether an event lies in one of the :func:`ranges`."""
    return any(first <= seq <= last for first, last in found)
