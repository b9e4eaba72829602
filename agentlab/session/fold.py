"""``fold(state, event) -> state``: the meaning of every event, in one pure function.

Handlers return the fields of :class:`~agentlab.session.state.State` that an event changes. Opening, plan, input
and recovery events are here; model, tool, effect and sandbox events in :mod:`agentlab.session.foldwork`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agentlab import budget
from agentlab.context import ContextSpec, purified
from agentlab.context import compacted as context_compacted
from agentlab.definition import Limits, step_from_json
from agentlab.errors import LogCorrupt
from agentlab.events import KINDS, Event
from agentlab.evolve import evolve
from agentlab.guard import GuardPolicy
from agentlab.session.foldwork import WORK_HANDLERS
from agentlab.session.forking import fold_forked
from agentlab.session.ownstate import fold_lifted
from agentlab.session.recovery import CORRECTION
from agentlab.session.state import RECENT_STEPS, ControlState, LoopState, State
from agentlab.session.superseding import OPEN_OUTSIDE, fold_refused, fold_requested, fold_restored

Changes = dict[str, Any]
Handler = Callable[[State, Event], Changes]

SEEN_INPUTS = 64
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
        changes = _input(state, event)
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
    requested = state.checkpoint.requested
    if requested is not None and event.payload.get("request_id") == requested[0]:
        requested = None
    checkpoint = evolve(
        state.checkpoint,
        seq=event.seq,
        cursor=event.payload["cursor"],
        ts=event.ts,
        steps_since=0,
        milestone=False,
        large_result=False,
        requested=requested,
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


# --- context, budget, control --------------------------------------------------------------------------------------


def _context_compacted(state: State, event: Event) -> Changes:
    return {"context": context_compacted(state.context, event.payload)}


def _anchor_set(state: State, event: Event) -> Changes:
    context, name, value = state.context, event.payload["name"], event.payload["value"]
    if not value:  # taken away: there is a free place again
        return {"context": evolve(context, anchors={k: v for k, v in context.anchors.items() if k != name}, full="")}
    if name not in context.anchors and len(context.anchors) >= context.spec.anchors:
        return {}
    return {"context": evolve(context, anchors={**context.anchors, name: value})}


def _anchors_full(state: State, event: Event) -> Changes:
    return {"context": evolve(state.context, full="now")}


def _drift_measured(state: State, event: Event) -> Changes:
    context = state.context
    if event.payload.get("by") == "model":
        context = evolve(context, judged_round=context.round)
    if event.payload["restated"]:
        context = evolve(context, restate=True, restated_round=context.round)
    return {"context": context}


def _budget_reserved(state: State, event: Event) -> Changes:
    return {"budget": budget.reserve(state.budget, event.payload["reservation"], event.payload["amounts"])}


def _budget_settled(state: State, event: Event) -> Changes:
    return {"budget": budget.settle(state.budget, event.payload["reservation"], event.payload["amounts"])}


def _budget_allotted(state: State, event: Event) -> Changes:
    refused = state.budget.refused if event.payload["reason"] == "returned" else ""
    return {"budget": evolve(state.budget, allotted=event.payload["allotted"], refused=refused)}


def _budget_refused(state: State, event: Event) -> Changes:
    return {"budget": evolve(state.budget, refused=event.payload["dimension"])}


def _budget_alert(state: State, event: Event) -> Changes:
    dimension = event.payload["dimension"]
    alerted = {**state.budget.alerted, dimension: event.payload["threshold"]}
    return {"budget": evolve(state.budget, alerted=alerted, checkpoint_due=dimension)}


def _guard_verdict(state: State, event: Event) -> Changes:
    p = event.payload
    loop = evolve(state.loop, verdict={}, rule=p["rule"], halt="" if p["action"] == "nudge" else p["action"])
    if p["action"] == "recover":
        step = state.step
        capped = f"{state.plan.attempt}:{step.id if step else ''}"
        context = purified(state.context, bool(state.calls))
        return {
            "loop": evolve(loop, halt="", capped=capped, person=True),
            "plan": evolve(state.plan, rounds=0, failures={}),
            "context": evolve(context, notes=(*context.notes, p["message"])),
        }
    if p["action"] != "nudge":
        return {"loop": loop}
    return {"loop": loop, "context": evolve(state.context, notes=(*state.context.notes, p["message"]))}


def _question_asked(state: State, event: Event) -> Changes:
    control = evolve(state.control, status="waiting", rested=True, question_seq=event.seq, question=dict(event.payload))
    return {"control": control}


def _session_paused(state: State, event: Event) -> Changes:
    control = evolve(
        state.control,
        status="paused",
        rested=True,
        reason=event.payload["reason"],
        pause_id="",
        pause_reason="",
        mode="run",
    )
    return {"control": control}


def _session_ended(state: State, event: Event) -> Changes:
    outcome = event.payload["outcome"]
    return {"control": evolve(state.control, status="ended", rested=True, reason=outcome, outcome=outcome)}


def _session_queued(state: State, event: Event) -> Changes:
    return {"control": evolve(state.control, queued=event.payload.get("place") or 1, queued_seq=event.seq)}


def _session_admitted(state: State, event: Event) -> Changes:
    return {"control": evolve(state.control, queued=0, queued_seq=0)}


# --- inputs --------------------------------------------------------------------------------------------------------


def _input(state: State, event: Event) -> Changes:
    control = state.control
    if control.resumed_at == state.seq:  # an input is no command: one step is still allowed
        control = evolve(control, resumed_at=event.seq)
    input_id = event.payload["id"]
    if input_id in control.seen:
        return {"control": control}
    control = evolve(control, seen=(*control.seen, input_id)[-SEEN_INPUTS:])
    handler = INPUTS.get(event.type)
    changes = handler(evolve(state, control=control), event) if handler else {}
    changes.setdefault("control", control)
    return changes


def _pause_requested(state: State, event: Event) -> Changes:
    if state.control.status == "ended":
        return {}
    asked = event.payload
    control = evolve(
        state.control,
        pause_id=asked["id"],
        pause_reason=asked["reason"],
        pause_detail=asked.get("detail", ""),
    )
    return {"control": control}


def _resume_requested(state: State, event: Event) -> Changes:
    control = state.control
    if control.status == "ended":
        return {}
    status = "running" if control.status in ("paused", "new") else control.status
    control = evolve(
        control,
        status=status,
        reason="",
        pause_id="",
        pause_reason="",
        mode=event.payload.get("mode", "run"),
        resumed_at=event.seq,
        resumed_ts=event.ts,
        resumed_turns=state.turns,
        resume_model=event.payload.get("model") or control.resume_model,
        tools_allowed=tuple(event.payload.get("tools") or control.tools_allowed),
        confirm=bool(event.payload.get("confirm", control.confirm)),
    )
    model = evolve(state.model, failures=0, gave_up="", waited_s=0.0, not_before_us=0)
    recovery = evolve(state.recovery, deaths_here=0)
    if recovery.corrections > 1:
        recovery = evolve(recovery, corrections=0)
    plan = evolve(state.plan, rounds=0, failures={})
    loop = evolve(state.loop, halt="", person=True)
    sandbox = evolve(state.sandbox, losses=0)
    context = evolve(state.context, over=0, full="told" if state.context.full else "")
    return {
        "budget": evolve(state.budget, refused="") if state.budget.refused else state.budget,
        "control": control,
        "context": context,
        "model": model,
        "errors_in_a_row": 0,
        "recovery": recovery,
        "plan": plan,
        "loop": loop,
        "sandbox": sandbox,
    }


def _user_reply(state: State, event: Event) -> Changes:
    control = state.control
    if control.status != "waiting" or event.payload["question_seq"] != control.question_seq:
        return {}
    answered = evolve(control, status="running", question_seq=0, question={})
    if control.question.get("kind") == "recovery":
        return _recovery_answered(state, event, answered)
    call_id = control.question.get("call_id")
    calls = state.calls
    if event.type == "user_reply":
        calls = tuple(
            evolve(c, status="answered", last_error=event.payload["text"]) if c.call_id == call_id else c for c in calls
        )
    else:
        approved = event.type == "approval_given"
        calls = tuple(
            evolve(c, approved=approved, status=c.status if approved else "denied") if c.call_id == call_id else c
            for c in calls
        )
    return {"control": answered, "calls": calls, "loop": evolve(state.loop, person=True)}


def _recovery_answered(state: State, event: Event, answered: ControlState) -> Changes:
    """A person was asked whether the session may go on after a crash; whatever is no approval pauses it."""
    if event.type == "approval_given":
        return {"control": answered, "recovery": evolve(state.recovery, confirmed=True)}
    said = str(event.payload.get("text") or event.payload.get("note") or "")
    paused = evolve(
        answered, pause_id=event.payload["id"], pause_reason="recovery not confirmed", pause_detail=said[:500]
    )
    return {"control": paused}


def _budget_extended(state: State, event: Event) -> Changes:
    p = event.payload
    return {"budget": budget.extend(state.budget, p["dimension"], p["limit"], p["expected_version"])}


def _usage_reported(state: State, event: Event) -> Changes:
    return {"budget": budget.known(state.budget, event.payload["reservation"], event.payload["amounts"])}


def _checkpoint_requested(state: State, event: Event) -> Changes:
    requested = (event.payload["id"], event.payload.get("label") or "")
    return {"checkpoint": evolve(state.checkpoint, requested=requested)}


def _effect_settled(state: State, event: Event) -> Changes:
    decision = {"done": "settled_done", "retry": "requested", "skip": "settled_skip"}[event.payload["decision"]]
    calls = tuple(
        evolve(c, status=decision, tries=0 if decision == "requested" else c.tries)
        if c.key == event.payload["key"] and c.status == "in_doubt"
        else c
        for c in state.calls
    )
    # Of a superseded call only the record matters: nobody waits for it to be done after all.
    calls = tuple(c for c in calls if not c.superseded or c.status in OPEN_OUTSIDE)
    control = state.control
    if control.status == "waiting" and control.question.get("key") == event.payload["key"]:
        control = evolve(control, status="running", question_seq=0, question={})
    return {"calls": calls, "control": control}


def _fault_armed(state: State, event: Event) -> Changes:
    return {"faults": (*state.faults, *event.payload["schedule"])[-256:]}


def _fault_injected(state: State, event: Event) -> Changes:
    return {"faults": tuple(f for f in state.faults if f.get("id") != event.payload["fault"])}


INPUTS: dict[str, Handler] = {
    "fault_armed": _fault_armed,
    "fault_injected": _fault_injected,
    "pause_requested": _pause_requested,
    "resume_requested": _resume_requested,
    "user_reply": _user_reply,
    "approval_given": _user_reply,
    "approval_denied": _user_reply,
    "budget_extended": _budget_extended,
    "usage_reported": _usage_reported,
    "checkpoint_requested": _checkpoint_requested,
    "effect_settled": _effect_settled,
    "restore_requested": fold_requested,
    "own_state_lifted": fold_lifted,
}

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
    "context_compacted": _context_compacted,
    "anchor_set": _anchor_set,
    "anchors_full": _anchors_full,
    "drift_measured": _drift_measured,
    "budget_reserved": _budget_reserved,
    "budget_settled": _budget_settled,
    "budget_alert": _budget_alert,
    "budget_allotted": _budget_allotted,
    "budget_refused": _budget_refused,
    "guard_verdict": _guard_verdict,
    "question_asked": _question_asked,
    "session_queued": _session_queued,
    "session_admitted": _session_admitted,
    "session_paused": _session_paused,
    "session_ended": _session_ended,
    **WORK_HANDLERS,
}
