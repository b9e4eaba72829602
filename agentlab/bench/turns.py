"""Does a turn cost more late than early? The durable commits of a turn at turn 10 and at turn 10,000."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentlab.bench import small
from agentlab.events import Event
from agentlab.harness.loop import turn
from agentlab.harness.simulation import SimulatedWorld
from agentlab.log.store import ParquetStore
from agentlab.models.scripted import ScriptedModel
from agentlab.session.commands import Rest

AROUND = 9
"""Turns measured on either side, so that one slow fsync does not decide."""


def step_growth(folder: Path, turns: int = 10_000, runs: int = 5) -> dict[str, Any]:
    """Median over ``runs`` of (commits of a turn at turn ``turns``) / (at turn 10), on a Parquet log with fsync.

    What is timed is sealing, folding and appending of the turn's two commits; model and tool cost nothing here.
    """
    pairs = [_one(folder / f"run{number}", turns) for number in range(runs)]
    ratios = sorted(late / early for early, late in pairs)
    return {
        "step_growth": round(statistics.median(ratios), 3),
        "step_growth_runs": [round(r, 3) for r in ratios],
        "turn_10_ms": round(statistics.median(e for e, _ in pairs) * 1000, 3),
        f"turn_{turns}_ms": round(statistics.median(late for _, late in pairs) * 1000, 3),
    }


def _one(folder: Path, turns: int) -> tuple[float, float]:
    last = turns + AROUND + 1
    world = SimulatedWorld(
        model_of=lambda d: ScriptedModel(small.endless, d.model, clock=world.clock),
        resolve=small.resolve,
        store=ParquetStore(folder),
    )
    world.accept(small.many_turns(last), "s")
    rig = world.wake("s")
    rig.recorder.landed.add(_Nothing())
    spent: dict[int, float] = {}
    commit = rig.recorder.commit

    def timed(write_ahead: Sequence[Any] = ()) -> None:
        started = time.perf_counter()
        commit(write_ahead)
        number = rig.state.turns
        spent[number] = spent.get(number, 0.0) + time.perf_counter() - started

    rig.recorder.commit = timed  # type: ignore[method-assign]
    while not isinstance(turn(rig), Rest):
        pass
    early = statistics.median(spent[n] for n in range(10 - AROUND, 10 + AROUND + 1))
    late = statistics.median(spent[n] for n in range(turns - AROUND, turns + AROUND + 1))
    return early, late


class _Nothing:
    """A subscriber, as every real run has one."""

    def __call__(self, events: Sequence[Event]) -> None:
        return None
