"""The simulation says the same as real processes and SIGKILL: the same schedules in both, compared event by event."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pytest

from agentlab.crashpoints import CrashPoint
from agentlab.explorer.coverage import OF_A_HARNESS, REAL_ONLY
from agentlab.explorer.outbox import FileOutbox
from agentlab.explorer.real import Seen, begin, compared, real, sample, words
from agentlab.explorer.schedule import Schedule, Strike
from agentlab.explorer.troubles import Trouble
from agentlab.lab import Lab

from . import tasks

AT_ONCE = 4


@dataclass
class Compared:
    """What differed, and what there was to differ."""

    differences: list[str] = field(default_factory=list)
    killed: int = 0
    """Schedules in which at least one real process was killed."""
    deaths: int = 0
    points: set[CrashPoint] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    schedules: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.schedules} real schedules, {self.killed} of them with a real kill, {self.deaths} strikes at {len(self.points)}"
            f" crash points, {self.seconds:.0f} s, {len(self.differences)} differences from the simulation"
        )


def in_batches(schedules: list[Schedule]) -> Iterator[list[Schedule]]:
    rest = iter(schedules)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch


def compare(folder: Path, schedules: list[Schedule]) -> Compared:
    """Run all in both worlds."""
    began, out = time.monotonic(), Compared()
    with Lab(folder / "lab") as lab:
        for number, batch in enumerate(in_batches(schedules)):
            running = []
            for index, schedule in enumerate(batch):
                box = folder / f"outbox-{number}-{index}.jsonl"
                session = begin(lab, tasks.SMALL, schedule, params={"outbox": str(box)})
                running.append((schedule, session, box))
            for schedule, session, box in running:
                seen: Seen = real(session, 0)
                delivered = sum("message" in line for line in FileOutbox(box)._lines())
                differences = compared(tasks.SMALL, schedule, replace(seen, executed=delivered))
                out.differences += [f"{words(schedule)}: {difference}" for difference in differences]
                count(out, schedule, seen)
    out.seconds = time.monotonic() - began
    return out


def count(out: Compared, schedule: Schedule, seen: Seen) -> None:
    out.schedules += 1
    out.deaths += seen.struck
    if seen.struck:
        out.killed += any(isinstance(strike, Strike) for strike in schedule)
        out.points |= {strike.point for strike in schedule if isinstance(strike, Strike)}
        out.kinds |= {strike.kind for strike in schedule if isinstance(strike, Trouble)}


@pytest.mark.timeout(900)
def test_forty_schedules_of_real_kills_end_alike_in_both_worlds(tmp_path, record_property):
    found = compare(tmp_path, sample(tasks.SMALL, 45, seed=1, pairs=8, others=8))
    record_property("figures", str(found))
    assert not found.differences, "\n".join(found.differences)
    assert found.killed >= 40 and len(found.kinds) >= 3, "and some of services that misbehave"
    assert found.points & set(REAL_ONLY), "some where a simulation has no point"


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_five_hundred_schedules_of_real_kills_end_alike_in_both_worlds(tmp_path, record_property):
    schedules = sample(tasks.SMALL, 526, seed=2, pairs=300, others=44)
    assert len(set(schedules)) > 500, "hardly any of them twice"
    found = compare(tmp_path, schedules)
    record_property("figures", str(found))
    assert not found.differences, "\n".join(found.differences)
    assert found.killed >= 500 and len(found.kinds) >= 8
    assert set(REAL_ONLY) & set(OF_A_HARNESS) <= found.points, "a real kill wherever a simulation has no point"
