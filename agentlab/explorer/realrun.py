"""Real mode: schedules drawn by seed, run with child processes and SIGKILL, compared with what the simulation says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from agentlab.explorer.outbox import FileOutbox
from agentlab.explorer.real import Seen, begin, real, sample, simulated, words
from agentlab.explorer.schedule import Schedule

AT_ONCE = 4
"""Sessions in flight at once: a harness spends most of its time waiting for processes and disks."""
COUNT = 40


@dataclass(frozen=True, slots=True)
class Difference:
    """A schedule that ended otherwise than the simulation says, as something to paste behind ``--crash``."""

    schedule: str
    message: str

    def __str__(self) -> str:
        return f"{self.schedule}: {self.message}"


@dataclass
class RealReport:
    """Real kills, and whether each schedule ended as the simulation says it must."""

    task: str
    seed: int
    schedules: int = 0
    kills: int = 0
    violations: list[Difference] = field(default_factory=list)
    seconds: float = 0.0
    complete: bool = True
    counted: bool = True
    """Whether what happened outside could be counted; else only the logs are compared."""

    @property
    def clean(self) -> bool:
        """Whether every schedule ended alike in both worlds."""
        return not self.violations

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "task": self.task,
            "mode": "real",
            "seed": self.seed,
            "schedules": self.schedules,
            "kills": self.kills,
            "violations": [{"crash": v.schedule, "message": v.message} for v in self.violations],
            "complete": self.complete,
            "effects_counted": self.counted,
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> list[str]:
        """The report for a person."""
        early = "" if self.complete else "; stopped by the budget of time"
        outside = "effects outside counted" if self.counted else "effects outside could not be counted"
        return [
            f"{self.task}: {self.schedules} schedules with real processes, {self.kills} real deaths, seed {self.seed},"
            f" {self.seconds:.1f} s{early}",
            f"  each compared with the simulation, event by event; {outside}",
            f"  differences: {len(self.violations)}",
            *(f"    {difference}" for difference in self.violations),
        ]


Executed = Callable[[str], int]
"""How many effects of a session (by its id) the outside has executed, by its own ledger."""


def explore_real(
    lab: Any,
    task: Any,
    *,
    seed: int = 0,
    count: int = COUNT,
    pairs: bool = False,
    budget_s: float = float("inf"),
    params: dict[str, Any] | None = None,
    executed: Executed | None = None,
) -> RealReport:
    """Run ``count`` schedules for real in ``lab`` until ``budget_s`` seconds are over, and compare each.

    ``pairs`` gives half of them a second death during the recovery. ``params`` go to every session (where the outside
    is found); ``executed`` asks the outside. Without it tasks that deliver to the outbox are counted by their file.
    """
    began = time.monotonic()
    report = RealReport(str(task.name), seed)
    schedules = sample(task, count, seed, pairs=count // 2 if pairs else 0)
    report.counted = _run(lab, task, [()], params, executed)[0][1].executed == simulated(task, ()).executed
    for batch in _batches(schedules):
        if time.monotonic() - began > budget_s:
            report.complete = False
            break
        for schedule, seen in _run(lab, task, batch, params, executed):
            expected = simulated(task, schedule)
            if not report.counted:
                seen = replace(seen, executed=expected.executed)
            report.schedules += 1
            report.kills += seen.struck
            report.violations += [Difference(words(schedule), text) for text in expected.differences(seen)]
    report.seconds = time.monotonic() - began
    return report


def _batches(schedules: Sequence[Schedule]) -> Iterator[list[Schedule]]:
    rest = iter(schedules)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch


def _run(
    lab: Any, task: Any, batch: list[Schedule], params: dict[str, Any] | None, executed: Executed | None
) -> list[tuple[Schedule, Seen]]:
    running = []
    for schedule in batch:
        number = len(lab.store.sessions()) + 1
        box = Path(lab.path) / f"outbox-{number}.jsonl"
        given = {**task.params, "outbox": str(box), **(params or {})}
        running.append((schedule, begin(lab, task, schedule, params=given), box))
    out = []
    for schedule, session, box in running:
        seen = real(session, 0)
        delivered = sum("message" in line for line in FileOutbox(box)._lines())
        delivered += executed(session.id) if executed is not None else 0
        out.append((schedule, replace(seen, executed=delivered)))
    return out
