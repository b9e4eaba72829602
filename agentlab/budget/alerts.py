"""Alerts: a share of a limit is committed, once per threshold and limit."""

from __future__ import annotations

from agentlab.budget.state import BudgetState


def due_alert(state: BudgetState, wall_ms: int = 0) -> tuple[str, float] | None:
    """The dimension and the highest threshold that it has reached and that was not told yet, or None."""
    for dimension, limit in state.limits.items():
        committed = wall_ms if dimension == "wall_ms" else state.committed(dimension)
        reached = [t for t in state.thresholds if committed >= t * limit]
        if reached and reached[-1] > state.alerted.get(dimension, 0.0):
            return dimension, reached[-1]
    return None
