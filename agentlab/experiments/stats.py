"""Comparing policies pairwise by seed, and saying how sure one can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

from agentlab.errors import BadDefinition
from agentlab.experiments.fit import bootstrap_mean, values_for

POWER = 0.8
MOST_RUNS = 1_000_000
"""A difference that would take more runs than that to be seen is as good as none."""
ROUNDING = 1e-9
"""A mean difference under this part of the means is rounding."""
FEW = 10
"""Under this number of seeds a bootstrap interval is rough, and the sentence says so."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``policy`` against ``baseline`` over the seeds that both finished; differences in the unit of the values.

    ``difference`` is the mean of policy minus baseline: under 0 the policy is better where less is better.
    ``unfinished`` counts seeds that the policy did not finish, ``unfinished_baseline`` those of the baseline.
    """

    policy: str
    baseline: str
    seeds: int
    mean: float
    mean_baseline: float
    difference: float
    low: float
    high: float
    spread: float
    confidence: float
    unfinished: int = 0
    unfinished_baseline: int = 0

    @property
    def certain(self) -> bool:
        """Whether there is an interval, and it leaves out zero."""
        return self.low > 0 or self.high < 0

    @property
    def runs_needed(self) -> int | None:
        """Seeds that would tell the difference from zero; None where there is none to speak of, or one seed alone."""
        if self.seeds < 2 or abs(self.difference) <= ROUNDING * max(abs(self.mean), abs(self.mean_baseline)):
            return None
        needed = max(runs_needed(self.spread, self.difference, POWER, self.confidence), values_for(self.confidence))
        return needed if needed <= MOST_RUNS else None

    def relative(self, value: float) -> float:
        """A difference as a fraction of the baseline's mean."""
        return value / self.mean_baseline if self.mean_baseline else math.nan


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A sentence, and what stands behind it. ``best`` is the policy to use: the baseline unless another is surely better."""

    text: str
    best: str
    certain: bool
    comparisons: tuple[Comparison, ...]
    runs_needed: int | None = None

    def __str__(self) -> str:
        return self.text


Results = Mapping[str, Mapping[int, float]]
"""Policy to seed to value (completion time, overhead …); an infinite value is a run that did not finish."""


def compare(results: Results, policy: str, baseline: str, confidence: float = 0.95, seed: int = 0) -> Comparison:
    """Paired bootstrap (expanded percentile) of the mean difference over the seeds that both have and both finished.

    Under :func:`agentlab.experiments.fit.values_for` such seeds there is no interval: its ends are NaN.

    Raises:
        BadDefinition: they have no finished seed in common.
    """
    first, second = results[policy], results[baseline]
    common = sorted(set(first) & set(second))
    pairs = [(first[s], second[s]) for s in common if math.isfinite(first[s]) and math.isfinite(second[s])]
    if not pairs:
        raise BadDefinition(f"{policy} and {baseline} have no finished seed in common: run both with the same seeds")
    differences = [a - b for a, b in pairs]
    low, high = bootstrap_mean(differences, confidence, seed)
    return Comparison(
        policy, baseline, len(pairs), fmean(a for a, _ in pairs), fmean(b for _, b in pairs), fmean(differences),
        low, high, stdev(differences) if len(pairs) > 1 else math.nan, confidence,
        sum(not math.isfinite(first[s]) for s in common), sum(not math.isfinite(second[s]) for s in common),
    )  # fmt: skip


def runs_needed(spread: float, effect: float, power: float = POWER, confidence: float = 0.95) -> int:
    """Paired runs that tell a mean difference of ``effect`` from zero, given the differences' standard deviation.

    Normal approximation of the paired t-test with Guenther's correction (1981) for small numbers:
    ``((z_a + z_b) spread / effect)^2 + z_a^2 / 2``.

    Raises:
        BadDefinition: the effect is zero or an input is not finite.
    """
    if not (math.isfinite(spread) and spread >= 0 and math.isfinite(effect) and effect != 0):
        raise BadDefinition(f"no number of runs follows from a spread of {spread!r} and an effect of {effect!r}")
    if not (0 < power < 1 and 0 < confidence < 1):
        raise BadDefinition("power and confidence lie between 0 and 1")
    z_a, z_b = NormalDist().inv_cdf((1 + confidence) / 2), NormalDist().inv_cdf(power)
    return max(2, math.ceil(((z_a + z_b) * spread / effect) ** 2 + z_a * z_a / 2))


def recommend(results: Results, baseline: str, *, what: str = "completion time", confidence: float = 0.95,
              seed: int = 0) -> Recommendation:  # fmt: skip
    """Which policy to use, less being better: another than the baseline only when its interval leaves out zero.

    Choosing among k policies, each interval is widened to a confidence of ``1 - (1 - confidence)/k`` (Bonferroni),
    so that all of them hold together. A policy that left more runs unfinished than the baseline is not recommended.

    Raises:
        BadDefinition: there is no baseline, nothing to compare it with, or no finished seed in common.
    """
    if baseline not in results or len(results) < 2:
        raise BadDefinition(f"a recommendation needs results of the baseline {baseline!r} and of one other policy")
    others = [name for name in results if name != baseline]
    each = 1 - (1 - confidence) / len(others)
    found = [compare(results, name, baseline, each, seed) for name in others if _finished(results, name, baseline)]
    left_out = [name for name in others if name not in {c.policy for c in found}]
    fair = [c for c in found if c.unfinished <= c.unfinished_baseline]
    if not fair:
        text = f"Stay with {baseline}: every other policy left more runs unfinished."
        return Recommendation(text, baseline, False, tuple(found))
    best = min(fair, key=lambda c: (c.unfinished - c.unfinished_baseline, c.difference))
    rather = best.certain and best.difference < 0
    needed = None if best.certain else best.runs_needed
    note = _notes(best, found, left_out, len(others), confidence)
    if math.isnan(best.low):
        text = _too_few(best, what, confidence, needed)
    else:
        text = _sure(best, what, confidence) if best.certain else _unsure(best, what, confidence, needed)
    text += note
    return Recommendation(text, best.policy if rather else baseline, best.certain, tuple(found), needed)


def _finished(results: Results, policy: str, baseline: str) -> bool:
    first, second = results[policy], results[baseline]
    return any(math.isfinite(first[s]) and math.isfinite(second[s]) for s in set(first) & set(second))


def _range(c: Comparison, confidence: float) -> str:
    low, high = sorted((100 * c.relative(c.low), 100 * c.relative(c.high)))
    return f"{100 * confidence:g} % interval {low:+.2g} to {high:+.2g} %, {c.seeds} seeds"


def _sure(c: Comparison, what: str, confidence: float) -> str:
    if c.difference < 0:
        return f"Use {c.policy}: its {what} is {100 * c.relative(c.difference):+.2g} % against {c.baseline} ({_range(c, confidence)})."
    return (f"Stay with {c.baseline}: even the best other policy, {c.policy}, has a {what} of "
            f"{100 * c.relative(c.difference):+.2g} % against it ({_range(c, confidence)}).")  # fmt: skip


def _unsure(c: Comparison, what: str, confidence: float, needed: int | None) -> str:
    text = (f"No policy is shown to be better than {c.baseline}: the best other one, {c.policy}, has a {what} of "
            f"{100 * c.relative(c.difference):+.2g} % against it ({_range(c, confidence)}).")  # fmt: skip
    if needed is None:
        return text
    if needed <= c.seeds:  # the spread and the interval disagree: skewed differences
        return text + " The differences are too skewed to say how many seeds would tell them apart; run more."
    return text + f" If the difference is real, about {needed:,} seeds would show it with a power of {POWER:g}."


def _too_few(c: Comparison, what: str, confidence: float, needed: int | None) -> str:
    """A sentence without an interval: what was seen, and how many seeds it takes to say more."""
    few, seeds = values_for(c.confidence), f"{c.seeds} seed{'s' if c.seeds != 1 else ''}"
    text = (f"Too few runs to recommend anything: over {seeds} that both finished, {c.policy} has a {what} of "
            f"{100 * c.relative(c.difference):+.2g} % against {c.baseline}, and a {100 * confidence:g} % interval takes {few}"
            " seeds at least.")  # fmt: skip
    return text + (f" If the difference is real, about {needed:,} would show it." if needed and needed > few else "")


def _notes(best: Comparison, found: list[Comparison], left_out: list[str], others: int, confidence: float) -> str:
    notes = []
    if others > 1 and not math.isnan(best.low):
        notes.append(
            f" Intervals are widened so that all {others} comparisons hold together at {100 * confidence:g} %."
        )
    if best.seeds < FEW and not math.isnan(best.low):
        notes.append(f" {best.seeds} seeds are few: take the interval as a rough one.")
    stuck = [c.policy for c in found if c.unfinished > c.unfinished_baseline] + left_out
    if stuck:
        notes.append(f" Not considered, for unfinished runs: {', '.join(stuck)}.")
    if best.unfinished_baseline:
        runs = "1 run" if best.unfinished_baseline == 1 else f"{best.unfinished_baseline} runs"
        notes.append(f" {best.baseline} itself left {runs} unfinished.")
    return "".join(notes)
