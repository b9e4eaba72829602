"""The simulation says the same as real processes and SIGKILL: the same schedules in both, compared event by event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from agentlab.explorer.outbox import FileOutbox
from agentlab.explorer.real import Seen, begin, real, sample, simulated, words
from agentlab.explorer.schedule import Schedule
from agentlab.lab import Lab

from . import tasks

AT_ONCE = 4


def in_batches(schedules: list[Schedule]) -> Iterator[list[Schedule]]:
    rest = iter(schedules)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch


def compare(folder: Path, schedules: list[Schedule]) -> list[str]:
    """Run all in both worlds; what differs."""
    out: list[str] = []
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
                differences = simulated(tasks.SMALL, schedule).differences(replace(seen, executed=delivered))
                out += [f"{words(schedule)}: {difference}" for difference in differences]
    return out


@pytest.mark.timeout(240)
def test_forty_schedules_end_alike_in_both_worlds(tmp_path):
    schedules = sample(tasks.SMALL, 40, seed=1, pairs=12)
    assert len(schedules) == 40
    assert compare(tmp_path, schedules) == []


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_five_hundred_schedules_end_alike_in_both_worlds(tmp_path):
    assert compare(tmp_path, sample(tasks.SMALL, 520, seed=2, pairs=320)) == []
