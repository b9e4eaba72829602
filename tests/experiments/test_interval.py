"""Young, Daly and the exact optimum against published anchors, worked examples, limits and a simulation."""

import math
import random
from itertools import pairwise
from statistics import fmean, stdev

import pytest

from agentlab import interval
from agentlab.errors import BadDefinition
from agentlab.experiments import Costs, Exponential, Track, WhatIf

# delta, M, R, Ts in seconds; then Young, Daly first order, Daly, optimum, E[T] there, its overhead, waste exact and
# of first order, and E[T] without checkpoints: worked out apart from this code.
EXAMPLES = {
    "A": (0.5, 3600, 5, 28800, 60.0000, 59.5417, 59.6671, 59.6671, 29326.084, 0.018267, 0.017939, 0.018056, 1.07428e7),
    "B": (20, 3600, 60, 28800, 379.4733, 362.6225, 366.2571, 366.2588, 32600.778, 0.131971, 0.116586, 0.122092, 1.09081e7),
    "C": (120, 7200, 180, 86400, 1314.5341, 1210.8644, 1235.7513, 1235.7813, 106942.427, 0.237760, 0.192089, 0.207661, 1.20149e9),
}  # fmt: skip


@pytest.mark.parametrize(("mtbf", "published", "ours", "exact"),
                         [(24 * 60, 117, 116.690, 116.690), (6 * 60, 57, 56.713, 56.714), (15, 9.1, 9.141, 9.167)])  # fmt: skip
def test_anchors_of_dalys_figures(mtbf, published, ours, exact):
    found = interval.daly(5, mtbf)  # minutes: delta 5
    assert found == pytest.approx(published, rel=0.006)
    assert found == pytest.approx(ours, abs=5e-4)
    assert interval.optimum(5, mtbf) == pytest.approx(exact, abs=5e-4)


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name):
    d, m, r, ts, young, first, daly, best, time, over, waste, rough, without = EXAMPLES[name]
    assert interval.young(d, m) == pytest.approx(young, abs=6e-5)
    assert interval.daly_first(d, m, r) == pytest.approx(first, abs=6e-5)
    assert interval.daly(d, m) == pytest.approx(daly, abs=6e-5)
    tau = interval.optimum(d, m)
    assert tau == pytest.approx(best, abs=6e-5)
    assert interval.completion_time(ts, tau, d, m, r) == pytest.approx(time, abs=6e-4)
    assert interval.overhead(tau, d, m, r) == pytest.approx(over, abs=6e-7)
    assert interval.waste(tau, d, m, r) == pytest.approx(waste, abs=1.1e-6)
    assert interval.waste_first_order(tau, d, m, r) == pytest.approx(rough, abs=1e-6)
    assert interval.completion_time_without(ts, m, r) == pytest.approx(without, rel=1e-5)


def argmin(function, low, high):
    """Where a central difference changes sign, by bisection: minima are too flat to find by comparing values.

    The step of 3e-4 moves it by about 5e-8 of itself.
    """
    for _ in range(60):
        middle = (low + high) / 2
        step = middle * 3e-4
        low, high = (low, middle) if function(middle + step) > function(middle - step) else (middle, high)
    return low


@pytest.mark.parametrize(("delta", "mtbf"), [(0.5, 3600), (20, 3600), (120, 7200), (300, 900), (5, 1), (0.012, 3600)])
def test_the_numeric_minimum_is_the_lambert_w_one(delta, mtbf):
    found = argmin(lambda tau: interval.completion_time(1000, tau, delta, mtbf, 7), 1e-4 * mtbf, 1.2 * mtbf)
    assert interval.optimum(delta, mtbf) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_simulation_agrees_with_the_expected_time(name):
    d, m, r, ts = EXAMPLES[name][:4]
    segments = round(ts / interval.optimum(d, m))
    track = Track([(ts / segments,)] * segments)
    whatif = WhatIf(track, "every=1", Costs(d, r, final_checkpoint=True))
    expected = interval.completion_time(ts, ts / segments, d, m, r)
    for block in range(3):
        times = [whatif.run(Exponential(m), seed).completion_s for seed in range(2000 * block, 2000 * (block + 1))]
        z = (fmean(times) - expected) / (stdev(times) / math.sqrt(len(times)))
        assert abs(z) < 3


def test_a_simulation_agrees_without_checkpoints():
    whatif = WhatIf([(5000.0,)], "never", Costs(20, 60))
    times = [whatif.run(Exponential(3600), seed).completion_s for seed in range(4000)]
    z = (fmean(times) - interval.completion_time_without(5000, 3600, 60)) / (stdev(times) / math.sqrt(len(times)))
    assert abs(z) < 3


def test_without_failures_only_checkpoints_cost():
    for tau in (10.0, 300.0, 5000.0):
        assert interval.completion_time(28800, tau, 20, 1e13, 60) == pytest.approx(28800 * (1 + 20 / tau), rel=1e-8)
    assert interval.completion_time_without(28800, 1e13) == pytest.approx(28800, rel=1e-8)


