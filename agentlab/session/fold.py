"""``fold(state, event) -> state``: the meaning of every event, in one pure function.

Handlers return the fields of :class:`~agentlab.session.state.State` that an event changes. Opening, plan, checkpoint
and recovery events are here; model, tool, effect and sandbox events in :mod:`agentlab.session.foldwork`; context,
budget and control in :mod:`agentlab.session.foldcontrol`; inputs in :mod:`agentlab.session.foldinputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agentlab import budget
from agentlab.context import ContextSpec, purified
from agentlab.definition import Limits, step_from_json
from agentlab.errors import LogCorrupt
from agentlab.events import KINDS, Event
from agentlab.evolve import evolve
from agentlab.guard import GuardPolicy
from agentlab.session.foldcontrol import CONTROL_HANDLERS
from agentlab.session.foldinputs import fold_input
from agentlab.session.foldwork import WORK_HANDLERS
from agentlab.session.forking import fold_forked
from agentlab.session.recovery import CORRECTION
from agentlab.session.state import RECENT_STEPS, LoopState, State
from agentlab.session.superseding import fold_refused, fold_restored

Changes = dict[str, Any]
Handler = Callable[[State, Event], Changes]

RESTS = ("session_paused", "session_ended", "question_asked")


def fold(state: State, event: Event) -> State:
    """The state after ``event``.

    Raises:
        LogCorrupt: a gap, an unknown kind, or a fact or intent of an incarnation that is not the newest.
    """
    if event.seq != state.seq + 1:
        raise LogCorrupt(f"session {event.session_id!r}: event {state.seq + 1} expected, found {event.seq}")
    kind = KINDS.get(event.type)
    if kind is None:
        raise LogCorrupt(f"event {event.seq} is of kind {event.type!r}, which this agentlab does not know")
    if kind.cls in ("fact", "intent") and event.incarnation != state.incarnation:
        raise LogCorrupt(
            f"event {event.seq} ({event.type}) is of incarnation {event.incarnation}, but {state.incarnation} is the newest"
        )
    if kind.cls == "input":
        changes = fold_input(state, event)
    else:
        handler = HANDLERS.get(event.type)
        changes = handler(state, event) if handler else {}
        if state.control.rested and event.type not in RESTS:
            changes["control"] = evolve(changes.get("control", state.control), rested=False)
    if kind.cls == "input" or event.type == "session_paused":
        checkpoint = changes.get("checkpoint", state.checkpoint)
        changes["checkpoint"] = evolve(checkpoint, passing=checkpoint.passing + 1)
    return evolve(state, seq=event.seq, hash=event.hash, ts=event.ts, **changes)


def fold_all(state: State, events: Iterable[Event]) -> State:
    """:func:`fold` over several events."""
    for event in events:
        state = fold(state, event)
    return state


# --- openings ------------------------------------------------------------------------------------------------------


def _session_started(state: State, event: Event) -> Changes:
    payload = event.payload
    if payload.get("parent"):
        return fold_forked(state, event)
    limits = Limits(**payload["limits"]) if "limits" in payload else Limits()
    steps = tuple(step_from_json(s) for s in payload.get("steps", ()))
    return {
        "session_id": event.session_id,
        "started_ts": event.ts,
        "baseline": payload["baseline"],
        "plan": evolve(state.plan, steps=steps, source="task" if steps else ""),
        "budget": budget.from_limits(limits, payload.get("budget")),
        "loop": LoopState(policy=GuardPolicy.from_json(payload.get("guard") or {})),
        "context": evolve(state.context, spec=ContextSpec.from_json(payload.get("context") or {})),
    }


def _harness_woken(state: State, event: Event) -> Changes:
    control = state.control
    if control.status == "new":
        control = evolve(control, status="running")
    if control.mode == "step":
        control = evolve(control, resumed_at=event.seq)
    sandbox = state.sandbox
    if sandbox.status in ("ready", "provisioned"):
        sandbox = evolve(sandbox, status="unattached")
    recovery = state.recovery
    crashed = event.payload["reason"] in ("crash", "takeover")
    if crashed or (recovery.phase and recovery.phase != "done"):
        recovery = evolve(
            recovery,
            phase="needed",
            cause=event.payload["reason"] if crashed else recovery.cause,
            started_seq=event.seq,
            corrections=0,
            statement="",
            checkpoint_seq=event.payload.get("checkpoint_seq") or 0,
            cursor=event.payload["cursor"],
            replayed=event.seq - 1 - event.payload["cursor"],
            crashes=recovery.crashes + (1 if crashed else 0),
            steps_at_crash=state.plan.completed,
            redone=(),
            went_back=False,
            confirmed=False,
            step_ts=event.ts,
            deaths_here=recovery.deaths_here + (1 if crashed else 0),
        )
    return {
        "incarnation": event.incarnation,
        "woken_ts": event.ts,
        "process": event.payload["process"],
        "baseline": event.payload["baseline"],
        "control": control,
        "sandbox": sandbox,
        "recovery": recovery,
        "model": evolve(state.model, request_id="", request_seq=0, purpose="", gave_up=""),
        "budget": budget.cut(state.budget),
    }


# --- plan ----------------------------------------------------------------------------------------------------------


def _plan_set(state: State, event: Event) -> Changes:
    steps = tuple(step_from_json(s) for s in event.payload["steps"])
    return {"plan": evolve(state.plan, steps=steps, source=event.payload["source"], current=0, started=False)}


def _step_started(state: State, event: Event) -> Changes:
    plan = evolve(
        state.plan,
        current=event.step or state.plan.current + 1,
        started=True,
        rounds=0,
        claimed="",
        to_validate=False,
        failures={},
    )
    return {"plan": plan}


def _step_completed(state: State, event: Event) -> Changes:
    recent = (*state.plan.recent, (event.payload["step_id"], event.seq, event.payload["summary"]))[-RECENT_STEPS:]
    step = state.step
    plan = evolve(
        state.plan,
        completed=state.plan.completed + 1,
        recent=recent,
        started=False,
        claimed="",
        to_validate=False,
        finished=state.plan.current >= len(state.plan.steps),
    )
    checkpoint = evolve(
        state.checkpoint,
        steps_since=state.checkpoint.steps_since + 1,
        milestone=state.checkpoint.milestone or bool(step and (step.milestone or step.validator)),
    )
    spent = budget.settle(state.budget, None, {"steps": 1})
    # A new step starts its own count of errors: the ones before it were overcome.
    return {
        "plan": plan,
        "checkpoint": checkpoint,
        "budget": spent,
        "errors_in_a_row": 0,
        "responses_unread": False,
        "recovery": evolve(state.recovery, deaths_here=0),
    }


def _step_validated(state: State, event: Event) -> Changes:
    plan = evolve(state.plan, to_validate=False)
    sandbox = evolve(state.sandbox, losses=0)
    if event.payload["satisfied"]:
        return {"plan": plan, "responses_unread": False, "sandbox": sandbox}
    told_done = bool(state.plan.claimed) or state.responses_unread
    changes: Changes = {"plan": evolve(plan, claimed=""), "responses_unread": False, "sandbox": sandbox}
    if told_done:
        note = f"Step {event.payload['step_id']} is not done: " + "; ".join(event.payload["reasons"])
        changes["context"] = evolve(state.context, notes=(*state.context.notes, note))
    return changes


def _attempt_started(state: State, event: Event) -> Changes:
    attempt = event.payload["attempt"]
    plan = evolve(state.plan, attempt=attempt, finished=False, answer="", verdict="", reasons=())
    if attempt == 1:
        return {"plan": plan}
    # Repair or redo: the plan begins again; what stands in the workspace stands.
    plan = evolve(plan, current=0, started=False, claimed="", to_validate=False)
    note = "The result was checked and is not good yet: " + "; ".join(event.payload.get("reasons", ()))
    return {
        "plan": plan,
        "context": evolve(state.context, notes=(*state.context.notes, note)),
        "responses_unread": False,
    }


def _task_validated(state: State, event: Event) -> Changes:
    verdict = "satisfied" if event.payload["satisfied"] else "unsatisfied"
    plan = evolve(state.plan, verdict=verdict, reasons=tuple(event.payload["reasons"])[:20])
    return {"plan": plan, "sandbox": evolve(state.sandbox, losses=0)}


# --- checkpoints and recovery --------------------------------------------------------------------------------------


def _checkpoint_written(state: State, event: Event) -> Changes:
    requested, also = state.checkpoint.requested, state.checkpoint.also
    if requested is not None and event.payload.get("request_id") == requested[0]:
        requested, also = (also[0], also[1:]) if also else (None, ())
    checkpoint = evolve(
        state.checkpoint,
        seq=event.seq,
        cursor=event.payload["cursor"],
        ts=event.ts,
        steps_since=0,
        milestone=False,
        large_result=False,
        requested=requested,
        also=also,
        written=state.checkpoint.written + 1,
        total_cost_ms=state.checkpoint.total_cost_ms + (event.duration_ms or 0.0),
        budget_used=budget.share(state.budget),
        effects_completed=state.effects.completed,
        passing=0,
    )
    changes: Changes = {"checkpoint": checkpoint}
    if state.budget.checkpoint_due:
        changes["budget"] = evolve(state.budget, checkpoint_due="")
    chunks = event.payload.get("effect_chunks")
    if chunks is None:
        return changes
    effects = evolve(state.effects, recent=(), chunks=tuple((d, n) for d, n in chunks))
    return {**changes, "effects": effects}


def _recovery_started(state: State, event: Event) -> Changes:
    return {"recovery": evolve(state.recovery, phase="sandbox")}


def _recovery_step(state: State, event: Event) -> Changes:
    step = event.payload["step"]
    recovery = evolve(state.recovery, step_ts=event.ts)
    if step == "rebuild":
        detail = event.payload.get("detail", {})
        note = detail.get("note", "")
        recovery = evolve(recovery, phase="verify")
        if detail.get("history") == "kept":
            return {"recovery": recovery}
        open_round = any(
            b.kind == "response" and b.round == state.context.round for b in state.context.blocks
        ) and bool(state.calls)
        context = purified(state.context, open_round)
        return {
            "context": evolve(context, notes=(*context.notes, note)) if note else context,
            "recovery": recovery,
            "responses_unread": state.responses_unread and open_round,
        }
    if step == "verify":
        recovery = evolve(recovery, phase="statement")
    return {"recovery": recovery}


def _statement_checked(state: State, event: Event) -> Changes:
    if event.payload["passed"]:
        notes = tuple(note for note in state.context.notes if not note.startswith(CORRECTION))
        recovery = evolve(state.recovery, phase="done", statement="")
        return {"recovery": recovery, "context": evolve(state.context, notes=notes)}
    corrections = "; ".join(event.payload["corrections"])
    recovery = evolve(state.recovery, statement="", corrections=state.recovery.corrections + 1)
    note = CORRECTION + corrections
    return {"recovery": recovery, "context": evolve(state.context, notes=(*state.context.notes, note))}


def _recovery_completed(state: State, event: Event) -> Changes:
    return {"recovery": evolve(state.recovery, phase=""), "control": evolve(state.control, confirm=False)}


HANDLERS: dict[str, Handler] = {
    "session_started": _session_started,
    "harness_woken": _harness_woken,
    "plan_set": _plan_set,
    "step_started": _step_started,
    "step_completed": _step_completed,
    "step_validated": _step_validated,
    "attempt_started": _attempt_started,
    "task_validated": _task_validated,
    "checkpoint_written": _checkpoint_written,
    "restored_to": fold_restored,
    "restore_refused": fold_refused,
    "recovery_started": _recovery_started,
    "recovery_step": _recovery_step,
    "statement_checked": _statement_checked,
    "recovery_completed": _recovery_completed,
    **CONTROL_HANDLERS,
    **WORK_HANDLERS,
}
