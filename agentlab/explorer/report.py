"""What an exploration found, as a value, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agentlab.crashpoints import CrashPoint
from agentlab.explorer.schedule import Violation


@dataclass(repr=False)
class Report:
    """Coverage and violations. ``covered`` counts visits where a death was judged, ``run`` the states really run.

    Printed, or as the last line of a cell, it is the report for a person; :meth:`to_json` gives plain data.
    """

    task: str
    points: set[CrashPoint] = field(default_factory=set)
    covered: Counter[str] = field(default_factory=Counter)
    run: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    violating: int = 0
    sometimes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    complete: bool = True
    events: int = 0

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    @property
    def clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations

    def to_json(self) -> dict[str, Any]:
        """Plain data; the keys of ``agentlab explore TASK --json``."""
        return {
            "task": self.task,
            "crash_points": len(CrashPoint),
            "points_hit": len(self.points),
            "points_not_hit": sorted(p.value for p in CrashPoint if p not in self.points),
            "schedules": {
                "covered": sum(self.covered.values()),
                "run": sum(self.run.values()),
                "covered_by_kind": dict(self.covered),
                "run_by_kind": dict(self.run),
            },
            "complete": self.complete,
            "violations": [violation.to_json() for violation in self.violations],
            "violating_schedules": self.violating,
            "sometimes": {name: self.sometimes[name] for name in sorted(self.sometimes)},
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> list[str]:
        """The report for a person."""
        kinds = ", ".join(f"{name} {self.covered[name]} ({self.run[name]} run)" for name in self.covered)
        out = [
            f"{self.task}: {sum(self.covered.values())} crash schedules covered, {sum(self.run.values())} states run,"
            f" {self.seconds:.1f} s" + ("" if self.complete else "; stopped before all were seen"),
            f"  {kinds}",
            f"  crash points hit: {len(self.points)} of {len(CrashPoint)}",
            "  not reached: " + ", ".join(sorted(p.value for p in CrashPoint if p not in self.points)),
            "  sometimes:",
            *(f"    {self.sometimes[name]:>7}  {name}" for name in sorted(self.sometimes)),
            f"  violations: {self.violating} schedules, {len(self.violations)} kinds",
        ]
        return out + [line for violation in self.violations for line in f"  {violation}".split("\n")]
