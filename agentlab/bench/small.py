"""A task that needs nothing from outside: the load under which commits and the simulated mode are measured."""

from __future__ import annotations

from typing import Any

from agentlab.definition import BUILTIN_TOOLS, Definition, Limits, PolicySpec, StepSpec, ToolSpec
from agentlab.models.scripted import call, say
from agentlab.models.view import View

ANY = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def resolve(ref: Any) -> Any:
    """The one callable there is."""
    return add


def stepping(view: View) -> Any:
    """One call a step, then the end."""
    step = view.status.get("step")
    return [say("adding"), call("add", a=int(view.status["number"]), b=2)] if step else say("done")


def endless(view: View) -> Any:
    """The same pair of calls for ever."""
    return [say("again"), call("add", a=1, b=2)]


def five_steps() -> Definition:
    """Five steps of one pure call each, checkpoints at milestones: about 40 events."""
    return _definition(tuple(StepSpec(f"s{i}", tool="add") for i in range(1, 6)), Limits(), PolicySpec("milestones"))


def many_turns(turns: int) -> Definition:
    """One pure call a turn for ``turns`` turns, no checkpoints: what grows with history would show."""
    return _definition((), Limits(max_turns=turns, rounds_per_step=None), PolicySpec("never"))


def _definition(steps: tuple[StepSpec, ...], limits: Limits, policy: PolicySpec) -> Definition:
    tool = ToolSpec("add", "Add two numbers.", ANY, ref={"kind": "local", "name": "add"})
    return Definition(
        task="bench",
        goal="Add numbers.",
        model="scripted:bench",
        steps=steps,
        tools=(tool, *BUILTIN_TOOLS.values()),
        limits=limits,
        policy=policy,
        guard={"enabled": False},
    )
