"""Where the next checkpoint of a replayed session falls.

``due`` alone decides. To call it once or twice per checkpoint instead of at every event, each trigger gives a lower
bound: no boundary before it can be due. Budgets, pauses and unsnapshotted bytes are not part of a recorded timing,
so triggers on them stay silent.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agentlab import interval
from agentlab.definition import PolicySpec
from agentlab.experiments.rates import Rate
from agentlab.experiments.track import Track
from agentlab.policies import DEFAULT, Facts, due, measured_cost, measured_mtbf, validate
from agentlab.policies.triggers import deadline_margin


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock of a replay when work goes on from a checkpoint, seconds.

    ``start`` is when, ``woken`` when the newest restart was over. The next ``known_s`` seconds of work were done
    before, and doing them again takes the fraction ``redo`` of their time.
    """

    start: float = 0.0
    woken: float = 0.0
    crashes: int = 0
    known_s: float = 0.0
    redo: float = 1.0

    @property
    def saved_s(self) -> float:
        """Seconds saved because the work is done again faster than the first time."""
        return (1 - self.redo) * self.known_s

    def wall(self, work_s: float) -> float:
        """Wall time after ``work_s`` seconds of work from here."""
        return self.start + work_s - (1 - self.redo) * min(self.known_s, work_s)


def reads_clock(spec: PolicySpec) -> bool:
    """Whether the policy's checkpoints depend on crashes and wall time, and not only on the work since the last one."""
    if spec.kind in ("any", "all"):
        return any(reads_clock(part) for part in spec.parts)
    return spec.kind == "deadline" or (spec.kind in ("young", "daly") and "mtbf_s" not in spec.args)


class Schedule:
    """Next checkpoints of one policy over one track."""

    def __init__(self, track: Track, spec: PolicySpec, cost_s: float, skip: bool = True) -> None:
        """``cost_s`` is what a checkpoint is measured to cost; ``skip`` False asks ``due`` at each boundary.

        Raises:
            UserError: the policy can not run.
        """
        self.track, self.spec, self.cost_s, self.skip = track, validate(spec), cost_s, skip
        clocked = [part for part in spec.parts if spec.kind == "any" and reads_clock(part)]
        rest = tuple(part for part in spec.parts if part not in clocked)
        self._clocked = [Schedule(track, part, cost_s, skip) for part in clocked]
        self._rest = Schedule(track, PolicySpec("any", parts=rest), cost_s) if clocked and rest else None
        self._rest_at: dict[int, int] = {}
        self._rate = Rate(track, spec, cost_s) if Rate.fits(track, spec) else None
        self._jumps: Jumps | None = None
        self._both = Both(track, spec, cost_s) if skip and Both.fits(track, spec) else None
        simple = all(part.spec.kind == "deadline" or part._rate is not None for part in self._clocked)
        if self._rest is not None and skip and simple and spec.kind == "any":
            self._jumps = Jumps(track, self._of_rest, cost_s)

    def jump(self, since: int, clock: Clock, crash_s: float) -> tuple[int, float, int]:
        """The furthest checkpoint that is written before the next crash and before any part that reads the clock is due.

        Its boundary, the wall time at which it is done, and how many checkpoints that makes; none if there is none, or where
        the policy is no such combination.
        """
        if self._jumps is None or not self.skip:
            return since, clock.start, 0
        until = crash_s
        for part in self._clocked:
            if part._rate is None:
                until = min(until, part._begins(since, clock))
            elif part._rate.shortest(since, clock) < self._jumps.longest_s:
                return since, clock.start, 0
        return self._jumps.furthest(since, clock.start, until)

    def _begins(self, since: int, clock: Clock) -> float:
        """Wall time at which the margin of the policy, a deadline, begins next, at the earliest."""
        args = self.spec.args
        now = clock.start - clock.woken if args.get("since") == "wake" else clock.start
        begins = min(deadline_begins(args, now, margin) for margin in self._margins[since > 0 :])
        return clock.start + (begins - now) if begins < math.inf else math.inf

    @cached_property
    def _margins(self) -> tuple[float, float]:
        """Seconds that a deadline keeps free before it: while no checkpoint was measured, and afterwards."""
        costs = (0.0, self.cost_s)
        first, later = (deadline_margin(self.track.facts(0, 0, cost, 0, 0.0, 0.0), self.spec.args) for cost in costs)
        return first, later

    def following(self, since: int, clock: Clock, before: int | None = None) -> int:
        """The boundary of the checkpoint after ``since``; ``before`` (the end without it) when none is due before that."""
        last = self.track.end if before is None else before
        if self._rate is not None and self.skip:
            return self._rate.following(since, clock, last)
        if self._clocked and self.skip:
            last = min(last, self._of_rest(since)) if self._rest is not None else last
            for part in self._clocked:
                if not part._quiet(since, clock, last):
                    last = part.following(since, clock, last)
            return last
        if self._both is not None and self.skip:
            return self._both.following(since, clock, last)
        return self._scan(since, clock, last)

    def _quiet(self, since: int, clock: Clock, last: int) -> bool:
        """Whether it is plain at once that the policy, a deadline by itself, is not due before ``last``."""
        if self.spec.kind != "deadline" or clock.saved_s or self._confirm(since) < last:
            return False  # doing known work again, the wall clock lags behind the work
        return clock.wall(self.track.work[last] - self.track.work[since]) < self._begins(since, clock) - 1e-6

    def _scan(self, since: int, clock: Clock, last: int) -> int:
        """Ask ``due`` from the lower bound on."""
        track = self.track
        cost = self.cost_s if since else 0.0  # nothing is measured before the first one
        at = since + 1
        if self.skip:
            begin = track.facts(since, since, cost, clock.crashes, clock.start, clock.start - clock.woken)
            at = max(at, min(self._bound(self.spec, since, clock, begin), self._confirm(since)))
        while at < last:
            if track.spans[at - 1].checkpointable:
                now = clock.wall(track.work[at] - track.work[since])
                facts = track.facts(since, at, cost, clock.crashes, now, now - clock.woken)
                if due(self.spec, facts):
                    return at
            at += 1
        return last

    def _of_rest(self, since: int) -> int:
        """Where the parts that do not read the clock are due: the same in every replay, so looked up once."""
        assert self._rest is not None
        if since not in self._rest_at:
            self._rest_at[since] = self._rest.following(since, Clock())
        return self._rest_at[since]

    def _confirm(self, since: int) -> int:
        place = bisect_right(self.track.confirming, since)
        return self.track.confirming[place] if place < len(self.track.confirming) else self.track.end

    def _bound(self, spec: PolicySpec, since: int, clock: Clock, begin: Facts) -> int:
        if spec.kind == "default":
            spec = DEFAULT
        if spec.kind in ("any", "all"):
            bounds = [self._bound(part, since, clock, begin) for part in spec.parts]
            return min(bounds) if spec.kind == "any" else max(bounds)
        bound = _BOUNDS.get(spec.kind)
        return self.track.end if bound is None else bound(self.track, since, clock, begin, spec.args)


