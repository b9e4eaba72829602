"""What guard, budget and context together add to a step, late in a long session."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import Any

from agentlab.bench import small
from agentlab.definition import Definition, Limits
from agentlab.errors import AgentlabError
from agentlab.harness.loop import turn
from agentlab.harness.simulation import SimulatedWorld
from agentlab.models.scripted import ScriptedModel, call, say
from agentlab.session.commands import Rest

MEASURED = 600
"""Turns over which the mean is taken: twenty compactions are among them."""
PLENTY = 10**12


def step_overhead(turns: int = 10_000, runs: int = 3) -> dict[str, Any]:
    """Milliseconds of processor time that guard, budget and context add to a turn around turn ``turns``.

    The same session of one call a turn with the guard on, every budget limited, conclusions, anchors and drift, less
    the same with all of that off (scratch is then only cut to the newest rounds, without which no session can go on).
    Memory store, model and tool at no cost; the least of ``runs`` differences, as other work on the machine only adds.
    """
    pairs = [(_mean(_with(turns), turns), _mean(_without(turns), turns)) for _ in range(runs)]
    return {
        "step_overhead_ms": round(min(on - off for on, off in pairs) * 1000, 4),
        "step_ms_with_all": round(statistics.median(on for on, _ in pairs) * 1000, 4),
        "step_ms_without": round(statistics.median(off for _, off in pairs) * 1000, 4),
    }


def _with(turns: int) -> Definition:
    base = small.many_turns(turns + 1)
    limits = Limits(
        max_turns=turns + 1,
        rounds_per_step=None,
        input_tokens=PLENTY,
        output_tokens=PLENTY,
        tool_calls=PLENTY,
        tool_calls_by_tool={"add": PLENTY},
    )
    return replace(base, limits=limits, guard={})


def _without(turns: int) -> Definition:
    off = {"strategy": "window", "extract": False, "drift_rounds": 0}
    return replace(small.many_turns(turns + 1), guard={"enabled": False}, context=off)


def _mean(definition: Definition, turns: int) -> float:
    """Seconds of processor time of a turn, the mean over the last turns."""
    number = 0

    def busy(view: Any) -> Any:
        nonlocal number
        number += 1
        return [say(f"add number {number} to the sum of the numbers"), call("add", a=number, b=number % 7)]

    world = SimulatedWorld(model_of=lambda d: ScriptedModel(busy, d.model, clock=world.clock), resolve=small.resolve)
    world.accept(definition, "s")
    rig = world.wake("s")
    first = max(0, turns - MEASURED)
    started = 0.0
    while not isinstance(turn(rig), Rest):
        if not started and rig.state.turns >= first:
            started = time.process_time()
    if rig.state.turns < turns:
        raise AgentlabError(f"the measured session rested after {rig.state.turns} of {turns} turns")
    return (time.process_time() - started) / (rig.state.turns - first)