def test_the_restart_time_leaves_the_optimum_alone_and_scales_the_time():
    for tau in (100.0, interval.optimum(20, 3600), 2000.0):
        ratio = interval.completion_time(28800, tau, 20, 3600, 300) / interval.completion_time(28800, tau, 20, 3600, 60)
        assert ratio == pytest.approx(math.exp(240 / 3600), rel=1e-12)


def test_units_do_not_matter():
    for f in (1 / 60, 1000.0):
        for rule in (interval.young, interval.daly, interval.optimum):
            assert rule(20 * f, 3600 * f) == pytest.approx(f * rule(20, 3600), rel=1e-12)
        assert interval.daly_first(20 * f, 3600 * f, 60 * f) == pytest.approx(
            f * interval.daly_first(20, 3600, 60), rel=1e-12
        )
        assert interval.completion_time(9000 * f, 300 * f, 20 * f, 3600 * f, 60 * f) == pytest.approx(
            f * interval.completion_time(9000, 300, 20, 3600, 60), rel=1e-12
        )


def test_a_checkpoint_that_cannot_pay_is_clamped_with_a_warning():
    for method in interval.METHODS:
        for delta in (20, 50):
            found = interval.recommend(delta, 10, method=method)
            assert found.tau == 10 and found.clamped and "costs more than it saves" in found.warning
        plain = interval.recommend(19.9, 10, method=method)
        assert not plain.clamped and not plain.warning
    assert interval.daly(20, 10) == 10
    assert interval.daly_first(20, 10) == 10


def test_the_expected_time_is_convex_around_the_optimum():
    for d, m, r, ts, *_ in EXAMPLES.values():
        best = interval.optimum(d, m)
        grid = [best * (0.3 + 0.05 * i) for i in range(60)]
        times = [interval.completion_time(ts, tau, d, m, r) for tau in grid]
        slopes = [b - a for a, b in pairwise(times)]
        assert all(b > a for a, b in pairwise(slopes))
        assert min(times) >= interval.completion_time(ts, best, d, m, r)


def test_an_interval_longer_than_the_work_means_no_checkpoint():
    found = interval.recommend(20, 3600, work=300)
    assert found.tau == math.inf and not found.clamped and "no checkpoint" in found.warning
    assert interval.recommend(20, 3600, work=400).tau == interval.daly(20, 3600)
    both = interval.recommend(20, 3, work=2)
    assert both.tau == math.inf and both.clamped


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, -math.inf, "5", None, True])
def test_bad_numbers_are_refused(bad):
    for function in (interval.young, interval.daly, interval.daly_first, interval.optimum, interval.recommend):
        for args in ((bad, 10), (10, bad)):
            with pytest.raises(BadDefinition):
                function(*args)
    for function, good in ((interval.completion_time, 4), (interval.segment_time, 3), (interval.waste_first_order, 3),
                           (interval.completion_time_without, 2)):  # fmt: skip
        for place in range(good):
            with pytest.raises(BadDefinition):
                function(*(bad if i == place else 10 for i in range(good)))
    if bad != 0 or isinstance(bad, bool):
        with pytest.raises(BadDefinition):
            interval.completion_time(10, 10, 10, 10, bad)
    if bad is not None:
        with pytest.raises(BadDefinition):
            interval.recommend(1, 10, work=bad)


def test_an_unknown_method_is_refused():
    with pytest.raises(BadDefinition, match="daly_first"):
        interval.recommend(1, 10, method="best")


@pytest.mark.parametrize(("z", "w"), [(0.0, 0.0), (1.0, 0.5671432904097838), (math.e, 1.0), (-1 / math.e, -1.0),
                                      (-0.3, -0.489402227180215), (0.5, 0.35173371124919584), (1e5, 9.284571428622108)])  # fmt: skip
def test_lambert_w_at_known_places(z, w):
    assert interval.lambert_w0(z) == pytest.approx(w, rel=1e-13, abs=1e-300)


def test_lambert_w_solves_its_equation():
    rng = random.Random(1)
    for _ in range(2000):
        w = rng.uniform(-0.999, 30)
        assert interval.lambert_w0(w * math.exp(w)) == pytest.approx(w, rel=1e-9, abs=1e-9)
    for bad in (-0.4, math.nan, math.inf):
        with pytest.raises(BadDefinition):
            interval.lambert_w0(bad)


def test_the_optimum_is_smooth_where_its_series_begins():
    for x in (1e-12, 0.999e-9, 1.001e-9, 1e-7, 0.499, 0.501, 3.0, 400.0):
        tau = interval.optimum(x, 1.0)
        assert 0 < tau <= 1
        near = interval.young(x, 1.0) * (1 + math.sqrt(x / 2) / 3 + x / 18) - x
        if x < 1e-6:
            assert tau == pytest.approx(near, rel=1e-11)


def test_overflow_is_infinite_time():
    assert interval.completion_time_without(1e9, 1) == math.inf
    assert interval.waste(1e9, 1, 1) == 1.0
