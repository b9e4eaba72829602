"""Replays: what they charge, both ways of computing them, the facts about non-exponential failures, and their speed."""

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab import interval
from agentlab.errors import BadDefinition, UserError
from agentlab.experiments import (
    Bursty,
    Costs,
    CrashLoop,
    Deadline,
    Exponential,
    Span,
    Times,
    Track,
    Weibull,
    WhatIf,
    sweep,
)
from agentlab.experiments.schedule import Clock, Schedule, reads_clock
from agentlab.policies import parse_policy

TEN = Track([(10.0,)] * 10)


def test_a_crash_costs_the_work_since_the_checkpoint_and_a_restart():
    # checkpoints after 20 s of work: done at 21, 42, 63, 84 s; the crash at 50 s loses 8 s
    found = WhatIf(TEN, "every=2", Costs(1, 5)).run(Times((50,)))
    assert found == type(found)(completion_s=117, work_s=100, lost_s=8, down_s=5, checkpoints=4, crashes=1)
    assert found.overhead == pytest.approx(0.17) and found.useful == pytest.approx(100 / 117)


def test_a_crash_while_a_checkpoint_is_written_loses_it_and_one_right_after_it_does_not():
    assert WhatIf(TEN, "every=2", Costs(1, 5)).run(Times((20.5,))).lost_s == 20.5
    assert WhatIf(TEN, "every=2", Costs(1, 5)).run(Times((21,))).lost_s == 0


def test_a_crash_during_a_restart_begins_the_restart_again():
    found = WhatIf(TEN, "every=2", Costs(1, 5)).run(Times((50, 53, 54)))
    assert (found.crashes, found.down_s, found.lost_s) == (3, 9, 8)


def test_work_that_comes_from_the_log_is_done_again_at_a_fraction_of_its_time():
    # 30 s done and 5 s of a span in progress: the 30 s take 3 s again, the 5 s are lost
    found = WhatIf(TEN, "never", Costs(1, 5, redo=0.1)).run(Times((35,)))
    assert found.lost_s == pytest.approx(8) and found.completion_s == pytest.approx(113)
    # a second crash after 1 s of doing it again: what was known stays known
    found = WhatIf(TEN, "never", Costs(1, 5, redo=0.1)).run(Times((35, 41)))
    assert found.lost_s == pytest.approx(9) and found.completion_s == pytest.approx(100 + 9 + 10)


def test_a_poison_event_defeats_every_interval_and_a_run_is_given_up():
    for policy in ("never", "every=1", "daly"):
        found = WhatIf(TEN, policy, Costs(1, 5, give_up_after=20)).run(CrashLoop(7))
        assert not found.completed and found.crashes >= 21 and found.completion_s == math.inf
    found = WhatIf(TEN, "every=1", Costs(1, 5)).run(CrashLoop(7, kills=3))
    assert found.completed and (found.crashes, found.lost_s, found.down_s) == (3, 30, 15)
    assert WhatIf(TEN, "every=1", Costs(1, 5)).run(CrashLoop(11)).crashes == 0


def test_a_policy_without_checkpoints_under_frequent_crashes_is_given_up():
    assert not WhatIf([(1000.0,)], "never", Costs(1, 1)).run(Exponential(10), 1).completed


@pytest.mark.parametrize(
    ("policy", "boundaries"),
    [
        ("steps=1", [3, 5]),
        ("milestones", [3, 6]),
        ("before-effect", [6]),
        ("after-effect", [7]),
        ("unsnapshotted=2", [4]),
        ("every=2&steps=1", [3, 5]),
        ("on-pause+budget=0.5+unsnapshotted=bytes:1", []),
        ("default", [3, 6]),
    ],
)
def test_each_trigger_falls_where_the_session_says(policy, boundaries):
    spans = [Span(1.0, step=1 + (i > 2) + (i > 4), milestone=i == 2, large=i == 5, external=i == 6, sandboxed=i in (1, 3))
             for i in range(8)]  # fmt: skip
    schedule, at, found = Schedule(Track(spans), parse_policy(policy), 0.1), 0, []
    while (at := schedule.following(at, Clock())) < 8:
        found.append(at)
    assert found == boundaries


