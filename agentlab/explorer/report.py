"""What an exploration found, as a value, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agentlab.crashpoints import CrashPoint
from agentlab.explorer import coverage
from agentlab.explorer.schedule import Violation

NOTHING_JUDGED = "no death was judged, which is no evidence: give it more time"


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
    misdeeds: set[str] = field(default_factory=set)
    """Kinds of misdeeds of services (``tool:lost_reply``) that were to be tried."""
    struck: Counter[str] = field(default_factory=Counter)
    """How often each kind of strike struck in schedules that were run as a whole."""
    seconds: float = 0.0
    complete: bool = True
    drill: bool = False
    """Not an exploration of everything, but one exercise at every point."""
    events: int = 0

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    @property
    def clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations

    @property
    def judged(self) -> int:
        """States that were really run; where there is none, a clean report is no evidence."""
        return sum(self.run.values())

    def to_json(self) -> dict[str, Any]:
        """Plain data; the keys of ``agentlab explore TASK --json``."""
        return {
            "task": self.task,
            **coverage.figures(self.points),
            "schedules": {
                "covered": sum(self.covered.values()),
                "run": sum(self.run.values()),
                "covered_by_kind": dict(self.covered),
                "run_by_kind": dict(self.run),
            },
            "complete": self.complete,
            "misdeeds": self._misdeeds(),
            "violations": [violation.to_json() for violation in self.violations],
            "violating_schedules": self.violating,
            "sometimes": {name: self.sometimes[name] for name in sorted(self.sometimes)},
            "seconds": round(self.seconds, 3),
        }

    def _misdeeds(self) -> dict[str, Any]:
        struck = {kind: self.struck[kind] for kind in sorted(self.misdeeds)}
        return {"known": len(struck), "hit": sum(map(bool, struck.values())), "struck": struck}

    def coverage(self) -> list[str]:
        """What was reached of what there is, in words: crash points, and kinds of misdeeds where any were to be tried."""
        out = coverage.lines(self.points, self.drill)
        if self.misdeeds:
            missed = sorted(kind for kind in self.misdeeds if not self.struck[kind])
            found = self._misdeeds()
            rest = f"; not struck: {', '.join(missed)}" if missed else ""
            out.append(
                f"kinds of misdeeds that struck (model, tools, disk, clock): {found['hit']} of {found['known']}{rest}"
            )
        return out

    def lines(self) -> list[str]:
        """The report for a person."""
        kinds = ", ".join(f"{name} {self.covered[name]} ({self.run[name]} run)" for name in self.covered)
        out = [
            f"{self.task}: {sum(self.covered.values())} crash schedules covered, {sum(self.run.values())} states run,"
            f" {self.seconds:.1f} s" + ("" if self.complete else "; stopped before all were seen"),
            f"  {kinds}",
            *(f"  {line}" for line in self.coverage()),
            "  sometimes:",
            *(f"    {self.sometimes[name]:>7}  {name}" for name in sorted(self.sometimes)),
            f"  violations: {self.violating} schedules, {len(self.violations)} kinds"
            + ("" if self.judged or not self.clean else f"; {NOTHING_JUDGED}"),
        ]
        return out + [line for violation in self.violations for line in f"  {violation}".split("\n")]
