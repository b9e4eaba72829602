"""Killed at every crash point: after the recovery the numbers are what they were, and nothing is counted twice."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from agentlab import crashpoints
from agentlab.budget.reserving import known
from agentlab.definition import Limits
from agentlab.events import GENESIS, Draft, Head, seal
from agentlab.harness.wake import load
from agentlab.models.scripted import call, say
from agentlab.session.fold import fold_all
from agentlab.session.state import State
from agentlab.session.statecodec import state_from_json, to_json
from tests.harness.test_simulated_crashes import die_at, visits_of
from tests.harness.worlds import Outside, task, world
from tests.harness.worlds import tools as worlds_tools

PRICES = {"prices": {"scripted:small": {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}}}
LIMITS = Limits(rounds_per_step=10, tool_calls=2, cost_microusd=200_000, tokens=60_000)
"""Two tool calls are allowed, the task needs three: it pauses before the third."""


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    crashpoints.arm(None)


def fresh(**changes):
    outside = Outside()
    made = world(outside)
    made.accept(task(limits=LIMITS, budget=PRICES, **changes), "s")
    return made, outside


def more_calls(made):
    """Extend the limit by one call and ask for the session to go on, as a person would."""
    log = made.store.open("s")
    state = load(log, made.store.blobs).state
    version = state.budget.versions.get("tool_calls", 0)
    drafts = (
        Draft(
            "budget_extended",
            {"id": made.ids.new("i"), "dimension": "tool_calls", "limit": 3, "expected_version": version},
        ),
        Draft("resume_requested", {"id": made.ids.new("i")}),
    )
    head = Head(state.seq, state.hash)
    events = seal(drafts, head, session_id="s", incarnation=state.incarnation, commit_id=made.ids.new("k"),
                  now_us=made.clock.now_us())  # fmt: skip
    log.append(events, state.seq + 1)


def drive(made):
    """To the end, extending where it pauses for its budget."""
    while (why := made.run("s")) != "ended":
        assert why == "paused"
        state = load(made.store.open("s"), made.store.blobs).state
        assert state.control.reason == "budget"
        after = [e.type for e in made.store.open("s").replay(state.checkpoint.seq + 1)]
        assert set(after) <= {"session_paused", "harness_woken", "harness_died"}, "a checkpoint, then the pause"
        more_calls(made)


def judge(made):
    """The folded budget against a plain count of the log's own rows."""
    events = list(made.store.open("s").replay())
    state = fold_all(State(hash=GENESIS), events)
    answers = [e for e in events if e.type == "model_response"]
    used = state.budget.used
    assert used["input_tokens"] == sum(e.input_tokens for e in answers)
    assert used["output_tokens"] == sum(e.output_tokens for e in answers)
    assert used["cache_tokens"] == sum(e.cache_read_tokens + e.cache_write_tokens for e in answers)
    assert used["model_calls"] == len(answers)
    assert used["cost_microusd"] == sum(e.cost_microusd or 0 for e in events) > 0
    results = [e for e in events if e.type in ("tool_result", "tool_error") and not e.payload.get("reused")]
    assert used["tool_calls"] == len(results) == sum(n for name, n in used.items() if name.startswith("tool:"))
    assert not state.budget.reserved
    answered = {e.payload["request_id"] for e in answers}
    lost = {e.payload["request_id"] for e in events if e.type == "model_request"} - answered
    assert set(state.budget.at_risk) == lost, "what a crash hid stays counted, shown apart"
    assert state.budget.versions == {"tool_calls": 1} and state.budget.limits["tool_calls"] == 3
    return state


def test_undisturbed_it_pauses_is_extended_and_goes_on_where_it_was():
    made, outside = fresh()
    drive(made)
    state = judge(made)
    kinds = [e.type for e in made.store.open("s").replay()]
    assert kinds.count("session_paused") == 1 and kinds.count("step_started") == 3, "no step began twice"
    assert kinds.index("budget_alert") < kinds.index("session_paused")
    assert kinds[kinds.index("budget_alert") + 1] in ("snapshot_taken", "checkpoint_written"), (
        "an alert writes a checkpoint"
    )
    assert state.budget.used["tool_calls"] == 3 and outside.requests == 1


def test_a_death_at_every_visit_of_every_crash_point_leaves_the_numbers_as_they_were():
    made, _ = fresh()
    visits = visits_of(lambda: drive(made))
    kept = judge(made).budget.used
    step = 3  # every third visit: each point is met, and the run stays short
    for visit in visits[random.Random(11).randrange(step) :: step]:
        made, outside = fresh()
        die_at(visit)
        try:
            drive(made)
        except crashpoints.SimulatedDeath:
            crashpoints.arm(None)
            log, blobs = made.store.open("s"), made.store.blobs
            before = fold_all(State(hash=GENESIS), list(log.replay()))
            loaded = load(log, blobs).state
            assert loaded.budget == before.budget, f"{visit}: the checkpoint and the log say the same"
            drive(made)
        crashpoints.arm(None)
        state = judge(made)
        assert len(outside.delivered) == 1, visit
        for name in ("tool_calls", "steps", "tool:add", "tool:send"):
            assert state.budget.used[name] == kept[name], (visit, name)