def test_confirm_steps_are_checkpointed_and_move_steps_are_not():
    spans = (
        [Span(1.0, step=1, kind="move")] * 3
        + [Span(1.0, step=2, kind="confirm")] * 2
        + [Span(1.0, step=3, kind="work")] * 3
    )
    schedule = Schedule(Track(spans), parse_policy("every=2"), 0.1)
    assert schedule.following(0, Clock()) == 4  # the first step's end is due when the confirm step is in progress
    assert schedule.following(4, Clock()) == 5
    assert Schedule(Track(spans), parse_policy("every=99"), 0.1).following(4, Clock()) == 5


SPANS = st.lists(
    st.builds(
        Span, st.sampled_from([0.0, 0.5, 1.0, 3.25, 20.0]), st.sampled_from([True, True, True, False]),
        st.just(0), st.sampled_from(["", "work", "confirm", "move"]), *[st.sampled_from([False, False, True])] * 4,
    ),
    min_size=1, max_size=40,
).map(lambda spans: [Span(s.duration_s, s.checkpointable, 1 + i // 4, *[getattr(s, f) for f in
      ("kind", "milestone", "large", "external", "sandboxed")]) for i, s in enumerate(spans)])  # fmt: skip
PLAIN = SPANS.map(lambda spans: [replace(span, kind="work") for span in spans])  # no step that policies treat apart
FREE = ["never", "default", "every=3", "steps=2", "seconds=5", "milestones", "before-effect", "after-effect", "unsnapshotted=2",
        "young=mtbf:20,cost:0.5", "daly=mtbf:20", "every=4&steps=1", "before-effect&seconds=2"]  # fmt: skip
CLOCKED = ["daly", "young=prior:30", "daly=prior:1,cost:3", "daly=cost:0.5,work:9", "deadline=17", "deadline=every:15,margin:2",
           "deadline=at:12,since:wake", "deadline=every:9,since:wake", "deadline=30&steps=1",
           "daly=prior:30,cost:0.1&every=3", "young=prior:9&milestones&seconds=2"]  # fmt: skip
POLICIES = st.lists(st.sampled_from(FREE + CLOCKED), min_size=1, max_size=3).map("+".join)
CRASHES = st.one_of(
    st.builds(Exponential, st.sampled_from([8.0, 40.0, 200.0])),
    st.just(Deadline(13.0)),
    st.builds(CrashLoop, st.integers(1, 40), st.sampled_from([1, 3, None])),
)
COSTS = st.builds(Costs, st.sampled_from([0.0, 0.1, 2.0]), st.sampled_from([0.0, 1.0, 4.0]), st.sampled_from([1.0, 0.5, 0.0]),
                  st.booleans(), st.just(60))  # fmt: skip


@settings(max_examples=400, derandomize=True, deadline=None)
@given(st.one_of(SPANS, PLAIN), POLICIES, CRASHES, COSTS, st.integers(0, 99))
def test_a_replay_is_the_same_however_it_is_computed(spans, policy, crashes, costs, seed):
    quick = WhatIf(spans, policy, costs)
    plain = WhatIf(spans, policy, costs, table=False)
    plain.schedule.skip = False  # asks at each boundary
    found, again = quick.run(crashes, seed), plain.run(crashes, seed)
    assert found.crashes == again.crashes and found.checkpoints == again.checkpoints
    assert found.completion_s == pytest.approx(again.completion_s)
    if found.completed:
        assert found.lost_s == pytest.approx(again.lost_s, abs=1e-6)
        total = found.work_s + found.checkpoints * costs.checkpoint_s + found.lost_s + found.down_s
        assert found.completion_s == pytest.approx(total)
    assert found == quick.run(crashes, seed)


def test_policies_that_read_the_clock_are_told_apart():
    assert not any(reads_clock(parse_policy(p)) for p in FREE)
    assert all(reads_clock(parse_policy(p)) for p in CLOCKED if p)
    assert reads_clock(parse_policy("default+daly&steps=1"))


# --- failures that are not exponential: delta 20 s, M 3600 s, R 60 s, 8 h of work ------------------------------------

