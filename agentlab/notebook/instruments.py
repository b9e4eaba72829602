"""What a run in progress shows beside its steps: bars of the budget, the last decision, faults, the time that is left."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from agentlab.budget.dimensions import shown
from agentlab.counting import counted
from agentlab.events import Event
from agentlab.notebook.display import paragraph
from agentlab.session.state import State

BARS = 4
"""Limits shown: those of which most is used."""
_GRID = "display:grid;grid-template-columns:9em 1fr 12em;gap:8px;align-items:center;font-size:.92em"


class Instruments:
    """Takes events in as they land; :meth:`html` is what stands below the steps."""

    def __init__(self) -> None:
        self._decision = ""
        self._struck = 0

    def take(self, events: Sequence[Event]) -> None:
        """Take new events."""
        for event in events:
            if event.type == "decision":
                self._decision = " ".join(f"{event.payload['action']}: {event.payload['why']}".split())[:160]
            self._struck += event.type == "fault_injected"

    def lines(self, state: State, now_us: int) -> list[str]:
        """The last decision, the faults and the time left, a line each; nothing for what there is not."""
        out = [f"decided {self._decision}"] if self._decision else []
        if state.faults or self._struck:
            out.append(f"faults: {len(state.faults)} armed, {self._struck} struck")
        left = time_left_s(state, now_us)
        if left is not None:
            minutes, seconds = divmod(round(left), 60)
            out.append(f"time left: {minutes} min {seconds:02d} s" if minutes else f"time left: {seconds} s")
        return out

    def html(self, state: State, now_us: int) -> str:
        """Bars and lines."""
        return budget_bars(state) + "".join(
            f"<div>{paragraph(line, quiet=True)}</div>" for line in self.lines(state, now_us)
        )


def time_left_s(state: State, now_us: int) -> float | None:
    """Seconds until a limit of time is reached: of the clock since the session began, or of work; None without one."""
    budget = state.budget
    left = []
    if "wall_ms" in budget.limits:
        left.append(budget.limits["wall_ms"] / 1000 - (now_us - state.started_ts) / 1e6)
    if "active_ms" in budget.limits:
        left.append((budget.limits["active_ms"] - budget.committed("active_ms")) / 1000)
    return max(0.0, min(left)) if left else None


def budget_bars(state: State) -> str:
    """One bar for each limit, those first of which most is used; empty without limits."""
    budget = state.budget
    shares = {name: budget.committed(name) / limit for name, limit in budget.limits.items() if limit}
    names = sorted(shares, key=lambda name: (-shares[name], name))
    bars = "".join(
        f"<span>{escape(name)}</span><meter value='{min(1.0, shares[name]):.3f}' low='0.8' high='0.95' optimum='0'"
        f" style='width:100%;height:10px'></meter>"
        f"<span>{shown(name, budget.committed(name))} of {shown(name, budget.limits[name])}</span>"
        for name in names[:BARS]
    )
    more = (
        f"<div>{paragraph('and ' + counted(len(names) - BARS, 'limit'), quiet=True)}</div>" if len(names) > BARS else ""
    )
    return f"<div style='{_GRID}'>{bars}</div>{more}" if bars else ""
