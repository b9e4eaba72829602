"""What if: the timing of a recorded session, run again under other checkpoint policies and other crashes.

A replay is arithmetic, not a run: work is done span by span; a crash goes back to the newest finished checkpoint,
costs a restart, and the work since then is done again. Crashes may strike while a checkpoint is written or a restart
is under way. ``completion_s = work_s + checkpoints * cost + lost_s + down_s``, always.

Where checkpoints depend only on the work since the last one they are the same in every replay; then a crash is
two look-ups in a table, and a replay costs microseconds per crash however long the session is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentlab.definition import PolicySpec
from agentlab.experiments.costs import Costs
from agentlab.experiments.lives import Life, Table, by_segments
from agentlab.experiments.schedule import Schedule, reads_clock
from agentlab.experiments.track import Span, Track
from agentlab.failures import Process
from agentlab.policies import parse_policy


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay. Times in seconds; ``completion_s`` is infinite when the run was given up.

    ``lost_s`` is time spent on work and checkpoints that a crash threw away, ``redone_s`` the part of it that went into
    doing known work again, ``down_s`` the time of restarts, ``rerun_s`` the part of it that ``rerun`` charged. ``calls``
    are model calls that crashes cut or threw away, ``cost_usd`` their price.
    """

    completion_s: float
    work_s: float
    lost_s: float
    down_s: float
    checkpoints: int
    crashes: int
    redone_s: float = field(default=0.0, compare=False)
    calls: int = field(default=0, compare=False)
    cost_usd: float = field(default=0.0, compare=False)
    rerun_s: float = field(default=0.0, compare=False)

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
        self._table = None if reads_clock(spec) or not table else Table(self.schedule, costs)

    def run(self, process: Process, seed: int = 0) -> Replay:
        """One replay under the crashes that ``seed`` draws from ``process``."""
        life = Life(self.track, self.costs, process, seed)
        if self._table:
            checkpoints, finished = self._table.run(life)
        else:
            checkpoints, finished = by_segments(self.schedule, self.costs, life)
        completion = life.clock_s if finished else math.inf
        return Replay(
            completion, self.track.work_s, life.lost_s, life.down_s, checkpoints, life.crashes, life.redone_s, life.calls,
            life.cost_usd, life.rerun_s,
        )  # fmt: skip

    def expected(self, process: Process, seeds: Iterable[int]) -> float:
        """Mean completion time in seconds over the seeds."""
        times = [self.run(process, seed).completion_s for seed in seeds]
        return math.fsum(times) / len(times) if times else math.nan


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
