"""Each trigger at its edge, the groups, and the step kinds that override a policy."""

import json
from dataclasses import replace

import pytest

from agentlab.definition import PolicySpec, policy_from_json
from agentlab.errors import BadDefinition, UnknownName
from agentlab.policies import DEFAULT, TRIGGERS, due, facts_at_start, measured_mtbf, parse_policy, validate

START = facts_at_start()


def asked(policy, **facts):
    return due(parse_policy(policy), replace(START, **{"events": 1, **facts}))


@pytest.mark.parametrize(
    ("policy", "not_yet", "now"),
    [
        ("every=5", {"events": 4}, {"events": 5}),
        ("steps=2", {"steps": 1}, {"steps": 2}),
        ("seconds=30", {"seconds": 29.9}, {"seconds": 30.0}),
        ("milestones", {}, {"milestone": True}),
        ("milestones", {}, {"large_result": True}),
        ("before-effect", {}, {"effect_next": True}),
        ("after-effect", {}, {"effects": 1}),
        ("on-pause", {}, {"pausing": True}),
        ("unsnapshotted=3", {"unsnapshotted": 2}, {"unsnapshotted": 3}),
        ("unsnapshotted=bytes:100", {"unsnapshotted_bytes": 99, "unsnapshotted": 9}, {"unsnapshotted_bytes": 100}),
        ("budget=0.5", {"budget_used": 0.49}, {"budget_used": 0.5}),
        ("budget=0.5", {"budget_used": 0.9, "budget_before": 0.5}, {"budget_used": 0.9, "budget_before": 0.4}),
        ("budget", {}, {"budget_alert": True}),
        ("young=mtbf:60,cost:0.3", {"seconds": 5.99}, {"seconds": 6.01}),
        ("daly=mtbf:3600,cost:20", {"seconds": 366.2}, {"seconds": 366.3}),
        ("daly=3600", {"seconds": 366.2, "checkpoint_cost_s": 20.0}, {"seconds": 366.3, "checkpoint_cost_s": 20.0}),
        ("deadline=100,", None, None),
        ("deadline=at:100,margin:10", {"running_s": 89.9, "seconds": 50}, {"running_s": 90.0, "seconds": 50}),
        ("deadline=at:100,margin:10", {"running_s": 95.0, "seconds": 4.9}, {"running_s": 95.0, "seconds": 5.1}),
        ("deadline=every:100,margin:10", {"running_s": 289.0, "seconds": 80}, {"running_s": 291.0, "seconds": 80}),
        ("deadline=at:100,margin:10,since:wake", {"running_s": 99.0, "awake_s": 80.0, "seconds": 50},
         {"running_s": 10.0, "awake_s": 91.0, "seconds": 50}),
        ("every=5&steps=1", {"events": 9}, {"events": 5, "steps": 1}),
        ("every=5+steps=1", {"events": 4}, {"events": 4, "steps": 1}),
        ("(every=5+steps=1)&unsnapshotted=1", {"events": 9, "steps": 3}, {"events": 9, "unsnapshotted": 1}),
        ("default+seconds=9", {"seconds": 8}, {"events": 50}),
    ],
)  # fmt: skip
def test_a_trigger_is_due_at_its_edge_and_not_before(policy, not_yet, now):
    if now is None:
        with pytest.raises(BadDefinition):
            parse_policy(policy)
        return
    assert asked(policy, **not_yet) is None
    assert asked(policy, **now)


@pytest.mark.parametrize("kind", [k for k in TRIGGERS if k not in ("every_events", "every_steps", "milestones")])
def test_right_after_a_checkpoint_no_trigger_asks_for_another(kind):
    args = {"seconds": {"t": 1}, "deadline": {"at_s": 100.0}, "unsnapshotted": {"n": 1}}.get(kind, {})
    full = replace(START, seconds=1e9, effect_next=True, pausing=True, budget_alert=True, unsnapshotted=9,
                   running_s=1e9, budget_used=1.0, effects=3, awake_s=1e9)  # fmt: skip
    assert due(PolicySpec(kind, args), full) is None


