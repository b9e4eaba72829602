"""The timing of real sessions, read from their events: spans to replay, failure histories, checkpoint costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentlab.events import Event
from agentlab.events.kinds import KINDS
from agentlab.experiments.fit import History
from agentlab.experiments.track import Span
from agentlab.session.foldwork import LARGE_RESULT_MS

UNFINISHED = frozenset(
    {
        "model_request",
        "model_response",
        "decision",
        "tool_started",
        "effect_pending",
        "effect_completed",
        "budget_reserved",
    }
)
"""After these the harness is in the middle of something: no checkpoint is due there."""

OVERHEAD = frozenset({"checkpoint_written", "snapshot_taken", "checkpoint_skipped"})
"""Their time is what a policy costs: it is charged anew in a replay."""

RESTS = frozenset({"session_paused", "session_queued", "question_asked"})
"""Waiting begins with these; it ends with the next event that the harness appends by itself."""

INPUTS = frozenset(name for name, kind in KINDS.items() if kind.cls == "input")
"""They come at any time and take none."""


def spans_of(events: Sequence[Event]) -> list[Span]:
    """One span per event of useful work; waiting, downtime, recovery and checkpoints are left out.

    What a crash made the session do a second time is still in it: record the session without faults where you can.
    """
    spans: list[Span] = []
    verifiable: set[str] = set()
    effects: dict[str, str] = {}
    kind, recovering, resting = "", False, False
    previous = events[0].ts if events else 0
    for number, event in enumerate(events):
        if event.type in INPUTS:
            continue
        gap = max(0, event.ts - previous) / 1e6
        previous = event.ts
        payload = event.payload
        verifiable |= _verifiable(event.type, payload)
        if event.type == "tool_requested":
            effects[str(payload.get("call_id"))] = str(payload.get("effect"))
        if event.type in ("step_started", "step_completed"):
            kind = str(payload.get("kind") or kind)
        if event.type in RESTS or event.type == "harness_woken":
            resting = event.type in RESTS
            continue
        if event.type == "recovery_started":
            recovering = True
        if recovering or event.type in OVERHEAD:
            recovering = recovering and event.type != "recovery_completed"
            continue
        following = events[number + 1].type if number + 1 < len(events) else ""
        call = effects.get(str(event.call_id or payload.get("call_id")), "")
        done = event.type in ("tool_result", "tool_error")
        spans.append(Span(
            0.0 if resting else gap,
            event.type not in UNFINISHED and not (event.type == "tool_requested" and following == "tool_requested"),
            event.step or 0,
            kind if event.step else "",
            event.type == "step_completed" and str(payload.get("step_id")) in verifiable,
            event.type == "tool_result" and (event.duration_ms or 0.0) >= LARGE_RESULT_MS,
            event.type == "effect_pending",
            done and call == "sandboxed",
            event.type == "model_response",
            (event.cost_microusd or 0) / 1e6 if event.type == "model_response" else 0.0,
        ))  # fmt: skip
        resting = False
    return spans


def _verifiable(kind: str, payload: Mapping[str, Any]) -> set[str]:
    """Ids of steps that a plan declares verifiable."""
    if kind not in ("session_started", "plan_set"):
        return set()
    steps = payload.get("steps") or ()
    return {str(step["id"]) for step in steps if step.get("milestone") or step.get("validator")}


def history_of(events: Sequence[Event]) -> History:
    """When the harness crashed, in seconds of *running* time: waiting and downtime do not count as exposure.

    A crash that left a mark is placed by it; one that left none counts from the last event before it, a little early.
    """
    running, failures = 0.0, []
    resting, struck = True, 0
    previous = events[0].ts if events else 0
    for event in events:
        if event.type in INPUTS:
            if event.type == "fault_injected" and event.payload.get("target") == "harness":
                struck = struck or int(event.payload.get("at_us") or event.ts)
            continue
        gap = max(0, event.ts - previous) / 1e6
        if event.type == "harness_woken":
            if event.payload["reason"] in ("crash", "takeover"):
                running += 0.0 if resting else max(0.0, (min(struck, event.ts) - previous) / 1e6)
                failures.append(running)
            resting, struck = False, 0
            previous = event.ts
            continue
        previous = event.ts
        running += 0.0 if resting else gap
        resting = event.type in RESTS
    return History(tuple(failures), running)


def costs_of(events: Iterable[Event]) -> list[float]:
    """What each checkpoint cost, seconds, workspace snapshot included."""
    return [(event.duration_ms or 0.0) / 1000 for event in events if event.type == "checkpoint_written"]
