"""The meaning of inputs, which come from anyone at any time and count once each. See :mod:`agentlab.session.fold`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentlab import budget
from agentlab.events import Event
from agentlab.evolve import evolve
from agentlab.session.ownstate import fold_lifted
from agentlab.session.state import LEFT_UNDONE, ControlState, Settled, State
from agentlab.session.superseding import OPEN_OUTSIDE, fold_requested

Changes = dict[str, Any]
Handler = Callable[[State, Event], Changes]

SEEN_INPUTS = 64
MAX_REQUESTS = 20
"""Labels that wait for a checkpoint at once; more are not taken."""


def fold_input(state: State, event: Event) -> Changes:
    """The fold of any input: it counts once, whoever sends it however often."""
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


ANSWERS: Mapping[str, frozenset[str]] = {
    "effect": frozenset(),
    "approval": frozenset({"approval_given", "approval_denied"}),
    "recovery": frozenset({"approval_given", "approval_denied", "user_reply"}),
    "question": frozenset({"user_reply", "approval_denied"}),
}
"""By kind of question the inputs that answer it. An effect in doubt is settled and nothing else: whoever says a word about
it has not said whether it happened. A call that needs approval is no question whose answer could be its result."""


def _user_reply(state: State, event: Event) -> Changes:
    control = state.control
    if control.status != "waiting" or event.payload["question_seq"] != control.question_seq:
        return {}
    if event.type not in ANSWERS.get(str(control.question.get("kind")), {event.type}):
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
    """One checkpoint answers all requests without a label; every label that is asked for gets one of its own."""
    found: tuple[str, str] = (event.payload["id"], event.payload.get("label") or "")
    waiting, also = state.checkpoint.requested, state.checkpoint.also
    if waiting is None or not waiting[1]:
        return {"checkpoint": evolve(state.checkpoint, requested=found if found[1] or waiting is None else waiting)}
    if not found[1] or found[1] in [label for _, label in (waiting, *also)] or len(also) >= MAX_REQUESTS:
        return {}
    return {"checkpoint": evolve(state.checkpoint, also=(*also, found))}


def _effect_settled(state: State, event: Event) -> Changes:
    decision = {"done": "settled_done", "retry": "requested", "skip": "settled_skip"}[event.payload["decision"]]
    calls = tuple(
        evolve(c, status=decision, tries=0 if decision == "requested" else c.tries)
        if c.key == event.payload["key"] and c.status == "in_doubt"
        else c
        for c in state.calls
    )
    left = tuple(
        Settled(c.key, c.tool, c.input_hash, c.seq, event.seq, LEFT_UNDONE)
        for c in calls
        if c.key == event.payload["key"] and c.status == "settled_skip"
    )
    effects = evolve(state.effects, recent=(*state.effects.recent, *left)) if left else state.effects
    # Of a superseded call only the record matters: nobody waits for it to be done after all.
    calls = tuple(c for c in calls if not c.superseded or c.status in OPEN_OUTSIDE)
    control = state.control
    if control.status == "waiting" and control.question.get("key") == event.payload["key"]:
        control = evolve(control, status="running", question_seq=0, question={})
    return {"calls": calls, "control": control, "effects": effects}


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
