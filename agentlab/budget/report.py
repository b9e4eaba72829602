"""A budget as rows: used, reserved, at risk, left, and what the rest of the task may need. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agentlab.budget.dimensions import DIMENSIONS, shown
from agentlab.budget.state import BudgetState


@dataclass(frozen=True, slots=True)
class Row:
    """One dimension, in its own units (tokens, calls, millionths of a dollar, milliseconds).

    ``kept`` is the minimum reserve, part of ``left``. ``forecast`` is what the whole task is expected to need: what
    is committed, by the share of the plan's steps that are done; None while nobody can tell. ``enough`` is None
    without a limit or a forecast.
    """

    dimension: str
    used: int
    reserved: int
    at_risk: int
    left: int | None
    limit: int | None
    kept: int
    forecast: int | None

    @property
    def enough(self) -> bool | None:
        """Whether the limit suffices for the forecast."""
        return None if self.limit is None or self.forecast is None else self.forecast <= self.limit

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return {**asdict(self), "enough": self.enough}


HEADS = ("dimension", "used", "reserved", "at risk", "left", "limit", "forecast")


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """What a session spent and may spend. ``unpriced`` counts model calls whose cost nobody knows: it is not zero."""

    session_id: str
    rows: tuple[Row, ...]
    unpriced: int = 0
    alerts: Mapping[str, float] | None = None
    quotas: Mapping[str, int] | None = None
    pool: Mapping[str, int] | None = None

    def row(self, dimension: str) -> Row:
        """The row of a dimension; KeyError when there is none."""
        for row in self.rows:
            if row.dimension == dimension:
                return row
        raise KeyError(dimension)

    def table(self) -> list[tuple[str, ...]]:
        """The rows as texts, in the order of :data:`HEADS`."""
        return [
            (
                row.dimension,
                *(shown(row.dimension, n) for n in (row.used, row.reserved, row.at_risk)),
                "" if row.left is None else shown(row.dimension, row.left),
                shown(row.dimension, row.limit),
                "" if row.forecast is None else shown(row.dimension, row.forecast) + _verdict(row),
            )
            for row in self.rows
        ]

    def remarks(self) -> list[str]:
        """What the rows do not say, in sentences."""
        out = [f"{name}: over {share:.0%} of its limit" for name, share in (self.alerts or {}).items()]
        out += [
            f"{row.dimension}: {shown(row.dimension, row.kept)} of what is left is for finishing only"
            for row in self.rows
            if row.kept
        ]
        if self.unpriced:
            out.append(f"{self.unpriced} model calls have no known price: the cost is that of the others")
        out += [f"{name}: at most {limit} a minute" for name, limit in (self.quotas or {}).items()]
        if self.pool:
            parts = ", ".join(f"{shown(name, amount)} {name}" for name, amount in self.pool.items())
            out.append(f"set aside for it in the lab's pool: {parts}")
        return out

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "session_id": self.session_id,
            "rows": [row.to_json() for row in self.rows],
            "unpriced": self.unpriced,
            "alerts": dict(self.alerts or {}),
            "quotas": dict(self.quotas or {}),
            "pool": dict(self.pool or {}),
        }

    def __str__(self) -> str:
        rows = [HEADS, *self.table()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
        lines = ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([f"budget of {self.session_id}", *lines, *self.remarks()])


def _verdict(row: Row) -> str:
    return {None: "", True: " (enough)", False: " (too little left)"}[row.enough]


def report(session_id: str, state: BudgetState, wall_ms: int, done: int, total: int) -> BudgetReport:
    """The report of a budget; ``done`` of ``total`` plan steps are complete (0 and 0 without a plan)."""
    names = [*DIMENSIONS, "wall_ms"]
    names += sorted((set(state.limits) | {n for n in state.used if n.startswith("tool:")}) - set(names))
    rows = []
    for name in names:
        used = wall_ms if name == "wall_ms" else state.used_of(name)
        reserved, at_risk = state.reserved_of(name), state.at_risk_of(name)
        limit = state.limits.get(name)
        committed = used + reserved + at_risk
        forecast = round(committed / done * total) if 0 < done <= total else None
        left = None if limit is None else limit - committed
        rows.append(Row(name, used, reserved, at_risk, left, limit, state.kept.get(name, 0), forecast))
    return BudgetReport(session_id, tuple(rows), state.unpriced, state.alerted, state.quotas, state.allotted)
