"""The timing of a recorded session: spans between events, and running totals over them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from agentlab.errors import BadDefinition
from agentlab.policies import Facts


@dataclass(frozen=True, slots=True)
class Span:
    """The time up to one event. ``duration_s`` is useful work in seconds, without checkpoints and restarts.

    ``checkpointable``: a checkpoint may be written right after it. ``step`` counts plan steps from 1 (0: none) and
    ``kind`` is the step's kind. ``milestone`` and ``large``: it ends a verifiable step, or a large query.
    ``external``: it begins an external effect. ``sandboxed``: a command ran that no snapshot holds yet. ``model``: it is
    the model's answer, which cost ``cost_usd``.
    """

    duration_s: float
    checkpointable: bool = True
    step: int = 0
    kind: str = ""
    milestone: bool = False
    large: bool = False
    external: bool = False
    sandboxed: bool = False
    model: bool = False
    cost_usd: float = 0.0


class Track:
    """Spans with running totals. A *boundary* x stands after the first x spans; 0 is the start, ``end`` the end."""

    def __init__(self, spans: Iterable[Span | Sequence[object]]) -> None:
        """Take :class:`Span` objects, or tuples of their leading fields.

        Raises:
            BadDefinition: there is no span, or a duration is negative or not finite.
        """
        self.spans = [span if isinstance(span, Span) else Span(*span) for span in spans]  # type: ignore[arg-type]
        if not self.spans:
            raise BadDefinition("a session without a span can not be replayed")
        if any(not 0 <= span.duration_s < math.inf for span in self.spans):
            raise BadDefinition("durations are finite numbers of seconds of at least 0")
        self.end = len(self.spans)
        self.work = list(accumulate((s.duration_s for s in self.spans), initial=0.0))
        following = [s.step for s in self.spans[1:]] + [0]
        ended = (s.step > 0 and s.step != after for s, after in zip(self.spans, following, strict=True))
        self.steps = _counts(ended)
        self.milestones = _counts(s.milestone for s in self.spans)
        self.large = _counts(s.large for s in self.spans)
        self.effects = _counts(s.external for s in self.spans)
        self.commands = _counts(s.sandboxed for s in self.spans)
        self.calls = _counts(s.model for s in self.spans)
        self.cost_usd = list(accumulate((s.cost_usd for s in self.spans), initial=0.0))
        self.before_effects = [i for i, s in enumerate(self.spans) if s.external]
        self.confirming = [i + 1 for i, s in enumerate(self.spans) if s.kind == "confirm"]

    @property
    def work_s(self) -> float:
        """Useful work of the whole session, seconds."""
        return self.work[-1]

    def facts(self, since: int, at: int, cost_s: float, crashes: int, running_s: float, awake_s: float) -> Facts:
        """What a trigger would know at boundary ``at`` with the newest checkpoint at ``since``.

        ``seconds`` is useful work since that checkpoint: time that a crash took does not bring a checkpoint nearer.
        """
        return Facts(
            at - since,
            self.steps[at] - self.steps[since],
            self.work[at] - self.work[since],
            self.milestones[at] > self.milestones[since],
            self.large[at] > self.large[since],
            at < self.end and self.spans[at].external,
            False,
            self.spans[at - 1].kind if at else "",
            False,
            self.commands[at] - self.commands[since],
            cost_s,
            crashes,
            running_s,
            0,
            0.0,
            0.0,
            self.effects[at] - self.effects[since],
            awake_s,
        )

    @property
    def sandboxed_share(self) -> float:
        """Part of the useful work that sandbox commands took: what is done again when their sandbox is lost."""
        spent = math.fsum(s.duration_s for s in self.spans if s.sandboxed)
        return spent / self.work_s if self.work_s > 0 else 0.0

    def after_work(self, since: int, seconds: float) -> int:
        """The first boundary with at least ``seconds`` of work since ``since``; a rounding error early, never late."""
        target = self.work[since] + seconds
        if not target < math.inf:
            return self.end
        return bisect_left(self.work, target - 1e-9 * (1 + abs(target)), lo=since)


def _counts(flags: Iterable[bool]) -> list[int]:
    return list(accumulate((int(flag) for flag in flags), initial=0))
