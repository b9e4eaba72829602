"""Paired comparisons cover the truth, the number of runs gives the power it promises, sentences state their doubt."""

import math
import random

import pytest

from agentlab.errors import BadDefinition
from agentlab.experiments import Costs, Exponential, compare, recommend, runs_needed, sweep


def results(shift, seeds, noise=5.0, start=0):
    rng = random.Random(start)
    base = {s: 100 + rng.gauss(0, 20) for s in range(seeds)}
    return {"default": base, "other": {s: v + shift + rng.gauss(0, noise) for s, v in base.items()}}


@pytest.mark.parametrize("seeds", [8, 12, 30])
def test_paired_intervals_cover_the_difference_nearly_as_often_as_they_say(seeds):
    covered = 0
    for trial in range(600):
        found = compare(results(-2.0, seeds, start=trial), "other", "default", seed=trial)
        covered += found.low <= -2.0 <= found.high
    assert 0.92 <= covered / 600 <= 0.98


def test_pairing_takes_out_what_seeds_have_in_common():
    found = compare(results(-2.0, 100, noise=1.0), "other", "default")
    assert found.high - found.low < 1 and found.certain  # the seeds themselves spread by 20
    assert found == compare(results(-2.0, 100, noise=1.0), "other", "default")


def test_the_number_of_runs_gives_the_power():
    assert runs_needed(1.0, 0.5) == 34  # the t-test's tables: 34
    assert runs_needed(1.0, 1.0) == 10
    assert runs_needed(0.0, 1.0) == 2
    needed = runs_needed(5.0, 2.0)
    seen = sum(compare(results(-2.0, needed, start=s), "other", "default", seed=s).certain for s in range(300))
    assert 0.73 <= seen / 300 <= 0.90
    for bad in ((1, 0), (math.nan, 1), (1, math.inf), (-1, 1)):
        with pytest.raises(BadDefinition):
            runs_needed(*bad)
    with pytest.raises(BadDefinition):
        runs_needed(1, 1, power=1)


def test_a_sure_recommendation_names_policy_size_and_doubt():
    found = recommend(results(-10.0, 40), "default")
    assert found.best == "other" and found.certain
    assert (
        found.text.startswith("Use other: its completion time is -")
        and "95 % interval" in found.text
        and "40 seeds" in found.text
    )


def test_an_unsure_one_says_how_many_seeds_it_would_take():
    found = recommend(results(-0.4, 8, start=1), "default")
    assert found.best == "default" and not found.certain and found.runs_needed and found.runs_needed > 8
    assert "No policy is shown to be better" in found.text and f"about {found.runs_needed} seeds" in found.text
    assert "rough one" in found.text


@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
def test_a_few_pairs_have_no_interval_and_the_sentence_says_how_many_it_takes(seeds):
    found = recommend(results(-10.0, seeds), "default")
    (one,) = found.comparisons
    assert math.isnan(one.low) and math.isnan(one.high) and not one.certain and not found.certain
    assert found.best == "default" and "Too few runs" in found.text and "takes 6 seeds" in found.text
    assert "nan" not in found.text and (found.runs_needed is None) == (seeds == 1)
    # Alike in every pair is no more certain, and a difference of rounding alone needs no number of runs.
    same = {"a": dict.fromkeys(range(seeds), 2.0), "b": dict.fromkeys(range(seeds), 1.0)}
    assert not recommend(same, "a").certain
    noise = {"a": {0: 1.0, 1: 5.0}, "b": {0: 1.0 + 1e-15, 1: 5.0 - 1e-14}}
    assert recommend(noise, "a").runs_needed is None


def test_a_worse_policy_is_not_recommended():
    found = recommend(results(+10.0, 40), "default")
    assert found.best == "default" and found.certain and found.text.startswith("Stay with default")


def test_several_policies_widen_the_intervals():
    two = results(-2.0, 40)
    many = {**two, "third": {s: v + 5 for s, v in two["default"].items()}, "fourth": two["default"]}
    one, all_of_them = recommend(two, "default").comparisons[0], recommend(many, "default").comparisons[0]
    assert all_of_them.low < one.low and all_of_them.high > one.high
    assert "all 3 comparisons" in recommend(many, "default").text


def test_unfinished_runs_are_never_a_gain():
    some = results(-10.0, 40)
    some["other"][3] = math.inf
    found = recommend(some, "default")
    assert found.best == "default" and "unfinished" in found.text
    some["default"][3] = math.inf
    assert (
        recommend(some, "default").best == "other" and "itself left 1 run unfinished" in recommend(some, "default").text
    )
    some["stuck"] = dict.fromkeys(range(40), math.inf)
    assert "Not considered, for unfinished runs: stuck" in recommend(some, "default").text


def test_results_of_a_sweep_lead_to_a_recommendation():
    outcomes = list(sweep([(10.0,)] * 500, {"every=1": "every=1", "daly": "daly=mtbf:900,cost:5", "every=400": "every=400"},
                          {"often": Exponential(900)}, range(60), Costs(5, 20)))  # fmt: skip
    table = {}
    for o in outcomes:
        table.setdefault(o.policy, {})[o.seed] = o.replay.completion_s
    assert recommend(table, "every=1").best == "daly"


@pytest.mark.parametrize(
    "make",
    [
        lambda: recommend({"a": {1: 2.0}}, "a"),
        lambda: recommend({"a": {1: 2.0}, "b": {1: 3.0}}, "c"),
        lambda: compare({"a": {1: 2.0}, "b": {2: 3.0}}, "a", "b"),
    ],
)
def test_nothing_to_compare_is_refused(make):
    with pytest.raises(BadDefinition):
        make()