B = Costs(20, 60, final_checkpoint=True)
EIGHT_HOURS = Track([(4.0,)] * 7200)
YOUNG = interval.young(20, 3600)


def overhead(process, factor, runs=4000):
    return 100 * (WhatIf(EIGHT_HOURS, f"seconds={factor * YOUNG}", B).expected(process, range(runs)) / 28800 - 1)


@pytest.mark.parametrize(("shape", "at_young"), [(0.5, 12.96), (0.7, 13.03), (1.5, 13.14), (3, 12.99)])
def test_under_weibull_failures_young_stays_near_the_optimum(shape, at_young):
    process = Weibull(3600, shape)
    found = overhead(process, 1)
    assert found == pytest.approx(at_young, abs=0.3)
    assert found < overhead(process, 0.71) and found < overhead(process, 1.41)


def test_the_optimum_is_flat():
    at = {f: overhead(Exponential(3600), f) for f in (0.71, 1, 1.41)}
    assert at[0.71] == pytest.approx(13.70, abs=0.3) and at[1.41] == pytest.approx(13.94, abs=0.3)
    assert max(at.values()) - at[1] < 1


def test_in_bursts_the_optimum_is_about_twice_youngs():
    process = Bursty(3600, 0.7, 60)
    at = {f: overhead(process, f) for f in (1, 1.41, 2, 2.8)}
    assert at[1] == pytest.approx(9.54, abs=0.3) and at[2] == pytest.approx(8.51, abs=0.3)
    assert min(at, key=at.get) == 2


def test_a_known_deadline_is_worth_one_checkpoint_just_before_it():
    track = Track([(1.0,)] * 180_000)
    young = WhatIf(track, "young=mtbf:3600,cost:20", Costs(20, 60)).run(Deadline(3600)).useful
    known = WhatIf(track, "deadline=every:3600,margin:20", Costs(20, 60)).run(Deadline(3600)).useful
    assert young == pytest.approx(0.843, abs=0.005)
    assert known == pytest.approx(0.978, abs=0.002)


# --- use -----------------------------------------------------------------------------------------------------------


def test_a_sweep_pairs_policies_by_seed():
    found = list(sweep(TEN, {"all": "every=1", "none": "never"}, {"often": Exponential(40)}, range(5), Costs(1, 5)))
    assert len(found) == 10 and {o.policy for o in found} == {"all", "none"}
    assert found == list(
        sweep(TEN, {"all": "every=1", "none": "never"}, {"often": Exponential(40)}, range(5), Costs(1, 5))
    )


@pytest.mark.parametrize("policy", ["default", "every=1", "young=3600", "daly", "deadline=every:3600"])
def test_ten_thousand_replays_of_two_thousand_steps_take_less_than_a_minute(policy):
    whatif = WhatIf([(14.4, True, i // 4 + 1) for i in range(2000)], policy, Costs(20, 60))
    process = Exponential(3600)
    began = time.process_time()
    for seed in range(200):
        whatif.run(process, seed)
    assert (time.process_time() - began) * 50 < 60


@pytest.mark.parametrize(
    "make",
    [
        lambda: Track([]),
        lambda: Track([(-1.0,)]),
        lambda: Track([(math.nan,)]),
        lambda: Costs(-1),
        lambda: Costs(1, math.inf),
        lambda: Costs(1, redo=2),
        lambda: Costs(1, give_up_after=0),
    ],
)
def test_wrong_numbers_are_refused(make):
    with pytest.raises(BadDefinition):
        make()
    with pytest.raises(UserError):
        WhatIf(TEN, "every", Costs(1))


def test_a_deadline_may_fall_while_known_work_is_done_again():
    # 40 s of known work take 20 s again from 50 s on: the deadline at 60 s comes after 20 s of work
    schedule = Schedule(TEN, parse_policy("deadline=at:60,margin:0"), 1.0)
    assert schedule.following(0, Clock(50.0, 50.0, 1, 40.0, 0.5)) == 2
    assert schedule.following(0, Clock(50.0, 50.0, 1)) == 1
    assert schedule.following(0, Clock(60.5, 60.5, 1)) == 10  # it is over