def test_the_whole_budget_survives_a_checkpoint_as_json():
    made, _ = fresh()
    drive(made)
    state = load(made.store.open("s"), made.store.blobs).state
    assert state.budget.learned and state_from_json(to_json(state)).budget == state.budget


def test_what_a_cut_call_cost_can_be_told_later_and_counts_once():
    made, _ = fresh()
    visits = [v for v in visits_of(lambda: drive(made)) if v[0] is crashpoints.CrashPoint.MODEL_REPLY]
    made, _ = fresh()
    die_at(visits[0])
    with pytest.raises(crashpoints.SimulatedDeath):
        drive(made)
    crashpoints.arm(None)
    drive(made)
    before = judge(made).budget
    (request,) = before.at_risk
    after = known(before, request, {"input_tokens": 70, "output_tokens": 5})
    assert not after.at_risk and after.used["input_tokens"] == before.used["input_tokens"] + 70
    assert known(after, request, {"input_tokens": 70}) == after


def test_money_without_a_price_is_not_spent():
    outside = Outside()
    made = world(outside)
    made.accept(task(limits=Limits(cost_microusd=1_000_000)), "s")
    assert made.run("s") == "paused"
    events = list(made.store.open("s").replay())
    assert not any(e.type == "model_request" for e in events)
    pause = events[-1]
    assert pause.payload["reason"] == "budget" and "price of scripted:small" in pause.payload["detail"]


def test_the_minimum_reserve_is_for_the_last_step():
    """Three calls and a limit of three, one kept back: only the last step may take it."""
    for kept, want in ((1, "ended"), (2, "paused")):
        made = world(Outside())
        limits = Limits(rounds_per_step=10, tool_calls=3)
        made.accept(task(limits=limits, budget={"reserve": {"tool_calls": kept}}), "s")
        assert made.run("s") == want, kept


def test_requests_per_minute_and_per_tool_are_waited_for():
    made = world(Outside())
    limits = Limits(rounds_per_step=10, requests_per_minute=1, per_minute_by_tool={"send": 1})
    made.accept(task(limits=limits), "s")
    assert made.run("s") == "ended"
    asked = [e.ts for e in made.store.open("s").replay() if e.type == "model_request"]
    assert all(b - a >= 60_000_000 for a, b in zip(asked, asked[1:], strict=False)), "the clock was waited for"


def test_wall_time_is_a_budget_that_can_be_extended():
    made = world(Outside())
    made.accept(task(limits=Limits(rounds_per_step=10, wall_s=100)), "s")
    made.clock.advance(101)
    assert made.run("s") == "paused"
    state = load(made.store.open("s"), made.store.blobs).state
    assert state.control.reason == "budget" and state.budget.limits["wall_ms"] == 100_000


def test_a_tool_may_carry_a_price():
    made = world(Outside())
    tools = tuple(replace(t, price_microusd=400) if t.name in ("add", "send") else t for t in worlds_tools())
    prices = {"prices": {"scripted:small": {"input": 0.0, "output": 0.0, "cache_read": 0.0, "cache_write": 0.0}}}
    made.accept(task(tools=tools, limits=Limits(rounds_per_step=10, cost_microusd=500), budget=prices), "s")
    assert made.run("s") == "paused"
    state = load(made.store.open("s"), made.store.blobs).state
    assert state.budget.used["cost_microusd"] == 400 and "tool:send" not in state.budget.used, "the second is too dear"


def test_tokens_without_a_price_keep_what_was_expected_counted_until_somebody_knows():
    made = world(Outside())
    prices = {"prices": {"scripted:small": {"input": 3.0, "output": 15.0}}}  # and nothing for the cache
    made.accept(task(limits=Limits(rounds_per_step=10, cost_microusd=2_000_000), budget=prices), "s")
    assert made.run("s") == "ended"
    state = load(made.store.open("s"), made.store.blobs).state.budget
    assert state.unpriced == state.used["model_calls"] == len(state.at_risk)
    assert "cost_microusd" not in state.used and state.committed("cost_microusd") > 0
    request = next(iter(state.at_risk))
    assert known(state, request, {"cost_microusd": 900}).used["cost_microusd"] == 900


def test_time_is_estimated_from_how_long_things_took():
    """Answers take two seconds each: with less than that left, the model is not asked again."""

    def slowly(view):
        made.clock.advance(2.0)
        return [say("thinking"), call("add", a=len(view.calls("add")), b=1)]

    made = world(Outside(), model=slowly)
    made.accept(task(steps=(), validator=None, limits=Limits(active_s=7.0, rounds_per_step=None)), "s")
    assert made.run("s") == "paused"
    state = load(made.store.open("s"), made.store.blobs).state
    assert state.control.reason == "budget"
    assert 6000 <= state.budget.used["active_ms"] < 7000, "three answers of two seconds, and no fourth"
    assert state.budget.used["model_calls"] == 3


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_a_limit_of_steps_is_kept_to_the_step(limit):
    made = world(Outside())
    made.accept(task(limits=Limits(steps=limit)), "s")
    why = made.run("s")
    state = load(made.store.open("s"), made.store.blobs).state
    assert len(task().steps) == 3
    assert state.budget.used.get("steps", 0) == state.plan.completed == limit
    if limit == 3:
        assert why == "ended"
    else:
        assert (why, state.control.reason) == ("paused", "budget")
