"""A user's own part of a session's state, in a version of the user's own: pinned facts and what the pending steps say.

When a task changes what it pins or how its steps are parametrised, the sessions of before are lifted by an input event,
``own_state_lifted``: it carries what the user's upcasters gave, so that the fold needs none of the user's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab.definition import StepSpec
from agentlab.events import Event
from agentlab.evolve import evolve
from agentlab.session.state import State


def own_state(state: State) -> dict[str, Any]:
    """The user's part as plain JSON: ``facts`` (name to text) and ``steps`` (id, title, parameters, expected) to come."""
    done = state.plan.current - 1 if state.plan.started else state.plan.current
    return {
        "facts": dict(state.context.anchors),
        "steps": [
            {"id": s.id, "title": s.title, "parameters": dict(s.parameters), "expected": s.expected}
            for s in state.plan.steps[max(0, done) :]
        ],
    }


def fold_lifted(state: State, event: Event) -> dict[str, Any]:
    """The fold of ``own_state_lifted``. One that does not begin at the version in force changes nothing."""
    p = event.payload
    if state.control.status == "ended" or (state.control.own_version or p["from_version"]) != p["from_version"]:
        return {}
    facts = {str(name): str(value) for name, value in p["facts"].items()}
    changed = {str(step["id"]): step for step in p["steps"]}
    steps = tuple(_step(s, changed.get(s.id)) for s in state.plan.steps)
    return {
        "control": evolve(state.control, own_version=int(p["to_version"])),
        "context": evolve(state.context, anchors=facts),
        "plan": evolve(state.plan, steps=steps),
    }


def _step(step: StepSpec, changed: Mapping[str, Any] | None) -> StepSpec:
    if changed is None:
        return step
    return evolve(
        step,
        title=str(changed["title"]),
        parameters=dict(changed["parameters"]),
        expected=str(changed["expected"]),
    )
