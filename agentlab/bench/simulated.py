"""Events per second of the simulated mode: whole sessions, accepted, driven and ended, on one core."""

from __future__ import annotations

import time
from typing import Any

from agentlab.bench import small
from agentlab.harness.simulation import SimulatedWorld
from agentlab.models.scripted import ScriptedModel


def simulated_events_per_second(seconds: float = 5.0) -> dict[str, Any]:
    """Run five-step sessions for ``seconds`` (process time) and count their events."""
    definition = small.five_steps()
    events = sessions = 0
    started = time.process_time()
    while (spent := time.process_time() - started) < seconds:
        world = _world()
        for number in range(50):
            name = f"s{number}"
            world.accept(definition, name)
            world.run(name)
            events += world.store.open(name).head().seq
            sessions += 1
    return {
        "simulated_events_per_second": round(events / spent),
        "simulated_sessions_per_second": round(sessions / spent, 1),
    }


def _world() -> SimulatedWorld:
    world = SimulatedWorld(
        model_of=lambda d: ScriptedModel(small.stepping, d.model, clock=world.clock), resolve=small.resolve
    )
    return world
