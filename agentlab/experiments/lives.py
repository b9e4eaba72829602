"""One replay, life by life: work until a crash strikes, back to the newest checkpoint, a restart, and on.

Two ways to the same numbers: :class:`Table` where checkpoints are the same in every replay (a crash is two look-ups),
:func:`by_segments` where they depend on the clock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

from agentlab.experiments.costs import Costs
from agentlab.experiments.schedule import Clock, Schedule
from agentlab.experiments.track import Track
from agentlab.failures import CrashLoop, Process


class Life:
    """Crashes, downtime and losses of one replay in progress, seconds. ``known`` is the furthest boundary reached so far."""

    __slots__ = (
        "calls", "clock_s", "cost_usd", "costs", "crashes", "down_s", "kills", "known", "lost_s", "next_s", "owed_s", "poison",
        "redone_s", "rerun_s", "stuck", "times", "track",
    )  # fmt: skip

    def __init__(self, track: Track, costs: Costs, process: Process, seed: int) -> None:
        self.track, self.costs = track, costs
        self.times: Iterator[float] = process.times(seed)
        self.next_s = next(self.times, math.inf)
        self.poison, self.kills = 0, None
        if isinstance(process, CrashLoop) and process.at_event <= track.end:
            self.poison, self.kills = process.at_event, process.kills
        self.crashes = self.stuck = self.calls = self.known = 0
        self.lost_s = self.down_s = self.clock_s = self.redone_s = self.rerun_s = self.owed_s = self.cost_usd = 0.0

    def strike(self, since: int, reached: int, spent_s: float) -> None:
        """What a crash takes: ``spent_s`` into this life, in the span after boundary ``reached``, with a checkpoint at ``since``."""
        track = self.track
        self.redone_s += min(self.owed_s, spent_s)
        first = reached if self.costs.from_log else since
        last = min(reached + 1, track.end) if spent_s > 0 else reached
        if last > first:
            self.calls += track.calls[last] - track.calls[first]
            self.cost_usd += track.cost_usd[last] - track.cost_usd[first]
        self.known = max(self.known, reached)
        self.owed_s = self.costs.redo * max(0.0, track.work[self.known] - track.work[since])

    def caught_up(self) -> None:
        """All known work since the checkpoint was done again."""
        self.redone_s += self.owed_s
        self.owed_s = 0.0

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
        rerun = self.costs.rerun * self.track.work[self.known]
        restart = self.costs.restart_s + rerun
        back = at_s + restart
        while self.next_s < back:
            self.crashes += 1
            self.stuck += 1
            back = self.next_s + restart
            self.next_s = next(self.times, math.inf)
            if self.stuck > self.costs.give_up_after:
                break
        self.rerun_s += rerun
        self.down_s += back - at_s
        self.clock_s = back

    def gave_up(self) -> bool:
        """Whether too many crashes in a row came without a checkpoint between them."""
        return self.stuck > self.costs.give_up_after


class Table:
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

    def run(self, life: Life) -> tuple[int, bool]:
        """Checkpoints written, and whether it came to its end. Positions are times on the clock of a run without a crash."""
        done, at, work = self.done, self.at, self.track.work
        position, saved = 0.0, 0
        while True:
            begun = life.clock_s
            target = self._poisoned(life.poison) if life.poison else done[-1]
            arrives = begun + (target - position)
            timed = life.next_s < arrives
            if not timed and not life.poison:
                life.clock_s = arrives
                life.caught_up()
                return self.checkpoints, True
            reached = position + (life.next_s - begun) if timed else target
            newest = min(bisect_right(done, reached), len(done) - 1) - 1
            if not timed:  # the poison strikes before a checkpoint at the very same place
                newest = min(newest, bisect_right(at, life.poison - 1) - 1)
            if newest > saved:
                saved, life.stuck = newest, 0
            since = at[saved]
            got = bisect_right(work, work[since] + (reached - done[saved])) - 1
            got = max(since, min(got, at[saved + 1], life.poison - 1 if life.poison else self.track.end))
            life.strike(since, got, reached - position)
            position, before = (
                done[saved] + (1 - self.costs.redo) * (work[max(life.known, since)] - work[since]),
                position,
            )
            life.lost_s += reached - position
            life.crash(begun + (reached - before) if not timed else life.next_s, timed)
            if life.gave_up():
                return saved, False

    def _poisoned(self, event: int) -> float:
        """The position at which ``event`` would be done."""
        segment = bisect_right(self.at, event - 1) - 1
        return self.done[segment] + self.track.work[event] - self.track.work[self.at[segment]]


def by_segments(schedule: Schedule, costs: Costs, life: Life) -> tuple[int, bool]:
    """Checkpoints written, and whether it came to its end, for a policy that reads the clock: each checkpoint is found anew."""
    work, end = schedule.track.work, schedule.track.end
    since = checkpoints = 0
    woken = 0.0
    while since < end:
        begun = life.clock_s
        known_s = max(0.0, work[max(life.known, since)] - work[since])
        clock = Clock(begun, woken, life.crashes, known_s, costs.redo)
        if not life.poison and known_s * (1 - costs.redo) == 0:
            jumped, arrives, written = schedule.jump(since, clock, life.next_s)
            if written:
                life.clock_s, life.stuck, since = arrives, 0, jumped
                checkpoints += written
                life.caught_up()
                continue
        at = schedule.following(since, clock)
        writes = at < end or costs.final_checkpoint
        poisoned = life.poison if since < life.poison <= at else 0
        arrives = clock.wall(work[poisoned or at] - work[since])
        if not poisoned and writes:
            arrives += costs.checkpoint_s
        timed = life.next_s < arrives
        if not timed and not poisoned:
            life.lost_s -= (work[at] - work[since]) - (clock.wall(work[at] - work[since]) - begun)
            life.clock_s, life.stuck = arrives, 0
            since, checkpoints = at, checkpoints + writes
            life.caught_up()
            continue
        spent = (life.next_s if timed else arrives) - begun
        got = bisect_right(work, work[since] + clock.saved_s + spent) - 1
        life.strike(since, max(since, min(got, at, life.poison - 1 if life.poison else end)), spent)
        life.lost_s += spent  # what doing it again saves is taken off when the next checkpoint is reached
        life.crash(begun + spent, timed)
        woken = life.clock_s
        if life.gave_up():
            return checkpoints, False
    return checkpoints, True
