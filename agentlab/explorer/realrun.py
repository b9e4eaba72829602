"""Real mode: schedules drawn by seed, run with child processes and SIGKILL, compared with what the simulation says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from agentlab.crashpoints import CrashPoint
from agentlab.explorer.judging import SOMETIMES
from agentlab.explorer.outbox import FileOutbox
from agentlab.explorer.real import Seen, begin, compared, real, sample, simulated, words
from agentlab.explorer.schedule import Schedule, Strike
from agentlab.explorer.troubles import Trouble

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
    points: set[CrashPoint] = field(default_factory=set)
    """Crash points at which a real process was killed."""
    struck: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(SOMETIMES, 0)))
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
            "crash_points": len(CrashPoint),
            "points_hit": len(self.points),
            "points_not_hit": sorted(point.value for point in CrashPoint if point not in self.points),
            "schedules": {"run": self.schedules, "struck_by_kind": dict(sorted(self.struck.items()))},
            "kills": self.kills,
            "sometimes": {name: self.sometimes[name] for name in sorted(self.sometimes)},
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
            f"  crash points at which a real process was killed: {len(self.points)} of {len(CrashPoint)}, drawn by the seed",
            *(f"    {self.sometimes[name]:>4}  {name}" for name in sorted(self.sometimes)),
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
    schedules = sample(task, count, seed, pairs=count // 2 if pairs else 0, others=count // 4)
    report.counted = _run(lab, task, [()], params, executed)[0][1].executed == simulated(task, ()).executed
    for batch in _batches(schedules):
        if time.monotonic() - began > budget_s:
            report.complete = False
            break
        for schedule, seen in _run(lab, task, batch, params, executed):
            if not report.counted:
                seen = replace(seen, executed=simulated(task, schedule).executed)
            report.schedules += 1
            report.kills += max(0, seen.struck - sum(isinstance(strike, Trouble) for strike in schedule))
            if seen.struck:
                report.points |= {strike.point for strike in schedule if isinstance(strike, Strike)}
                report.struck.update(strike.kind for strike in schedule)
            report.sometimes.update(seen.sometimes)
            report.violations += [Difference(words(schedule), text) for text in compared(task, schedule, seen)]
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
