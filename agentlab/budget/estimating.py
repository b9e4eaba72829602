"""Estimates: what the next call will need, with a safety factor learned from estimate against actual.

A factor is the moving mean of actual over estimate plus twice its deviation, exponentially weighted (T. Finch,
"Incremental calculation of weighted mean and variance", 2009, section 9). Before much was seen a prior counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from agentlab.budget.dimensions import Amounts
from agentlab.budget.state import BudgetState, Learned

MAX_LEARNED = 64
"""Names whose duration is learned at most."""
WEIGHT = 0.2
"""How much the newest observation counts."""
BOUNDS: Mapping[str, tuple[float, float, float]] = {
    "input_tokens": (1.2, 0.5, 4.0),
    "output_tokens": (1.0, 0.02, 1.0),
}
"""Per dimension: the factor before anything was seen, the lowest and the highest. Output is never more than its cap."""


def factor(learned: Learned, dimension: str) -> float:
    """The safety factor of a dimension."""
    prior, low, high = BOUNDS[dimension]
    if not learned.seen:
        return prior
    found = learned.mean + 2 * math.sqrt(learned.variance)
    trust = learned.seen / (learned.seen + 2)  # two observations weigh as much as the prior
    return min(high, max(low, trust * found + (1 - trust) * prior))


def estimated(state: BudgetState, base: Amounts) -> dict[str, int]:
    """``base`` with the learned factors."""
    out = dict(base)
    for dimension in BOUNDS:
        if dimension in out:
            out[dimension] = math.ceil(out[dimension] * factor(state.learned.get(dimension, _NOTHING), dimension))
    return out


def learn(state: BudgetState, actual: Amounts) -> dict[str, Learned]:
    """What is known after the open request's estimate is compared with what it needed: the new ``learned``."""
    learned = dict(state.learned)
    for dimension in BOUNDS:
        base = state.estimate.get(dimension, 0)
        if base > 0:
            learned[dimension] = _seen(learned.get(dimension, _NOTHING), actual.get(dimension, 0) / base)
    return learned


def expected_ms(state: BudgetState, what: str) -> int:
    """How long a model call (``model``) or a call of a tool is expected to take, in milliseconds; 0 before the first."""
    seen = state.learned.get(f"ms:{what}")
    return 0 if seen is None else math.ceil(max(0.0, seen.mean + 2 * math.sqrt(seen.variance)))


def learn_time(state: BudgetState, what: str, duration_ms: float) -> Mapping[str, Learned]:
    """The new ``learned`` after something took ``duration_ms``; only so many names are kept."""
    name = f"ms:{what}"
    if name not in state.learned and len(state.learned) >= MAX_LEARNED:
        return state.learned
    return {**state.learned, name: _seen(state.learned.get(name, _NOTHING), duration_ms)}


_NOTHING = Learned()


def _seen(old: Learned, ratio: float) -> Learned:
    if not old.seen:
        return Learned(1, ratio, 0.0)
    away = ratio - old.mean
    step = WEIGHT * away
    return Learned(min(old.seen + 1, 1_000), old.mean + step, (1 - WEIGHT) * (old.variance + away * step))
