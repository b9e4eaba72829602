"""sql, diagnose, plot, report: questions to the logs, which never change anything in them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentlab.errors import UnknownName, UserError
from agentlab.notebook.display import Shown, card, fold, joined, paragraph, table
from agentlab.notebook.registry import Request, verb
from agentlab.query.views import VIEWS, View

if TYPE_CHECKING:
    from agentlab.analysis import Diagnosis, Report

PLOTS = ("burn", "context", "effects", "latency", "latency_over_run", "loops", "recovery", "timeline")
"""Plots of sessions; importing them here would cost every start of a kernel."""


# --- SQL ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ViewsView(Shown):
    """What can be asked: the views, column by column. ``lab.query.views()`` is the same as a data frame."""

    views: tuple[View, ...]

    def text(self) -> str:
        """Every view with its columns."""
        return "\n\n".join(joined(f"{view.name}: {view.meaning}", *_lines(view)) for view in self.views)

    def html(self) -> str:
        """Every view with its columns; of several, each in a fold."""
        parts = []
        for view in self.views:
            inner = table(("column", "type", "meaning"), [(c.name, c.type, c.meaning) for c in view.columns])
            title = f"{view.name}: {view.meaning} ({len(view.columns)} columns)"
            parts.append(fold(title, inner) if len(self.views) > 1 else paragraph(view.meaning) + inner)
        names = self.views[0].name if len(self.views) == 1 else f"{len(self.views)} views"
        return card(names, *parts, paragraph("%agent sql SELECT … FROM …; units are in the names", quiet=True))


def _lines(view: View) -> list[str]:
    width = max(len(column.name) for column in view.columns)
    return [f"  {column.name:<{width}}  {column.type:<5}  {column.meaning}" for column in view.columns]


def _sql_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--views", action="store_true", help="what can be asked, column by column; then a view's name")
    parser.add_argument("--into", metavar="NAME", help="also put the data frame into this variable")
    parser.add_argument("query", nargs="*", help="DuckDB's SQL over all sessions of the lab; or the body of the cell")


@verb("sql", "ask all sessions of the lab; the answer is a data frame", "%agent sql SELECT * FROM sessions",
      _sql_arguments, takes_cell=True, takes_text=True)  # fmt: skip
def sql(request: Request) -> Any:
    """The answer as a pandas data frame."""
    text = "\n".join(part for part in (request.text, request.cell or "") if part.strip())
    if request.options.views or not text.strip():
        return _views(text.split())
    with _telling():
        frame = request.place.lab.sql(text)
    into = request.options.into
    if into is not None:
        if not into.isidentifier():
            raise UserError(f"--into {into}: name a variable")
        if isinstance(request.namespace, MutableMapping):
            request.namespace[into] = frame
    return frame


def _views(names: list[str]) -> ViewsView:
    for name in names:
        if name not in VIEWS:
            raise UnknownName("view", name, VIEWS)
    return ViewsView(tuple(VIEWS[name] for name in names or VIEWS))


# --- diagnosis, plots, reports ---------------------------------------------------------------------------------------------


def _subject_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="*", help="ids of sessions; the one in hand without any")
    parser.add_argument("--all", action="store_true", help="all sessions of the lab")


def _telling() -> Any:
    """Damaged sessions are said below the cell at every call, not at the first one alone."""
    from agentlab.query.damage import telling

    return telling(lambda text: print(text, file=sys.stderr))


def _subject(request: Request) -> Any:
    """The lab, several sessions, or one."""
    place, named = request.place, request.options.session
    if request.options.all:
        return place.lab
    if len(named) > 1:
        return [place.lab.session(session_id) for session_id in named]
    return place.session(named[0] if named else None)


@verb("diagnose", "look for the known symptoms, with evidence, cause and cure", arguments=_subject_arguments)
def diagnose(request: Request) -> Diagnosis:
    """The diagnosis."""
    from agentlab import analysis

    with _telling():
        return analysis.diagnose(_subject(request))


def _plot_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plot", choices=PLOTS, help="what to draw")
    _subject_arguments(parser)


@verb("plot", "draw latency, timeline, loops, burn, recovery, effects or context", "%agent plot timeline",
      _plot_arguments)  # fmt: skip
def plot(request: Request) -> Any:
    """The Axes; it shows itself."""
    from agentlab.analysis import plots

    with _telling():
        return getattr(plots, request.options.plot)(_subject(request))


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    _subject_arguments(parser)
    parser.add_argument("--to", metavar="PATH", help="where the page goes; report-SESSION.html without it")


@verb("report", "write one HTML page for somebody without Jupyter", arguments=_report_arguments)
def report(request: Request) -> Report:
    """The report; its page is written."""
    from agentlab import analysis

    with _telling():
        return analysis.report(_subject(request), request.options.to)
