"""Young's and Daly's interval alone, with a measured mean time between failures: the next checkpoint without detours.

The same numbers as :func:`agentlab.policies.due` asked at each boundary, without making a record and a sentence each time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agentlab.definition import PolicySpec
from agentlab.experiments.track import Track
from agentlab.policies.triggers import PRIOR_COST_S, PRIOR_MTBF_S

if TYPE_CHECKING:
    from agentlab.experiments.schedule import Clock

PLAIN_KINDS = frozenset({"", "query", "code", "downstream", "work"})
"""Kinds of steps that no policy treats apart."""


class Rate:
    """Next checkpoints of ``young`` or ``daly`` over a track; cost and mean time between failures as they are measured."""

    def __init__(self, track: Track, spec: PolicySpec, cost_s: float) -> None:
        self._track, self._young = track, spec.kind == "young"
        given = spec.args.get("cost_s")
        self._first = float(given) if given is not None else PRIOR_COST_S
        self._later = float(given) if given is not None else cost_s if cost_s > 0 else PRIOR_COST_S
        self._prior = float(spec.args.get("prior_mtbf_s", PRIOR_MTBF_S))

    @staticmethod
    def fits(track: Track, spec: PolicySpec) -> bool:
        """Whether the policy is one of the two by itself, over steps that are nothing special."""
        alone = spec.kind in ("young", "daly") and not {"mtbf_s", "work_s"} & set(spec.args)
        return alone and all(span.kind in PLAIN_KINDS for span in track.spans)

    def shortest(self, since: int, clock: Clock) -> float:
        """Seconds of work that no interval from here to the next crash is shorter than; 0 where that is not known."""
        mtbf = (self._prior + clock.start) / (1 + clock.crashes)
        costs = (self._later,) if since else (self._first, self._later)
        found = min(self._interval(cost, mtbf) for cost in costs)
        return found if found < math.inf else 0.0

    def following(self, since: int, clock: Clock, end: int, begin_at: int = 0) -> int:
        """The boundary of the checkpoint after ``since``, from ``begin_at`` on; ``end`` when none is due before it."""
        track, cost = self._track, self._later if since else self._first
        work, spans = track.work, track.spans
        at = max(since + 1, begin_at)
        begin = self._interval(cost, (self._prior + clock.start) / (1 + clock.crashes))
        if begin < math.inf:
            at = max(at, track.after_work(since, begin))
        while at < end:
            if spans[at - 1].checkpointable:
                seconds = work[at] - work[since]
                mtbf = (self._prior + clock.wall(seconds)) / (1 + clock.crashes)
                tau = self._interval(cost, mtbf)
                if seconds >= (tau if tau < math.inf else mtbf):
                    return at
            at += 1
        return end

    def _interval(self, cost: float, mtbf: float) -> float:
        """The interval, infinite where it is clamped to the mean time between failures (it is no lower bound then)."""
        if cost >= 2 * mtbf:
            return math.inf
        young = math.sqrt(2 * cost) * math.sqrt(mtbf)
        if self._young:
            return young
        half = cost / mtbf / 2
        return young * (1 + math.sqrt(half) / 3 + half / 9) - cost
