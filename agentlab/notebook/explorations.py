"""What exploring gives back: coverage, evidence, violations ready to be pasted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentlab.counting import counted
from agentlab.crashpoints import CrashPoint
from agentlab.explorer.api import Dial, Replayed
from agentlab.explorer.realrun import RealReport
from agentlab.explorer.report import NOTHING_JUDGED, Report
from agentlab.notebook.display import Shown, card, code, columns, fold, joined, lines_html, mode, paragraph, table


def _took(seconds: float) -> str:
    return "" if mode() == "plain" else f", {seconds:.1f} s"


@dataclass(frozen=True, repr=False)
class ExploreView(Shown):
    """A simulated exploration. ``report`` holds the figures; ``report.clean`` says whether every promise was kept."""

    report: Report

    def _head(self) -> str:
        r = self.report
        verdict = (
            ("every promise kept" if r.judged else NOTHING_JUDGED)
            if r.clean
            else counted(r.violating, "schedule breaks", "schedules break") + " a promise"
        )
        return (
            f"{sum(r.covered.values())} crash schedules covered, {sum(r.run.values())} states run{_took(r.seconds)}:"
            f" {verdict}" + ("" if r.complete else " (stopped before all were seen)")
        )

    def _kinds(self) -> list[tuple[Any, ...]]:
        return [(name, self.report.covered[name], self.report.run[name]) for name in self.report.covered]

    def _sometimes(self) -> list[tuple[Any, ...]]:
        return [(self.report.sometimes[name], name) for name in sorted(self.report.sometimes)]

    def text(self) -> str:
        """The report as text."""
        return joined(
            f"{self.report.task}: {self._head()}",
            columns(_KINDS, self._kinds()),
            "  ".join(_SEEN),
            *(f"{count:<5}  {name}" for count, name in self._sometimes()),
            "\n".join(self.report.coverage()),
            *map(str, self.report.violations),
        )

    def html(self) -> str:
        """The report as HTML."""
        r = self.report
        return card(
            f"{r.task}, explored",
            paragraph(self._head()),
            *(f"{paragraph(f'{v.invariant}: {v.message}')}<br>{code(_paste(v))}" for v in r.violations),
            table(_KINDS, self._kinds()),
            fold("what was seen on the way (a state never reached is no evidence)", table(_SEEN, self._sometimes())),
            lines_html(self.report.coverage()),
            status="completed" if r.clean else "failed",
        )


_KINDS = ("schedules", "covered", "run")
_SEEN = ("times", "seen")


def _paste(violation: Any) -> str:
    option = violation.paste()
    verb = "explore" if option.startswith("--schedule") else "run"
    return f"%agent {verb} {violation.task} {option}".rstrip()


@dataclass(frozen=True, repr=False)
class RealView(Shown):
    """Schedules with real processes, each compared with the simulation."""

    report: RealReport

    def _lines(self) -> list[str]:
        r = self.report
        early = "" if r.complete else "; the budget of time ended it"
        outside = "" if r.counted else "; what happened outside could not be counted"
        return [
            f"{counted(r.schedules, 'schedule')} with child processes and SIGKILL, {counted(r.kills, 'death')}, seed {r.seed}"
            f"{_took(r.seconds)}{early}{outside}: "
            + ("each ended as the simulation says" if r.clean else counted(len(r.violations), "difference"))
        ]

    def _points(self) -> str:
        return f"crash points at which a real process was killed: {len(self.report.points)} of {len(CrashPoint)}, drawn by the seed"

    def text(self) -> str:
        """The comparison as text."""
        return joined(f"{self.report.task}: {self._lines()[0]}", self._points(), *map(str, self.report.violations))

    def html(self) -> str:
        """The comparison as HTML."""
        found = [str(v) for v in self.report.violations]
        return card(
            f"{self.report.task}, for real",
            paragraph(self._lines()[0]),
            lines_html(found) if found else "",
            paragraph(self._points(), quiet=True),
            status="completed" if self.report.clean else "failed",
        )


@dataclass(frozen=True, repr=False)
class DialView(Shown):
    """What each durability setting loses, when the process is killed and when the power goes."""

    task: str
    rows: tuple[Dial, ...]

    def _rows(self) -> list[tuple[Any, ...]]:
        named = {"harness": "process killed", "power": "power lost"}
        return [
            (r.durability, named[r.death], r.schedules, r.lost_events, r.worst, r.lost_sessions, r.violations)
            for r in self.rows
        ]

    def text(self) -> str:
        """The table as text."""
        return joined(f"{self.task}: acknowledged events lost", columns(_DIAL, self._rows()))

    def html(self) -> str:
        """The table as HTML."""
        return card(f"{self.task}: acknowledged events lost", table(_DIAL, self._rows()))


_DIAL = ("durability", "death", "schedules", "events lost", "worst", "sessions lost", "promises broken")


@dataclass(frozen=True, repr=False)
class KeptView(Shown):
    """One schedule, or one drill, judged: the invariants that it breaks."""

    task: str
    judged: Replayed

    @property
    def found(self) -> tuple[tuple[str, str], ...]:
        """The invariants that it breaks, each with what was seen."""
        return self.judged.found

    def text(self) -> str:
        """What was found, one a line."""
        return joined(*(f"{self.task}: {line}" for line in self.judged.lines()))
