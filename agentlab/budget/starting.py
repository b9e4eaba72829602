"""The start rule: a command may begin when what it is expected to need fits into what is left.

For tokens, money and time: limit - used - reserved - at risk - estimate - minimum reserve > 0; for counts >= 0.
Finishing (the last step, the final answer) may use the minimum reserve.
"""

from __future__ import annotations

from agentlab.budget.dimensions import TOKENS, Amounts, is_count
from agentlab.budget.state import BudgetState


def exhausted(state: BudgetState, amounts: Amounts, *, finishing: bool = False, wall_ms: int = 0) -> str | None:
    """The first dimension that forbids spending ``amounts`` more, or None when all allow it.

    ``wall_ms`` is the time since the session began, in milliseconds.
    """
    for dimension in state.limits:
        if forbids(state, dimension, amounts, finishing=finishing, wall_ms=wall_ms):
            return dimension
    return None


def forbids(state: BudgetState, dimension: str, amounts: Amounts, *, finishing: bool = False, wall_ms: int = 0) -> bool:
    """Whether one limited dimension forbids spending ``amounts`` more."""
    left = state.limits[dimension] - (wall_ms if dimension == "wall_ms" else state.committed(dimension))
    if dimension == "tokens":
        left -= sum(amounts.get(name, 0) for name in TOKENS)
    else:
        left -= amounts.get(dimension, 0)
    if not finishing:
        left -= state.kept.get(dimension, 0)
    return left < 0 if is_count(dimension) else left <= 0


def share(state: BudgetState) -> float:
    """The largest share of any limit that is committed: 0 without limits, 1 when one is used up."""
    return max((state.committed(name) / limit for name, limit in state.limits.items() if limit > 0), default=0.0)
