"""Budget: what is used of every limit, and a new limit for one of them."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from agentlab.errors import UserError
from agentlab.lab import Session
from agentlab.notebook.panel.allowed import Moment
from agentlab.notebook.panel.controls import Control
from agentlab.notebook.panel.deeds import Deeds
from agentlab.notebook.panel.judging import Judge, Say

ROWS = 12


class Budgeting:
    """Bars of used shares, and the form that extends a limit. Extensions set an absolute new limit."""

    def __init__(self, widgets: Any, judge: Judge, deeds: Deeds, say: Say, soon: Callable[[], None]) -> None:
        self._bars = widgets.HTML()
        self.dimension = widgets.Dropdown(options=["—"], tooltip="which limit")
        self.limit = widgets.Text(placeholder="new limit", continuous_update=True)
        self.control = Control(
            widgets, "+ extend", "extend", deeds, judge, say, self._extend,
            help="set a new, absolute limit", after=soon, also=self._wrong,
        )  # fmt: skip
        form = widgets.HBox([self.dimension, self.limit, self.control.button])
        form.add_class("al-form")
        self.box = widgets.VBox([self._bars, form])

    def _wrong(self) -> str:
        return "" if _number(self.limit.value) is not None else "write the new limit as a whole number first"

    def _extend(self, session: Session) -> str:
        number = _number(self.limit.value)
        if number is None:
            raise UserError("write the new limit as a whole number")
        session.extend(str(self.dimension.value), number)
        return f"{self.dimension.value} may now reach {number:,}"

    def show(self, now: Moment) -> None:
        """Bring the bars up to date."""
        budget = now.state.budget
        names = sorted(budget.limits)
        if list(self.dimension.options) != (names or ["—"]):
            self.dimension.options = names or ["—"]
        html = "".join(_bar(name, budget.committed(name), budget.limits[name]) for name in names[:ROWS])
        html = (
            html
            or "<span class='al-quiet'>no limit is set; begin a session with --limit max_turns=20, for example</span>"
        )
        if self._bars.value != html:
            self._bars.value = html
        self.control.show(now)


def _bar(name: str, used: int, limit: int) -> str:
    share = min(100.0, 100.0 * used / limit) if limit else 100.0
    high = " class='high'" if share >= 80 else ""
    return (
        f"<div class='al-meter'><span>{escape(name)}</span><div class='al-bar'><i{high} style='width:{share:.0f}%'></i></div>"
        f"<span class='al-num'>{used:,} of {limit:,} ({share:.0f} %)</span></div>"
    )


def _number(text: str) -> int | None:
    digits = text.replace(",", "").replace("_", "").strip()
    return int(digits) if digits.isdigit() else None
