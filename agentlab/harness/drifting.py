"""Drift, measured before each round: by words always, by a model where one is named as judge."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from agentlab.context.drift import Terms, action_terms, distance, step_terms, task_terms
from agentlab.errors import PayloadError
from agentlab.events import Draft, canonical, parse
from agentlab.harness.rig import Rig

JUDGE_PROMPT = (
    "Judge whether the work is still about the task. Answer with one JSON object: distance, a number from 0 (right on"
    " it) to 1 (about something else), and why, one sentence. The last actions, and a measure of words in common:"
)


def measure(rig: Rig) -> float | None:
    """The distance between the task and the last rounds; None before there are any, or when there are no words."""
    context, state = rig.state.context, rig.state
    if not context.spec.drift_rounds:
        return None
    actions: list[Terms] = []
    numbers = {state.plan.current}
    for block in reversed(context.blocks):
        if block.kind == "response":
            found, number = _of_round(rig, block.seq)
            actions.append(found)
            numbers.add(number)
            if len(actions) == context.spec.drift_rounds:
                break
    if not actions:
        return None
    return distance(actions, [_of_task(rig), *(_of_step(rig, n) for n in numbers)], context.course)


def told(rig: Rig, measured: float | None) -> list[Draft]:
    """The event of a drift past the threshold: the task is put on top again, at most once in as many rounds as count."""
    context = rig.state.context
    spec = context.spec
    if measured is None or measured <= spec.drift_threshold or context.restate:
        return []
    if context.round - context.restated_round < spec.drift_rounds or context.round < spec.drift_rounds:
        return []
    seqs = [b.seq for b in context.blocks if b.kind == "response"][-spec.drift_rounds :]
    payload = {"distance": measured, "threshold": spec.drift_threshold, "restated": True, "rounds": seqs}
    return [Draft("drift_measured", payload, step=rig.state.plan.current or None)]


def judge_text(rig: Rig) -> str:
    """What the judge is asked, with the last actions and the measured distance."""
    lines = []
    for block in rig.state.context.blocks:
        if block.kind == "response":
            event = rig.event(block.seq)
            tools = ", ".join(str(b.get("name")) for b in _uses(rig.content(event.payload["content"])))
            lines.append(f"- {str(event.payload.get('text', ''))[:300]}" + (f" [{tools}]" if tools else ""))
    facts = canonical({"distance": measure(rig)})
    return "\n".join([JUDGE_PROMPT, *lines[-2 * rig.state.context.spec.drift_rounds :], f"<facts>{facts}</facts>"])


def judged(rig: Rig, text: str) -> list[Draft]:
    """The event of a judge's answer; none when it is no judgement."""
    start, end = text.find("{"), text.rfind("}")
    said: Any = None
    with contextlib.suppress(PayloadError):
        said = parse(text[start : end + 1]) if start >= 0 else None
    found = said.get("distance") if isinstance(said, Mapping) else None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= 1:
        return []
    threshold = rig.state.context.spec.drift_threshold
    payload = {"distance": found, "threshold": threshold, "restated": found > threshold, "by": "model",
               "why": str(said.get("why", ""))[:500]}  # fmt: skip
    return [Draft("drift_measured", payload, step=rig.state.plan.current or None)]


def _uses(content: Any) -> list[Mapping[str, Any]]:
    return [b for b in content if b.get("type") == "tool_use"] if isinstance(content, list) else []


def _of_round(rig: Rig, seq: int) -> tuple[Terms, int]:
    found = rig.terms.get(seq)
    if found is None:
        event = rig.event(seq)
        found = rig.terms[seq] = (action_terms(event.payload), event.step or 0)
    return found


def _of_task(rig: Rig) -> Terms:
    found = rig.terms.get(0)
    if found is None:
        d = rig.run.definition
        found = rig.terms[0] = (task_terms(d.goal, d.user_input, d.constraints, d.params), 0)
    return found[0]


def _of_step(rig: Rig, number: int) -> Terms:
    steps = rig.state.plan.steps
    if not 0 < number <= len(steps):
        return frozenset()
    step = steps[number - 1]
    if -number not in rig.terms or rig.terms_of_plan is not steps:
        if rig.terms_of_plan is not steps:
            rig.terms = {key: value for key, value in rig.terms.items() if key >= 0}
            rig.terms_of_plan = steps
        rig.terms[-number] = (step_terms(step.id, step.title, step.tool or "", step.parameters, step.expected), 0)
    return rig.terms[-number][0]
