"""Quantiles against tables; estimates cover the truth as often as they say."""

import math
import random

import pytest

from agentlab.errors import BadDefinition
from agentlab.experiments import Bursty, Exponential, History, dispersion, fit_cost, fit_mtbf
from agentlab.experiments.fit import proportion, values_for
from agentlab.experiments.special import chi2_quantile, gamma_p, t_quantile


@pytest.mark.parametrize(
    ("p", "df", "x"),
    [
        (0.95, 1, 3.841458820694124), (0.05, 2, 0.10258658877510106), (0.95, 2, 5.991464547107979),
        (0.975, 10, 20.483177350807388), (0.025, 10, 3.2469727802368396), (0.99, 5, 15.08627246938899),
        (0.025, 1, 0.0009820691171752555), (0.975, 100, 129.56119718583659), (0.5, 3, 2.3659738843753377),
    ],
)  # fmt: skip
def test_chi_square_quantiles_are_those_of_the_tables(p, df, x):
    assert chi2_quantile(p, df) == pytest.approx(x, rel=1e-9)


@pytest.mark.parametrize(
    ("p", "df", "t", "within"),
    [(0.975, 1, 12.7062, 1e-6), (0.975, 2, 4.302653, 1e-6), (0.975, 3, 3.182446, 0.01), (0.995, 3, 5.840909, 0.02),
     (0.975, 5, 2.570582, 1e-3), (0.975, 10, 2.228139, 1e-4), (0.995, 10, 3.169273, 1e-4), (0.025, 30, -2.042272, 1e-6)],
)  # fmt: skip
def test_t_quantiles_are_those_of_the_tables(p, df, t, within):
    assert t_quantile(p, df) == pytest.approx(t, rel=within)


def test_incomplete_gamma_at_known_places():
    for x in (0.01, 1.0, 5.0, 40.0):
        assert gamma_p(1, x) == pytest.approx(-math.expm1(-x), rel=1e-13)
        assert gamma_p(0.5, x) == pytest.approx(math.erf(math.sqrt(x)), rel=1e-13)
        assert gamma_p(3, x) == pytest.approx(1 - math.exp(-x) * (1 + x + x * x / 2), rel=1e-9)
    assert gamma_p(2, 0) == 0
    for df in (1, 7, 2000, 200_000):
        for p in (1e-6, 0.3, 0.999999):
            assert gamma_p(df / 2, chi2_quantile(p, df) / 2) == pytest.approx(p, rel=1e-6)
    for bad in ((0, 3), (1, 3), (0.5, 0)):
        with pytest.raises(BadDefinition):
            chi2_quantile(*bad)


def test_the_mean_between_failures_is_time_over_failures():
    found = fit_mtbf([History((10.0, 50.0), 100.0), History((), 50.0), History((3.0,), 30.0)])
    assert (found.value, found.count) == (60.0, 3)
    assert found.low == pytest.approx(2 * 180 / 17.534546)
    assert found.high == pytest.approx(2 * 180 / 1.237344)
    assert "95 % interval" in str(found)


def test_no_failure_gives_a_lower_bound_only():
    found = fit_mtbf([History((), 100.0)])
    assert found.value == found.high == math.inf
    assert found.low == pytest.approx(100 / -math.log(0.05))


def test_intervals_of_the_mean_cover_it_as_often_as_they_say():
    time = failure = 0
    for seed in range(2000):
        times = Exponential(60).sample(seed, 1200)
        found = fit_mtbf([History(tuple(t for t in times if t <= 300), 300.0)])
        time += found.low <= 60 <= found.high
        ended = times[:8]
        found = fit_mtbf([History(tuple(ended), ended[-1])], truncated="failure")
        failure += found.low <= 60 <= found.high
    assert 0.945 <= time / 2000 <= 0.99  # never too narrow
    assert 0.935 <= failure / 2000 <= 0.965  # exact


def test_bootstrap_intervals_of_the_cost_cover_it_nearly_as_often_as_they_say():
    rng = random.Random(4)
    covered = 0
    for seed in range(400):
        costs = [rng.lognormvariate(0, 0.5) for _ in range(40)]
        found = fit_cost(costs, seed=seed)
        covered += found.low <= math.exp(0.125) <= found.high
    assert 0.89 <= covered / 400 <= 0.98
    assert fit_cost([1, 2, 3, 4, 5, 6], seed=1) == fit_cost([1, 2, 3, 4, 5, 6], seed=1)
    few = fit_cost([0.2, 0.2, 0.3, 0.3, 0.3])
    assert math.isnan(few.low) and math.isnan(few.high) and "n = 5, too few for a 95 % interval" in str(few)


def test_the_fewest_values_of_an_interval_follow_from_the_range_of_the_data():
    assert [values_for(c) for c in (0.5, 0.9, 0.95, 0.975, 0.99)] == [2, 5, 6, 7, 8]
    # By counting: how often does the range of n values cover the middle of where they come from?
    rng = random.Random(4)
    for count in (3, 5, 6):
        covered = sum(len({rng.random() < 0.5 for _ in range(count)}) == 2 for _ in range(20_000)) / 20_000
        assert covered == pytest.approx(1 - 2 ** (1 - count), abs=0.01)
        assert (covered >= 0.95) == (count >= values_for(0.95))


def test_a_share_has_an_interval_even_where_all_are_alike():
    low, high = proportion(20, 20, 0.95)
    assert low == pytest.approx(0.8389, abs=1e-4) and high == 1.0  # z^2 / (n + z^2) is left open
    assert proportion(0, 20, 0.95) == pytest.approx((0.0, 1 - low))
    assert proportion(81, 263, 0.95) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I
    for bad in ((1, 0), (3, 2), (-1, 2)):
        with pytest.raises(BadDefinition):
            proportion(*bad, 0.95)


def test_bursts_show_in_the_dispersion():
    def of(process):
        return dispersion([History(tuple(process.sample(s, 6000)), 6000) for s in range(20)])

    assert of(Exponential(60)) == pytest.approx(1, abs=0.15)
    assert of(Bursty(60, 0.7, 1)) > 3
    assert math.isnan(dispersion([History((1.0,), 5.0)]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: History((5.0,), 4.0),
        lambda: History((-1.0,), 4.0),
        lambda: History((), math.inf),
        lambda: fit_mtbf([]),
        lambda: fit_mtbf([History((), 9.0)], confidence=1.0),
        lambda: fit_cost([]),
        lambda: fit_cost([math.nan]),
    ],
)
def test_wrong_histories_are_refused(make):
    with pytest.raises(BadDefinition):
        make()
