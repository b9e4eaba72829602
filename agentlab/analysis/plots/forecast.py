"""When a budget will be used up: the pace of the run so far, with how much it varied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

STRETCHES = 12
"""The run is cut into this many stretches of equal time; each has its pace."""
NEWEST = 0.5
"""Only this last share of them counts: how it went in the beginning says little about the end."""
DRAWS = 400
LOW, HIGH = 10.0, 90.0
"""Percentiles of the band."""


class Forecast(NamedTuple):
    """When the limit is reached, in the unit of the times given, from the newest of them on.

    ``late`` is infinite where a tenth of the draws never get there.
    """

    early: float
    middle: float
    late: float


def forecast(times: Sequence[float], shares: Sequence[float]) -> Forecast | None:
    """When ``shares`` (of the limit, rising over ``times``) will reach 1; None when they have, or do not move.

    The paces of the newest stretches are drawn again with replacement (a bootstrap with a fixed seed), as many as were
    seen; the mean pace of each draw gives one time, and their percentiles 10, 50 and 90 the answer. It supposes that
    the rest of the run is like its newest half.
    """
    import numpy as np

    x, y = np.asarray(times, dtype=float), np.asarray(shares, dtype=float)
    if len(x) < 3 or x[-1] <= x[0] or y[-1] >= 1:
        return None
    edges = np.linspace(x[0], x[-1], STRETCHES + 1)
    at = np.interp(edges, x, y)
    paces = np.diff(at)[-max(2, round(STRETCHES * NEWEST)) :] / (edges[1] - edges[0])
    if paces.sum() <= 0:
        return None
    drawn = np.random.default_rng(0).choice(paces, size=(DRAWS, len(paces))).mean(axis=1)
    with np.errstate(divide="ignore"):
        waits = (1 - y[-1]) / drawn
    # With the method "higher" no percentile lies between a number and infinity.
    early, middle, late = np.percentile(waits, [LOW, 50.0, HIGH], method="higher")
    return Forecast(float(early), float(middle), float(late))
