"""Failure processes: when crashes strike, as frozen specs with sampling that a seed decides.

Times are seconds of wall time since the start of a run; gaps between crashes are independent of each other
(renewal processes) and do not know what the run is doing. ``mtbf`` is the mean gap in seconds. The same seed gives the same
crashes whatever the policy, so that policies are compared pairwise.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

from agentlab.errors import BadDefinition, UnknownName


@dataclass(frozen=True, slots=True)
class Process:
    """Base of all failure processes."""

    kind: ClassVar[str] = ""

    def times(self, seed: int) -> Iterator[float]:
        """Crash times in ascending order, seconds since the start; may never end."""
        raise NotImplementedError

    def sample(self, seed: int, horizon_s: float) -> list[float]:
        """The crash times up to ``horizon_s`` seconds."""
        if not (horizon_s >= 0 and math.isfinite(horizon_s)):
            raise BadDefinition(f"a horizon is a finite number of seconds of at least 0, not {horizon_s!r}")
        return list(takewhile(lambda t: t <= horizon_s, self.times(seed)))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :func:`from_json` is its inverse."""
        return {"kind": self.kind, **{k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}}


@dataclass(frozen=True, slots=True)
class Renewal(Process):
    """Base of processes whose gaps are drawn independently from one distribution."""

    def gap(self, rng: random.Random) -> float:
        """One gap between two crashes, seconds."""
        raise NotImplementedError

    def times(self, seed: int) -> Iterator[float]:
        rng, now = random.Random(seed), 0.0
        while True:
            now += self.gap(rng)
            yield now


@dataclass(frozen=True, slots=True)
class Exponential(Renewal):
    """Crashes at a constant rate (a Poisson process): what Young's and Daly's formulas assume."""

    mtbf: float
    kind: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        _positive(self.kind, mtbf=self.mtbf)

    def gap(self, rng: random.Random) -> float:
        return -self.mtbf * math.log1p(-rng.random())


Poisson = Exponential


@dataclass(frozen=True, slots=True)
class Weibull(Renewal):
    """Gaps with a rate that falls (shape under 1: crashes come together) or grows (over 1: wear) since the last crash."""

    mtbf: float
    shape: float
    kind: ClassVar[str] = "weibull"

    def __post_init__(self) -> None:
        _positive(self.kind, mtbf=self.mtbf, shape=self.shape)

    def gap(self, rng: random.Random) -> float:
        scale = self.mtbf / math.gamma(1 + 1 / self.shape)
        return scale * math.pow(-math.log1p(-rng.random()), 1 / self.shape)


@dataclass(frozen=True, slots=True)
class Bursty(Renewal):
    """Crashes in bursts: a ``burst_fraction`` of gaps has the short mean ``burst_mean_s``, the others a long one.

    The long mean is such that all gaps together have the mean ``mtbf``; both are exponential.
    """

    mtbf: float
    burst_fraction: float = 0.7
    burst_mean_s: float = 60.0
    kind: ClassVar[str] = "bursty"

    def __post_init__(self) -> None:
        _positive(self.kind, mtbf=self.mtbf, burst_mean_s=self.burst_mean_s)
        if not 0 <= self.burst_fraction < 1:
            raise BadDefinition(f"burst_fraction is at least 0 and under 1, not {self.burst_fraction!r}")
        if self.burst_fraction * self.burst_mean_s >= self.mtbf:
            raise BadDefinition("the gaps inside bursts are too long for that mean time between failures")

    @property
    def quiet_mean_s(self) -> float:
        """Mean of the gaps outside bursts, seconds."""
        return (self.mtbf - self.burst_fraction * self.burst_mean_s) / (1 - self.burst_fraction)

    def gap(self, rng: random.Random) -> float:
        mean = self.burst_mean_s if rng.random() < self.burst_fraction else self.quiet_mean_s
        return -mean * math.log1p(-rng.random())


@dataclass(frozen=True, slots=True)
class Deadline(Process):
    """A kill every ``period_s`` seconds of wall time: an idle culler, a wall-clock limit. No seed changes it."""

    period_s: float
    kind: ClassVar[str] = "deadline"

    def __post_init__(self) -> None:
        _positive(self.kind, period_s=self.period_s)

    def times(self, seed: int) -> Iterator[float]:
        number = 1
        while True:
            yield number * self.period_s
            number += 1


@dataclass(frozen=True, slots=True)
class CrashLoop(Process):
    """A poison event: work dies each time it reaches event number ``at_event`` (from 1), ``kills`` times or for ever.

    It depends on progress, not on time: :meth:`times` is empty, and the replay asks for the two fields.
    """

    at_event: int
    kills: int | None = None
    kind: ClassVar[str] = "crash_loop"

    def __post_init__(self) -> None:
        if self.at_event < 1 or (self.kills is not None and self.kills < 1):
            raise BadDefinition("a crash loop needs an event number, and a number of kills if any, of at least 1")

    def times(self, seed: int) -> Iterator[float]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Times(Process):
    """Crashes at given times, seconds since the start, the same for each seed."""

    times_s: tuple[float, ...]
    kind: ClassVar[str] = "times"

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "times_s", tuple(float(t) for t in self.times_s))
        except (TypeError, ValueError):
            raise BadDefinition(
                f"crash times are finite numbers of seconds of at least 0, not {self.times_s!r}"
            ) from None
        if any(not (0 <= t < math.inf) for t in self.times_s):
            raise BadDefinition("crash times are finite numbers of seconds of at least 0")
        if list(self.times_s) != sorted(self.times_s):
            raise BadDefinition("crash times must be in ascending order")

    @classmethod
    def load(cls, path: str | Path) -> Times:
        """Read times from a file: a JSON list, or one number in a line (blank lines and ``#`` remarks are passed over).

        Raises:
            BadDefinition: the file is missing or holds something else.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
            if text.lstrip().startswith("["):
                return cls(tuple(json.loads(text)))
            lines = (line.partition("#")[0].strip() for line in text.splitlines())
            return cls(tuple(float(line) for line in lines if line))
        except (OSError, ValueError, TypeError, BadDefinition) as error:
            raise BadDefinition(f"crash times in {str(path)!r}: {error}") from None

    def times(self, seed: int) -> Iterator[float]:
        return iter(self.times_s)


PROCESSES: Mapping[str, type[Process]] = {
    cls.kind: cls for cls in (Exponential, Weibull, Bursty, Deadline, CrashLoop, Times)
}  # fmt: skip


def from_json(data: Mapping[str, Any]) -> Process:
    """A failure process from its JSON.

    Raises:
        UnknownName, BadDefinition: no such process, or fields that it does not have.
    """
    kind = data.get("kind")
    cls = PROCESSES.get(str(kind))
    if cls is None:
        raise UnknownName("failure process", str(kind), PROCESSES)
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k != "kind"}
    known = [f.name for f in fields(cls)]
    for name in given:
        if name not in known:
            raise UnknownName(f"field of failure process {kind}", name, known)
    missing = [f.name for f in fields(cls) if f.default is MISSING and f.name not in given]
    if missing:
        raise BadDefinition(f"failure process {kind} needs a value for {' and '.join(missing)}")
    try:
        return cls(**given)
    except TypeError as error:
        raise BadDefinition(f"failure process {kind}: {error}") from None


def _positive(kind: str, **named: float) -> None:
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise BadDefinition(f"failure process {kind}: {name} must be a positive finite number, not {value!r}")