class Both:
    """All of some parts, of which some are Young's or Daly's interval and the others do not read the clock."""

    def __init__(self, track: Track, spec: PolicySpec, cost_s: float) -> None:
        self._track = track
        self._rates = [Rate(track, part, cost_s) for part in spec.parts if reads_clock(part)]
        self._rest = PolicySpec("all", parts=tuple(part for part in spec.parts if not reads_clock(part)))
        self._first = Schedule(track, self._rest, cost_s)
        self._first_at: dict[int, int] = {}
        self._due: dict[tuple[int, int], bool] = {}

    @staticmethod
    def fits(track: Track, spec: PolicySpec) -> bool:
        """Whether the policy is such a combination."""
        clocked = [reads_clock(part) for part in spec.parts]
        if spec.kind != "all" or all(clocked) or not any(clocked):
            return False
        return all(Rate.fits(track, part) for part in spec.parts if reads_clock(part))

    def following(self, since: int, clock: Clock, last: int) -> int:
        """The boundary of the checkpoint after ``since``; ``last`` when none is due before it."""
        if since not in self._first_at:
            self._first_at[since] = self._first.following(since, Clock())
        at = self._first_at[since]
        while at < last:
            reached = max(rate.following(since, clock, last, at) for rate in self._rates)
            if reached == at and self._rest_due(since, at):
                return at
            at = max(at + 1, reached)
        return last

    def _rest_due(self, since: int, at: int) -> bool:
        """Whether the other parts are due at a boundary: the same in every replay, so looked up once."""
        if (since, at) not in self._due:
            facts = self._track.facts(since, at, 0.0, 0, 0.0, 0.0)
            self._due[since, at] = self._track.spans[at - 1].checkpointable and due(self._rest, facts) is not None
        return self._due[since, at]


