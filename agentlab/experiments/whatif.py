"""What if: the timing of a recorded session, run again under other checkpoint policies and other crashes.

A replay is arithmetic, not a run: work is done span by span; a crash goes back to the newest finished checkpoint,
costs a restart, and the work since then is done again. Crashes may strike while a checkpoint is written or a restart
is under way. ``completion_s = work_s + checkpoints * cost + lost_s + down_s``, always.

Where checkpoints depend only on the work since the last one they are the same in every replay; then a crash is
two look-ups in a table, and a replay costs microseconds per crash however long the session is.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentlab.definition import PolicySpec
from agentlab.errors import BadDefinition
from agentlab.experiments.schedule import Clock, Schedule, reads_clock
from agentlab.experiments.track import Span, Track
from agentlab.failures import CrashLoop, Process
from agentlab.policies import parse_policy


@dataclass(frozen=True, slots=True)
class Costs:
    """What a replay charges, seconds.

    ``redo`` is the fraction of its first time that work after the checkpoint takes when it is done again: 1 when it
    really runs again, near 0 when results come from the log. ``final_checkpoint`` writes one at the end too, as the
    formulas assume. After ``give_up_after`` crashes in a row without a new checkpoint the run counts as unfinished.
    """

    checkpoint_s: float
    restart_s: float = 0.0
    redo: float = 1.0
    final_checkpoint: bool = False
    give_up_after: int = 1000

    def __post_init__(self) -> None:
        for name, value in (("checkpoint_s", self.checkpoint_s), ("restart_s", self.restart_s)):
            if not 0 <= value < math.inf:
                raise BadDefinition(f"{name} is a finite number of seconds of at least 0, not {value!r}")
        if not 0 <= self.redo <= 1:
            raise BadDefinition(f"redo is a fraction between 0 and 1, not {self.redo!r}")
        if self.give_up_after < 1:
            raise BadDefinition("give_up_after is at least 1")


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay. Times in seconds; ``completion_s`` is infinite when the run was given up.

    ``lost_s`` is time spent on work and checkpoints that a crash threw away, ``down_s`` on restarts.
    """

    completion_s: float
    work_s: float
    lost_s: float
    down_s: float
    checkpoints: int
    crashes: int

    @property
    def completed(self) -> bool:
        return self.completion_s < math.inf

    @property
    def overhead(self) -> float:
        """Time beyond the useful work, as a fraction of it."""
        return self.completion_s / self.work_s - 1 if self.work_s > 0 else math.nan

    @property
    def useful(self) -> float:
        """Useful work as a fraction of the time taken: 1 - waste."""
        return self.work_s / self.completion_s if self.completion_s > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Outcome:
    """A replay and what it was made with."""

    policy: str
    process: str
    seed: int
    replay: Replay


class WhatIf:
    """A recorded session under one policy and one set of costs; :meth:`run` replays it under crashes."""

    def __init__(self, spans: Track | Iterable[Span | Sequence[object]], policy: PolicySpec | str, costs: Costs, *,
                 table: bool = True) -> None:  # fmt: skip
        """``table`` False takes the plain way, segment by segment, for every policy: slower, the same numbers.

        Raises:
            UserError: the policy can not run, or the spans are none.
        """
        self.track = spans if isinstance(spans, Track) else Track(spans)
        self.costs = costs
        spec = parse_policy(policy) if isinstance(policy, str) else policy
        self.schedule = Schedule(self.track, spec, costs.checkpoint_s)
        self._table = None if reads_clock(spec) or not table else _Table(self.schedule, costs)

    def run(self, process: Process, seed: int = 0) -> Replay:
        """One replay under the crashes that ``seed`` draws from ``process``."""
        state = _Run(self.track, self.costs, process, seed)
        return self._table.run(state) if self._table else _by_segments(self.schedule, self.costs, state)

    def expected(self, process: Process, seeds: Iterable[int]) -> float:
        """Mean completion time in seconds over the seeds."""
        times = [self.run(process, seed).completion_s for seed in seeds]
        return math.fsum(times) / len(times) if times else math.nan


class _Run:
    """Crashes, downtime and losses of one replay in progress."""

    __slots__ = (
        "clock_s",
        "costs",
        "crashes",
        "down_s",
        "kills",
        "lost_s",
        "next_s",
        "poison",
        "stuck",
        "times",
        "track",
    )

    def __init__(self, track: Track, costs: Costs, process: Process, seed: int) -> None:
        self.track, self.costs = track, costs
        self.times: Iterator[float] = process.times(seed)
        self.next_s = next(self.times, math.inf)
        self.poison, self.kills = 0, None
        if isinstance(process, CrashLoop) and process.at_event <= track.end:
            self.poison, self.kills = process.at_event, process.kills
        self.crashes = self.stuck = 0
        self.lost_s = self.down_s = self.clock_s = 0.0

    def crash(self, at_s: float, timed: bool) -> None:
        """Count a crash at wall time ``at_s`` and all that strike during its restart; the clock stands after it."""
        if timed:
            self.next_s = next(self.times, math.inf)
        elif self.kills is not None:
            self.kills -= 1
            if self.kills == 0:
                self.poison = 0
        self.crashes += 1
        self.stuck += 1
        back = at_s + self.costs.restart_s
        while self.next_s < back:
            self.crashes += 1
            self.stuck += 1
            back = self.next_s + self.costs.restart_s
            self.next_s = next(self.times, math.inf)
            if self.stuck > self.costs.give_up_after:
                break
        self.down_s += back - at_s
        self.clock_s = back

    def gave_up(self) -> bool:
        return self.stuck > self.costs.give_up_after

    def result(self, checkpoints: int, finished: bool) -> Replay:
        completion = self.clock_s if finished else math.inf
        return Replay(completion, self.track.work_s, self.lost_s, self.down_s, checkpoints, self.crashes)


