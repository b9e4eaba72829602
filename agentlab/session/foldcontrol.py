"""The meaning of context, budget, guard, question, queue and ending events. See :mod:`agentlab.session.fold`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentlab import budget
from agentlab.context import compacted as context_compacted
from agentlab.context import purified
from agentlab.events import Event
from agentlab.evolve import evolve
from agentlab.session.state import State

Changes = dict[str, Any]
Handler = Callable[[State, Event], Changes]


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


CONTROL_HANDLERS: dict[str, Handler] = {
    "context_compacted": _context_compacted,
    "anchor_set": _anchor_set,
    "anchors_full": _anchors_full,
    "drift_measured": _drift_measured,
    "budget_reserved": _budget_reserved,
    "budget_settled": _budget_settled,
    "budget_allotted": _budget_allotted,
    "budget_refused": _budget_refused,
    "budget_alert": _budget_alert,
    "guard_verdict": _guard_verdict,
    "question_asked": _question_asked,
    "session_paused": _session_paused,
    "session_ended": _session_ended,
    "session_queued": _session_queued,
    "session_admitted": _session_admitted,
}
