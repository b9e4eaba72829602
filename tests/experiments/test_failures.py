"""Failure processes: means, seeds, JSON, and refusals."""

import json
import math
from itertools import pairwise
from statistics import fmean, pvariance

import pytest

from agentlab.errors import BadDefinition, UnknownName
from agentlab.experiments import Bursty, CrashLoop, Deadline, Exponential, Poisson, Times, Weibull
from agentlab.failures import from_json

ALL = [
    Exponential(60),
    Weibull(60, 0.5),
    Weibull(60, 3),
    Bursty(60, 0.7, 1),
    Deadline(60),
    CrashLoop(3, 2),
    Times((1, 2.5)),
]


def gaps(process, count=40_000):
    times = process.sample(7, 60.0 * count)
    return [b - a for a, b in pairwise([0.0, *times])]


@pytest.mark.parametrize(
    ("process", "dispersion"),
    [
        (Exponential(60), 1.0),
        (Weibull(60, 0.5), 5.0),
        (Weibull(60, 0.7), math.gamma(1 + 2 / 0.7) / math.gamma(1 + 1 / 0.7) ** 2 - 1),
        (Weibull(60, 3), math.gamma(1 + 2 / 3) / math.gamma(1 + 1 / 3) ** 2 - 1),
        (Bursty(60, 0.7, 1), 2 * (0.7 + 0.3 * Bursty(60, 0.7, 1).quiet_mean_s ** 2) / 3600 - 1),
    ],
)
def test_gaps_have_the_mean_and_the_spread_they_should(process, dispersion):
    found = gaps(process)
    assert abs(fmean(found) - 60) < 4 * 60 * math.sqrt(dispersion / len(found))
    assert pvariance(found) / fmean(found) ** 2 == pytest.approx(dispersion, rel=0.1)


def test_a_weibull_of_shape_one_is_exponential():
    assert Weibull(60, 1).sample(3, 5000) == pytest.approx(Exponential(60).sample(3, 5000))
    assert Poisson is Exponential


def test_a_burst_has_its_short_gaps():
    short = sum(gap < 3 for gap in gaps(Bursty(60, 0.7, 1))) / len(gaps(Bursty(60, 0.7, 1)))
    assert short == pytest.approx(0.7 * (1 - math.exp(-3)) + 0.3 * (1 - math.exp(-3 / 197.67)), abs=0.01)


@pytest.mark.parametrize("process", ALL, ids=lambda p: p.kind)
def test_a_seed_decides_and_a_longer_horizon_only_adds(process):
    assert process.sample(5, 2000) == process.sample(5, 2000)
    assert process.sample(5, 2000) == [t for t in process.sample(5, 4000) if t <= 2000]
    assert process.sample(5, 2000) == sorted(process.sample(5, 2000))
    assert process.sample(5, 0) == []


@pytest.mark.parametrize("process", ALL, ids=lambda p: p.kind)
def test_json_round_trip(process):
    assert from_json(json.loads(json.dumps(process.to_json()))) == process


def test_fixed_times():
    assert Deadline(60).sample(1, 200) == [60, 120, 180]
    assert CrashLoop(3).sample(1, 200) == []
    assert Times((1, 2, 300)).sample(1, 200) == [1, 2]


def test_times_from_a_file(tmp_path):
    lines, listed, wrong = tmp_path / "a.txt", tmp_path / "b.json", tmp_path / "c.txt"
    lines.write_text("# seconds\n1.5\n\n20  # the second\n")
    listed.write_text("[1.5, 20]")
    wrong.write_text("soon\n")
    assert Times.load(lines) == Times.load(listed) == Times((1.5, 20.0))
    for path in (wrong, tmp_path / "none"):
        with pytest.raises(BadDefinition):
            Times.load(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Exponential(0),
        lambda: Exponential(math.nan),
        lambda: Weibull(60, -1),
        lambda: Bursty(60, 1.0, 1),
        lambda: Bursty(60, 0.9, 100),
        lambda: Deadline(math.inf),
        lambda: CrashLoop(0),
        lambda: CrashLoop(1, 0),
        lambda: Times((2, 1)),
        lambda: Times((-1,)),
        lambda: Exponential(60).sample(1, math.inf),
        lambda: from_json({"kind": "exponential"}),
    ],
)
def test_wrong_numbers_are_refused(make):
    with pytest.raises(BadDefinition):
        make()


def test_unknown_names_are_refused():
    with pytest.raises(UnknownName):
        from_json({"kind": "poison"})
    with pytest.raises(UnknownName):
        from_json({"kind": "weibull", "mtbf": 60, "scale": 2})
