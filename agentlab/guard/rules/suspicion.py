"""What a rule answers."""

from __future__ import annotations

from typing import NamedTuple

from agentlab.guard.policy import Patience

NOTHING, NUDGE, FINAL = 0, 1, 2


class Suspicion(NamedTuple):
    """``level`` is NUDGE or FINAL; ``seqs`` ascend; ``what`` tells the model what repeats, without any input."""

    rule: str
    level: int
    seqs: tuple[int, ...]
    what: str


def level(times: int, patience: Patience) -> int:
    """How far ``times`` occurrences have used up a patience."""
    return FINAL if times >= patience.final else NUDGE if times >= patience.nudge else NOTHING