def test_a_step_kind_overrides_the_policy():
    assert asked("every=99", step_kind="confirm", steps=1) == "confirm step"
    assert asked("every=99", step_kind="confirm") is None
    assert asked("never", step_kind="confirm", steps=1) is None
    assert asked("every=1", step_kind="move") is None
    assert asked("every=1", step_kind="move", pausing=True)
    assert asked("every=1", step_kind="move", effect_next=True)


def test_the_default_is_events_milestones_effects_and_pauses():
    for facts in ({"events": 50}, {"milestone": True}, {"effect_next": True}, {"pausing": True}):
        assert asked("default", **facts) == due(DEFAULT, replace(START, **{"events": 1, **facts}))
    assert asked("default", events=49) is None


def test_the_measured_rate_starts_from_a_prior_and_learns():
    assert measured_mtbf(START, {}) == 3600.0
    assert measured_mtbf(replace(START, running_s=36000.0), {}) == 39600.0
    assert measured_mtbf(replace(START, running_s=36000.0, crashes=9), {}) == 3960.0
    assert measured_mtbf(replace(START, running_s=60.0, crashes=1), {"prior_mtbf_s": 60.0}) == 60.0
    often = asked("daly=cost:1", seconds=100.0, running_s=1000.0, crashes=20)
    seldom = asked("daly=cost:1", seconds=100.0, running_s=100000.0)
    assert often and seldom is None


def test_a_checkpoint_that_cannot_pay_is_clamped_and_says_so():
    reason = asked("young=mtbf:10,cost:20", seconds=10.0)
    assert reason is not None and "costs more than it saves" in reason
    assert asked("young=mtbf:10,cost:20", seconds=9.9) is None


def test_an_interval_longer_than_the_work_means_no_checkpoint():
    assert asked("daly=mtbf:3600,cost:20,work:300", seconds=1e9) is None
    assert asked("daly=mtbf:3600,cost:20,work:400", seconds=400.0)


def test_a_deadline_is_served_once_per_period():
    policy = "deadline=every:100,margin:10"
    written, times = 0.0, []
    for now in range(1, 401):
        if asked(policy, running_s=float(now), seconds=now - written):
            written = float(now)
            times.append(now)
    assert times == [90, 190, 290, 390]


@pytest.mark.parametrize(
    "spec",
    [
        PolicySpec("every_events"),
        PolicySpec("every_events", {"n": 0}),
        PolicySpec("every_events", {"n": 2.5}),
        PolicySpec("every_events", {"n": True}),
        PolicySpec("seconds", {"t": float("nan")}),
        PolicySpec("seconds", {"t": float("inf")}),
        PolicySpec("young", {"mtbf_s": -1}),
        PolicySpec("daly", {"mtbf": 60}),
        PolicySpec("deadline"),
        PolicySpec("deadline", {"at_s": 5, "period_s": 5}),
        PolicySpec("deadline", {"at_s": 5, "margin_s": 5}),
        PolicySpec("deadline", {"at_s": 5, "since": "noon"}),
        PolicySpec("budget", {"thresholds": []}),
        PolicySpec("budget", {"thresholds": [1.5]}),
        PolicySpec("unsnapshotted"),
        PolicySpec("any"),
        PolicySpec("all", parts=(PolicySpec("nope"),)),
        PolicySpec("never", parts=(PolicySpec("never"),)),
        PolicySpec("milestones", {"n": 1}),
    ],
)
def test_a_spec_that_can_not_run_is_refused(spec):
    with pytest.raises((BadDefinition, UnknownName)):
        validate(spec)


def test_a_spec_survives_json():
    spec = parse_policy("(budget=0.5,0.9+daly=mtbf:60)&deadline=every:3600,margin:0,since:wake")
    data = json.loads(json.dumps({"kind": spec.kind, "args": spec.args, "parts": [_json(p) for p in spec.parts]}))
    assert policy_from_json(data) == spec


def _json(spec):
    return {"kind": spec.kind, "args": spec.args, "parts": [_json(p) for p in spec.parts]}