class _Table:
    """Checkpoints that are the same in every replay, with the time at which each is done when nothing crashes."""

    def __init__(self, schedule: Schedule, costs: Costs) -> None:
        self.track, self.costs = schedule.track, costs
        self.at, self.done = [0], [0.0]
        work, end = self.track.work, self.track.end
        while self.at[-1] < end:
            since = self.at[-1]
            at = schedule.following(since, Clock())
            cost = costs.checkpoint_s if at < end or costs.final_checkpoint else 0.0
            self.at.append(at)
            self.done.append(self.done[-1] + (work[at] - work[since]) + cost)
        self.checkpoints = len(self.at) - 2 + costs.final_checkpoint

    def run(self, state: _Run) -> Replay:
        """Positions are the time that a run without crashes would have taken to get there."""
        done, at, work = self.done, self.at, self.track.work
        position, known, saved = 0.0, 0, 0
        while True:
            begun = state.clock_s
            target = self._poisoned(state.poison) if state.poison else done[-1]
            arrives = begun + (target - position)
            timed = state.next_s < arrives
            if not timed and not state.poison:
                state.clock_s = arrives
                return state.result(self.checkpoints, True)
            reached = position + (state.next_s - begun) if timed else target
            newest = min(bisect_right(done, reached), len(done) - 1) - 1
            if not timed:  # the poison strikes before a checkpoint at the very same place
                newest = min(newest, bisect_right(at, state.poison - 1) - 1)
            if newest > saved:
                saved, state.stuck = newest, 0
            since = at[saved]
            if self.costs.redo < 1:
                got = bisect_right(work, work[since] + (reached - done[saved])) - 1
                got = min(got, at[saved + 1], state.poison - 1 if state.poison else self.track.end)
                known = max(known, got)
            position = done[saved] + (1 - self.costs.redo) * max(0.0, work[max(known, since)] - work[since])
            state.lost_s += reached - position
            state.crash(state.next_s if timed else arrives, timed)
            if state.gave_up():
                return state.result(saved, False)

    def _poisoned(self, event: int) -> float:
        """The position at which ``event`` would be done."""
        segment = bisect_right(self.at, event - 1) - 1
        return self.done[segment] + self.track.work[event] - self.track.work[self.at[segment]]


def _by_segments(schedule: Schedule, costs: Costs, state: _Run) -> Replay:
    """One replay of a policy that reads the clock: each next checkpoint is found anew."""
    work, end = schedule.track.work, schedule.track.end
    since = checkpoints = known = 0
    woken = 0.0
    while since < end:
        begun = state.clock_s
        clock = Clock(begun, woken, state.crashes, max(0.0, work[max(known, since)] - work[since]), costs.redo)
        at = schedule.following(since, clock)
        writes = at < end or costs.final_checkpoint
        poisoned = state.poison if since < state.poison <= at else 0
        arrives = clock.wall(work[poisoned or at] - work[since])
        if not poisoned and writes:
            arrives += costs.checkpoint_s
        timed = state.next_s < arrives
        if not timed and not poisoned:
            state.lost_s -= (work[at] - work[since]) - (clock.wall(work[at] - work[since]) - begun)
            state.clock_s, state.stuck = arrives, 0
            since, checkpoints = at, checkpoints + writes
            continue
        spent = (state.next_s if timed else arrives) - begun
        if costs.redo < 1:
            got = bisect_right(work, work[since] + clock.saved_s + spent) - 1
            known = max(known, min(got, at, state.poison - 1 if state.poison else end))
        state.lost_s += spent  # what doing it again saves is taken off when the next checkpoint is reached
        state.crash(begun + spent, timed)
        woken = state.clock_s
        if state.gave_up():
            return state.result(checkpoints, False)
    return state.result(checkpoints, True)


def sweep(spans: Track | Iterable[Span | Sequence[object]], policies: Mapping[str, PolicySpec | str],
          processes: Mapping[str, Process], seeds: Iterable[int], costs: Costs) -> Iterator[Outcome]:  # fmt: skip
    """Every policy under every failure process and seed; the same seed means the same crashes for each policy."""
    track = spans if isinstance(spans, Track) else Track(spans)
    numbers = list(seeds)
    for name, policy in policies.items():
        whatif = WhatIf(track, policy, costs)
        for called, process in processes.items():
            for seed in numbers:
                yield Outcome(name, called, seed, whatif.run(process, seed))
