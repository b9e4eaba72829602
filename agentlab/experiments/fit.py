"""What histories say about the mean time between failures and about the cost of a checkpoint, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Literal

from agentlab.errors import BadDefinition
from agentlab.experiments.special import chi2_quantile, t_quantile

BOOTSTRAPS = 2000


@dataclass(frozen=True, slots=True)
class History:
    """One observed run: failure times in seconds since its start, and the seconds it was observed.

    What lies between the last failure and the end of the span is censored: it counts as time without a failure.
    """

    failures_s: tuple[float, ...]
    span_s: float

    def __post_init__(self) -> None:
        if not 0 <= self.span_s < math.inf:
            raise BadDefinition(f"an observed span is a finite number of seconds of at least 0, not {self.span_s!r}")
        if any(not 0 <= t <= self.span_s for t in self.failures_s):
            raise BadDefinition(f"every failure lies within the observed span of {self.span_s:g} s")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval; same unit as the data. ``count`` failures or measurements stand behind it."""

    value: float
    low: float
    high: float
    count: int
    confidence: float
    method: str

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.value:.4g} (n = {self.count}, too few for a {100 * self.confidence:g} % interval)"
        return f"{self.value:.4g} ({100 * self.confidence:g} % interval {self.low:.4g} to {self.high:.4g}, n = {self.count})"


def fit_mtbf(histories: Iterable[History], confidence: float = 0.95,
             truncated: Literal["time", "failure"] = "time") -> Estimate:  # fmt: skip
    """Mean time between failures in seconds, for failures at a constant rate: observed time over failures.

    With T seconds observed and n failures the interval is ``2T / chi2``: exact with 2n degrees of freedom when
    observation ended at a failure, and with 2n + 2 on the lower side (never too narrow) when it ended at a time
    (Epstein and Sobel 1953; MIL-HDBK-338B, 8.3.2). Without a failure the value is infinite and only the
    one-sided lower bound says something.

    Raises:
        BadDefinition: nothing was observed.
    """
    _fraction(confidence)
    runs = list(histories)
    total = math.fsum(run.span_s for run in runs)
    count = sum(len(run.failures_s) for run in runs)
    if total <= 0:
        raise BadDefinition("no time was observed: give histories with a span of more than 0 s")
    method = f"chi-square, {truncated}-truncated"
    if count == 0:
        return Estimate(
            math.inf, 2 * total / chi2_quantile(confidence, 2), math.inf, 0, confidence, method + ", one-sided"
        )
    tail = (1 - confidence) / 2
    more = 2 if truncated == "time" else 0
    low = 2 * total / chi2_quantile(1 - tail, 2 * count + more)
    high = 2 * total / chi2_quantile(tail, 2 * count)
    return Estimate(total / count, low, high, count, confidence, method)


def fit_cost(costs_s: Sequence[float], confidence: float = 0.95, seed: int = 0) -> Estimate:
    """Mean cost of a checkpoint in seconds, with a percentile bootstrap interval: costs are skewed, not normal.

    The interval is NaN under :func:`values_for` measurements.

    Raises:
        BadDefinition: no cost was measured, or one is negative or not finite.
    """
    _fraction(confidence)
    if not costs_s or any(not 0 <= cost < math.inf for cost in costs_s):
        raise BadDefinition("costs are finite numbers of seconds of at least 0, one or more")
    low, high = bootstrap_mean(costs_s, confidence, seed)
    return Estimate(fmean(costs_s), low, high, len(costs_s), confidence, "expanded percentile bootstrap")


def dispersion(histories: Iterable[History]) -> float:
    """Squared coefficient of variation of the gaps between failures: near 1 at a constant rate, far above in bursts.

    NaN with fewer than three gaps. Above about 3, an interval of twice Young's is worth a try.
    """
    gaps: list[float] = []
    for run in histories:
        times = [0.0, *run.failures_s]
        gaps += [after - before for before, after in zip(times, times[1:], strict=False)]
    if len(gaps) < 3:
        return math.nan
    mean = fmean(gaps)
    return math.fsum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1) / mean**2 if mean > 0 else math.nan


def values_for(confidence: float) -> int:
    """The fewest values that an interval can be made of: 6 at 95 %.

    No bootstrap interval leaves the range of its n values, and that range covers the middle of a continuous distribution
    with a probability of ``1 - 2^(1 - n)`` only (David and Nagaraja, Order Statistics, 3rd ed. 2003, 7.1). The sign-flip
    test of n differences says the same: its smallest p-value is ``2^(1 - n)`` (Fisher, The Design of Experiments, 1935).
    """
    _fraction(confidence)
    return math.ceil(1 - math.log2(1 - confidence))


def bootstrap_mean(
    values: Sequence[float], confidence: float, seed: int, resamples: int = BOOTSTRAPS
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron 1979), its tails moved out as t's are for few values.

    That is the expanded percentile interval of Hesterberg ("What teachers should know about the bootstrap", The
    American Statistician 69(4), 2015); the plain one is too narrow under about 40 values. Under :func:`values_for` values
    there is none (NaN, NaN). The legacy generator is used because its stream never changes.
    """
    if len(values) < values_for(confidence):
        return math.nan, math.nan
    import numpy as np

    data = np.asarray(values, dtype=float)
    rng = np.random.RandomState(seed)
    block = max(1, 2_000_000 // data.size)  # bounds the memory of one draw
    means: list[float] = []
    while len(means) < resamples:
        rows = min(block, resamples - len(means))
        means += data[rng.randint(0, data.size, size=(rows, data.size))].mean(axis=1).tolist()
    wide = t_quantile((1 + confidence) / 2, data.size - 1) * math.sqrt(data.size / (data.size - 1))
    tail = 100 * NormalDist().cdf(-wide)
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


def proportion(hits: int, count: int, confidence: float) -> tuple[float, float]:
    """Wilson's score interval of a share (1927), for any number of values: it has a width also where all are alike.

    The one to use for small numbers: Brown, Cai and DasGupta, Statistical Science 16(2), 2001.

    Raises:
        BadDefinition: nothing was counted, or more hits than there are values.
    """
    _fraction(confidence)
    if not 0 <= hits <= count or count < 1:
        raise BadDefinition(f"{hits} of {count} is no share")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, widened = hits / count, 1 + z * z / count
    middle = (share + z * z / (2 * count)) / widened
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / widened
    return max(0.0, middle - half), min(1.0, middle + half)


def _fraction(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise BadDefinition(f"a confidence lies between 0 and 1, not {confidence!r}")
