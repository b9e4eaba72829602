"""Runs and cycles in a sequence of behaviour hashes: where it goes round, and in circles of what length."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

LONGEST = 8
"""Calls in the longest circle that is looked for."""
ROUNDS = 3
"""Times that a circle has to be gone through, the first one included."""


class Stretch(NamedTuple):
    """Places ``start`` to ``end`` (from 0, ``end`` not included) repeat their first ``period`` items."""

    start: int
    end: int
    period: int

    @property
    def rounds(self) -> float:
        """How often the circle was gone through; the last round may be cut."""
        return (self.end - self.start) / self.period


def stretches(items: Sequence[Hashable]) -> list[Stretch]:
    """Stretches that repeat one item (period 1) or a circle of up to :data:`LONGEST`, from left to right.

    At each place the circle that goes on longest counts, the shortest one among equals; stretches do not overlap.
    """
    lengths = {period: _agreeing(items, period) for period in range(1, LONGEST + 1)}
    found: list[Stretch] = []
    at = 0
    while at < len(items):
        best = Stretch(at, at, 1)
        for period, agreeing in lengths.items():
            if at + period < len(items):
                end = at + period + agreeing[at + period]
                if end - at >= ROUNDS * period and end > best.end:
                    best = Stretch(at, end, period)
        if best.end > at:
            found.append(best)
            at = best.end
        else:
            at += 1
    return found


def _agreeing(items: Sequence[Hashable], period: int) -> list[int]:
    """For each place how many items from there on equal the one ``period`` places before them."""
    out = [0] * (len(items) + 1)
    for at in range(len(items) - 1, period - 1, -1):
        out[at] = out[at + 1] + 1 if items[at] == items[at - period] else 0
    return out