class Jumps:
    """Many checkpoints at once, where each is decided by the one before: powers of two of the step to the next."""

    def __init__(self, track: Track, following: Callable[[int], int], cost_s: float) -> None:
        end = track.end
        step = [following(since) for since in range(end)] + [end]
        # Seconds from a checkpoint's end to that of the last one before the session's end; that one writes no other.
        self._left = [0.0] * (end + 1)
        count = [0] * (end + 1)
        for since in range(end - 1, -1, -1):
            after = step[since]
            if after < end:
                self._left[since] = self._left[after] + track.work[after] - track.work[since] + cost_s
                count[since] = count[after] + 1
        self._count, self._last = count, end
        self.longest_s = max(track.work[after] - track.work[since] for since, after in enumerate(step[:-1]))
        """The most work between a checkpoint and the next."""
        self._powers = [[after if after < end else since for since, after in enumerate(step)]]
        while 2 ** len(self._powers) <= end:
            before = self._powers[-1]
            self._powers.append([before[before[since]] for since in range(end + 1)])

    def furthest(self, since: int, start_s: float, until_s: float) -> tuple[int, float, int]:
        """The last checkpoint after ``since`` that is done before ``until_s``: boundary, wall time, number of checkpoints."""
        left, at = self._left, since
        room = until_s - start_s
        for power in reversed(self._powers):
            candidate = power[at]
            if candidate != at and left[since] - left[candidate] < room:
                at = candidate
        return at, start_s + (left[since] - left[at]), self._count[since] - self._count[at]


Bound = Callable[[Track, int, Clock, Facts, Mapping[str, Any]], int]


def _rate_bound(method: interval.Method) -> Bound:
    def bound(track: Track, since: int, clock: Clock, begin: Facts, args: Mapping[str, Any]) -> int:
        """The measured mean time between failures, hence the interval, only grows until the next crash."""
        cost, mtbf = measured_cost(begin, args), measured_mtbf(begin, args)
        found = interval.recommend(cost, mtbf, method=method, work=args.get("work_s"))
        if found.clamped:
            return since + 1  # when the clamp ends, Daly's interval is a little shorter than just before
        return track.after_work(since, found.tau)

    return bound


def _deadline_bound(track: Track, since: int, clock: Clock, begin: Facts, args: Mapping[str, Any]) -> int:
    start = (begin.awake_s if args.get("since") == "wake" else begin.running_s) - clock.saved_s
    begins = deadline_begins(args, start, deadline_margin(begin, args))
    if begins == math.inf:
        return track.end
    return track.after_work(since, max(0.0, begins - start - clock.saved_s))


def deadline_begins(args: Mapping[str, Any], now: float, margin: float) -> float:
    """When the margin before the next deadline begins, on the clock of ``now``; infinite when there is none any more."""
    period = args.get("period_s")
    if period is None:
        once = float(args["at_s"]) - margin
        return math.inf if once < now - 1e-9 * (1 + now) else once
    whole = max(1, math.floor((now + margin) / float(period) - 1e-9) + 1)
    return float(period) * whole - margin


def _milestone_bound(track: Track, since: int, clock: Clock, begin: Facts, args: Mapping[str, Any]) -> int:
    return min(_nth(track.milestones, since, 1), _nth(track.large, since, 1))


def _before_effect_bound(track: Track, since: int, clock: Clock, begin: Facts, args: Mapping[str, Any]) -> int:
    place = bisect_right(track.before_effects, since)
    return track.before_effects[place] if place < len(track.before_effects) else track.end


def _nth(counts: list[int], since: int, number: int) -> int:
    return bisect_left(counts, counts[since] + number, lo=since)


_BOUNDS: Mapping[str, Bound] = {
    "every_events": lambda track, since, clock, begin, args: since + int(args["n"]),
    "every_steps": lambda track, since, clock, begin, args: _nth(track.steps, since, args["n"]),
    "seconds": lambda track, since, clock, begin, args: track.after_work(since, args["t"]),
    "milestones": _milestone_bound,
    "before_effect": _before_effect_bound,
    "after_effect": lambda track, since, clock, begin, args: _nth(track.effects, since, 1),
    "unsnapshotted": lambda track, since, clock, begin, args: (
        _nth(track.commands, since, args["n"]) if "n" in args else track.end
    ),
    "young": _rate_bound("young"),
    "daly": _rate_bound("daly"),
    "deadline": _deadline_bound,
}
"""Lower bounds by trigger; a trigger that is not named here never fires in a replay."""
