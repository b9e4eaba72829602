"""The rules of a budget, one by one: start, estimates, quotas, alerts, prices, amounts in words."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab import budget
from agentlab.budget import BudgetState, from_limits
from agentlab.budget.dimensions import DERIVED, DIMENSIONS, amount_of, dimension_named, shown
from agentlab.budget.estimating import BOUNDS, factor
from agentlab.budget.state import Learned
from agentlab.budget.words import extension, limits_of
from agentlab.definition import Limits
from agentlab.errors import BadDefinition, UnknownName
from agentlab.evolve import evolve
from agentlab.ports import Usage

NAMES = [*DIMENSIONS, "tokens", "tool:send"]
AMOUNTS = st.dictionaries(st.sampled_from([*DIMENSIONS, "tool:send"]), st.integers(0, 500), max_size=4)


@given(
    name=st.sampled_from(NAMES), limit=st.integers(1, 1000), used=AMOUNTS, reserved=AMOUNTS, at_risk=AMOUNTS,
    kept=st.integers(0, 300), wanted=AMOUNTS, finishing=st.booleans(),
)  # fmt: skip
def test_the_start_rule(name, limit, used, reserved, at_risk, kept, wanted, finishing):
    state = BudgetState(
        used=used, reserved={"r": reserved}, at_risk={"q": at_risk}, limits={name: limit}, kept={name: kept}
    )

    def amount(of):
        kinds = ("input_tokens", "output_tokens", "cache_tokens") if name == "tokens" else (name,)
        return sum(of.get(kind, 0) for kind in kinds)

    left = limit - amount(used) - amount(reserved) - amount(at_risk) - amount(wanted) - (0 if finishing else kept)
    count = name in ("model_calls", "tool_calls", "steps") or name.startswith("tool:")
    allowed = left >= 0 if count else left > 0
    assert (budget.exhausted(state, wanted, finishing=finishing) is None) == allowed


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "cache_tokens", "tokens", "cost_microusd",
                                  "model_calls", "tool_calls", "steps"])  # fmt: skip
def test_each_dimension_can_be_limited_alone(name):
    state = from_limits(Limits(**{name: 10}))
    assert set(state.limits) == {name}
    counted = "input_tokens" if name == "tokens" else name
    assert budget.exhausted(state, {counted: 9}) is None
    assert budget.exhausted(state, {counted: 11}) == name


def test_times_and_single_tools_can_be_limited_alone():
    assert from_limits(Limits(active_s=1.5)).limits == {"active_ms": 1500}
    wall = from_limits(Limits(wall_s=2))
    assert wall.limits == {"wall_ms": 2000}
    assert budget.exhausted(wall, {}, wall_ms=1999) is None and budget.exhausted(wall, {}, wall_ms=2000) == "wall_ms"
    tool = from_limits(Limits(tool_calls_by_tool={"send": 1}))
    assert budget.exhausted(tool, {"tool:send": 1}) is None and budget.exhausted(tool, {"tool:other": 9}) is None
    assert budget.exhausted(budget.settle(tool, None, {"tool:send": 1}), {"tool:send": 1}) == "tool:send"


# --- estimates -----------------------------------------------------------------------------------------------------


def learned_from(ratios, base=1000):
    state = BudgetState()
    for ratio in ratios:
        state = evolve(state, estimate={"input_tokens": base, "output_tokens": base})
        actual = {"input_tokens": round(base * ratio), "output_tokens": round(base * ratio)}
        state = evolve(state, learned=budget.learn(state, actual), estimate={})
    return state


@given(st.lists(st.floats(0, 50, allow_nan=False), max_size=40))
def test_factors_stay_in_their_bounds_and_the_state_does_not_grow(ratios):
    state = learned_from(ratios)
    for dimension, (_, low, high) in BOUNDS.items():
        assert low <= factor(state.learned.get(dimension, Learned()), dimension) <= high
    assert len(state.learned) <= len(BOUNDS)


@pytest.mark.parametrize("true", [0.6, 1.0, 1.7])
def test_a_factor_learns_how_wrong_the_estimates_are(true):
    rng = random.Random(7)
    state = learned_from([])
    short = 0
    for n in range(300):
        actual = max(0.0, rng.gauss(true, 0.1 * true)) * 1000
        promised = budget.estimated(state, {"input_tokens": 1000})["input_tokens"]
        short += n >= 20 and actual > promised
        state = evolve(state, estimate={"input_tokens": 1000})
        state = evolve(state, learned=budget.learn(state, {"input_tokens": round(actual)}), estimate={})
    found = factor(state.learned["input_tokens"], "input_tokens")
    assert true < found < 1.6 * true, "above what is needed, and not by much"
    assert short / 280 < 0.1, "rarely too low"


def test_before_anything_was_seen_the_prior_counts():
    assert budget.estimated(BudgetState(), {"input_tokens": 100, "output_tokens": 50}) == {
        "input_tokens": 120,
        "output_tokens": 50,
    }


# --- quotas --------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(quota=st.integers(1, 5), gaps=st.lists(st.integers(0, 40_000_000), min_size=1, max_size=40))
def test_no_minute_has_more_sends_than_its_quota_and_nobody_waits_longer_than_a_minute(quota, gaps):
    state = from_limits(Limits(requests_per_minute=quota))
    now, sends = 1_700_000_000_000_000, []
    for gap in gaps:
        now += gap
        wait = budget.not_before(state, "requests")
        assert wait <= now + 61_000_000
        now = max(now, wait)
        state = budget.sent(state, "requests", now)
        sends.append(now)
        assert len(state.recent["requests"]) <= 62
    for first in sends:
        assert sum(1 for at in sends if first <= at < first + 60_000_000) <= quota


def test_a_service_has_one_quota_for_all_its_tools_and_a_tool_its_own():
    limits = Limits(per_minute_by_tool={"crm": 2, "send": 1})
    state = from_limits(limits, {"services": {"crm": ["fetch", "send"]}})
    at = 1_700_000_000_000_000
    state = budget.sent(state, "send", at)
    assert budget.not_before(state, "send") > at and budget.not_before(state, "fetch") == 0
    state = budget.sent(state, "fetch", at)
    assert budget.not_before(state, "fetch") > at, "the service's two sends are used up"
    assert budget.not_before(state, "other") == 0 and budget.not_before(state, "requests") == 0


# --- alerts, prices, words -----------------------------------------------------------------------------------------


def test_an_alert_is_due_once_per_threshold_and_anew_after_an_extension():
    state = from_limits(Limits(tool_calls=10), {"alerts": [0.5, 0.9]})
    assert budget.due_alert(state) is None
    state = budget.settle(state, None, {"tool_calls": 5})
    assert budget.due_alert(state) == ("tool_calls", 0.5)
    state = evolve(state, alerted={"tool_calls": 0.5})
    assert budget.due_alert(state) is None
    state = budget.settle(state, None, {"tool_calls": 5})
    assert budget.due_alert(state) == ("tool_calls", 0.9)
    state = budget.extend(evolve(state, alerted={"tool_calls": 0.9}), "tool_calls", 20, 0)
    assert budget.due_alert(state) == ("tool_calls", 0.5)
    assert budget.extend(state, "tool_calls", 99, 0) == state, "an extension counts once"


def test_an_unknown_price_is_unknown_and_not_zero():
    usage = Usage(1000, 100, 50, 0)
    assert budget.price_of({"m": {"input": 3}}, "other") is None and budget.price_of(None, "m") is None
    assert budget.cost_microusd(usage, {"input": 3.0, "output": 15.0, "cache_read": 0.3}) == 4515
    assert budget.cost_microusd(usage, {"input": 3.0, "output": 15.0}) is None, (
        "nobody said what reading the cache costs"
    )
    assert budget.cost_microusd(Usage(10, 10), {"input": 3.0, "output": 15.0}) == 180


@pytest.mark.parametrize(
    ("dimension", "text", "amount"),
    [
        ("tokens", "20k", 20_000), ("tokens", "1.5M", 1_500_000), ("input_tokens", 300, 300), ("tool_calls", "5", 5),
        ("cost_microusd", "$2", 2_000_000), ("cost_microusd", "2.50", 2_500_000), ("cost_microusd", 0.1, 100_000),
        ("wall_ms", "90", 90_000), ("wall_ms", "30min", 1_800_000), ("wall_ms", "2h", 7_200_000),
        ("active_ms", "500ms", 500), ("tokens", "10_000", 10_000), ("tokens", "10,000", 10_000),
    ],
)  # fmt: skip
def test_amounts_as_people_write_them(dimension, text, amount):
    assert amount_of(dimension, text) == amount


@pytest.mark.parametrize("text", ["", "k", "many", "0", "-5", "nan", "inf", "5x", "1e999"])
def test_what_is_no_amount(text):
    with pytest.raises(BadDefinition, match="tokens"):
        amount_of("tokens", text)


def test_names_of_dimensions():
    assert dimension_named("cost") == "cost_microusd" and dimension_named("tool:send") == "tool:send"
    assert all(dimension_named(name) == name for name in (*DIMENSIONS, *DERIVED))
    with pytest.raises(UnknownName, match="did you mean .*tokens"):
        dimension_named("tokns")
    assert shown("cost_microusd", 2_500_000) == "$2.5000" and shown("wall_ms", 1500) == "1.5 s"
    assert shown("tokens", 20_000) == "20,000" and shown("tokens", None) == "no limit"


def test_extensions_as_people_type_them():
    assert extension(["extend", "tokens=20k", "cost=$1"]) == {"tokens": "20k", "cost": "$1"}
    for wrong in (["extend"], ["extent", "tokens=1"], ["extend", "tokens"], ["extend", "=5"], ["extend", "tokens="]):
        with pytest.raises(BadDefinition, match="tokens=20k"):
            extension(wrong)


def test_limits_as_people_write_them():
    said = {"tokens": "20k", "cost": 2.5, "wall": "2h", "active_s": 5, "tool:send": "2", "max_turns": 9, "calls": "3"}
    limits = Limits(**limits_of(said))
    assert (limits.tokens, limits.cost_microusd, limits.wall_s, limits.active_s) == (20_000, 2_500_000, 7200.0, 5)
    assert (limits.tool_calls_by_tool, limits.max_turns, limits.tool_calls) == ({"send": 2}, 9, 3)
    both = {"tool_calls_by_tool": {"read": 9}, "tool:send": 2}
    assert limits_of(both) == {"tool_calls_by_tool": {"read": 9, "send": 2}}
    assert both["tool_calls_by_tool"] == {"read": 9}, "what was given is not changed"
    with pytest.raises(UnknownName, match="did you mean tokens"):
        limits_of({"tokns": "20k"})
