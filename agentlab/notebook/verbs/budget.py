"""budget: what a session used, reserved and has left, what it may need, and giving it more."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from agentlab.budget.report import HEADS, BudgetReport
from agentlab.budget.words import amounts, extension
from agentlab.lab import Session
from agentlab.lab.pool import HEADS as POOL_HEADS
from agentlab.lab.pool import PoolReport
from agentlab.notebook.display import Shown, card, columns, commands_html, commands_text, joined, mode, paragraph, table
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.results import RunResult, next_commands
from agentlab.notebook.verbs.running import finish


@dataclass(frozen=True, repr=False)
class BudgetView(Shown):
    """The budget of a session as of the moment of asking; ``report`` holds the numbers."""

    session: Session
    report: BudgetReport
    commands: dict[str, str]

    @classmethod
    def of(cls, session: Session) -> BudgetView:
        """The session's budget now."""
        commands = next_commands(session)
        refused = session.state.budget.refused
        if refused:
            commands = {f"%agent budget --lab extend {refused}=AMOUNT": "the lab's pool has no more", **commands}
        report = session.budget()
        limited = [row for row in report.rows if row.limit]
        if limited and session.state.control.status != "ended":
            scarcest = min(limited, key=lambda row: (row.left or 0) / (row.limit or 1))
            commands = {
                f"%agent budget extend {scarcest.dimension}=AMOUNT": "give it more, and go on if it waits for it",
                **commands,
            }
        return cls(session, report, commands)

    def _rows(self) -> list[tuple[str, ...]]:
        """The rows; times are left out where output must not change from run to run."""
        rows = self.report.table()
        if mode() != "plain":
            return rows
        return [(r[0], *("…" if v.endswith(" s") or " s (" in v else v for v in r[1:])) for r in rows]

    def text(self) -> str:
        """The budget as a text table."""
        table_ = columns(HEADS, self._rows())
        return joined(f"budget of {self.session.id}", table_, *self.report.remarks(), commands_text(self.commands))

    def html(self) -> str:
        """The budget as an HTML table."""
        remarks = [paragraph(remark) for remark in self.report.remarks()]
        title = f"budget of {self.session.id}"
        return card(title, table(HEADS, self._rows()), *remarks, commands_html(self.commands))


@dataclass(frozen=True, repr=False)
class PoolView(Shown):
    """The budget that the sessions of a lab share."""

    report: PoolReport

    def text(self) -> str:
        """The shared budget as text."""
        return str(self.report)

    def html(self) -> str:
        """The shared budget as an HTML table."""
        if not self.report.rows and not self.report.quotas:
            return card("shared budget of the lab", paragraph(str(self.report)))
        remarks = [paragraph(remark, quiet=True) for remark in self.report.remarks()]
        return card("shared budget of the lab", table(POOL_HEADS, self.report.table()), *remarks)


def _shared(request: Request) -> PoolView:
    """What all sessions of the lab share: shown, limited or extended."""
    pool, words = request.place.lab.pool, request.options.words
    if words and words[0] == "limit":
        pool.limit(**amounts(words[1:]))
    elif words and words[0] == "quota":
        pool.quota(**amounts(words[1:]))
    elif words:
        pool.extend(**extension(words))
    return PoolView(pool())


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="extend DIMENSION=AMOUNT", help="give limits more: tokens=20k cost=2.50"
    )
    parser.add_argument("--session", metavar="ID", help="a session's id; the one in hand without it")
    parser.add_argument(
        "--lab",
        action="store_true",
        help="what all sessions share: --lab limit tokens=1M (or none), --lab quota requests=50",
    )
    parser.add_argument("--stay", action="store_true", help="after an extension: do not go on by itself")


@verb("budget", "used, reserved, at risk, left, forecast", "%agent budget extend tokens=20k", _arguments)
def budget(request: Request) -> BudgetView | PoolView | RunResult:
    """Show the budget, or give it more: a session that paused for its budget then goes on where it was."""
    if request.options.lab:
        return _shared(request)
    session = request.place.session(request.options.session)
    if not request.options.words:
        return BudgetView.of(session)
    session.budget.extend(**extension(request.options.words))
    control = session.state.control
    if request.options.stay or control.status != "paused" or control.reason != "budget":
        return BudgetView.of(session)
    session.wake(background=True)
    return finish(session)
