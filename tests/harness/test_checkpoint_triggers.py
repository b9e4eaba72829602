"""Every trigger makes a real harness write its checkpoint where it should, and the step kinds have the last word."""

from __future__ import annotations

import pytest

from agentlab.definition import Limits, StepSpec, ToolSpec, ValidatorSpec
from agentlab.events import Draft
from agentlab.lab.inputs import append_input
from agentlab.models.scripted import call, say
from agentlab.policies import DEFAULT_EVERY_EVENTS, TRIGGERS, parse_policy

from .worlds import OBJECT, Outside, add, local, task, tools, world

NOTE = ToolSpec("note", "Note a line.", OBJECT, effect="sandboxed", ref=local("write"))
ARGUMENTS = {
    "add": lambda number: {"a": number, "b": 1},
    "write": lambda number: {"text": "one line\n"},
    "note": lambda number: {"text": f"line {number}\n"},
    "send": lambda number: {"message": "x"},
}


def policy(view):
    step = str(view.status.get("step") or "")
    name = step.rstrip("0123456789")
    if name not in ARGUMENTS:
        return say("done")
    return [say(step), call(name, **ARGUMENTS[name](int(step.removeprefix(name))))]


def steps(*names, kind="work"):
    made = []
    for number, name in enumerate(names):
        if name == "write":
            validated = ValidatorSpec(local("written"))
            made.append(StepSpec(f"write{number}", kind=kind, validator=validated, milestone=True))
        else:
            made.append(StepSpec(f"{name}{number}", kind=kind, tool=name))
    return tuple(made)


def run(text, *names, kind="work", slow=0.0, inputs=(), ends=("ended",), **changes):
    """The events of a session under a policy in words; each pure call takes ``slow`` seconds of the world's clock."""
    made = None

    def slowly(a, b):
        made.clock.sleep(slow)
        return add(a, b)

    made = world(Outside(), policy, {"add": slowly})
    made.host._monotonic = made.clock.monotonic
    fields = {
        "steps": steps(*names, kind=kind),
        "policy": parse_policy(text),
        "validator": None,
        "tools": (NOTE, *tools()),
    }
    made.accept(task(**{**fields, **changes}), "s")
    for draft in inputs:
        append_input(made.store.open("s"), (draft,), made.clock, made.ids)
    assert made.run("s") in ends
    return list(made.store.open("s").replay(1))


def written(events):
    return [e for e in events if e.type == "checkpoint_written"]


def reasons(events):
    return [e.payload["reason"] for e in written(events)]


def before(events, checkpoint):
    """The kinds of what the checkpoint stands for, newest first."""
    return [e.type for e in reversed(events[: checkpoint.payload["cursor"]])]


ADDS = ("add",) * 8


def test_never_and_every_events_and_every_steps_and_every_seconds():
    assert reasons(run("never", *ADDS)) == []
    by_events = written(run("every=10", *ADDS))
    assert len(by_events) >= 4 and {e.payload["reason"] for e in by_events} == {"every 10 events"}
    gaps = [b.seq - a.seq for a, b in zip(by_events, by_events[1:], strict=False)]
    assert all(10 <= gap <= 10 + 8 for gap in gaps), gaps
    assert reasons(run("steps=2", *ADDS)) == ["every 2 steps"] * 4
    assert len(reasons(run("seconds=20", *ADDS, slow=10))) in (3, 4)


def test_milestones_are_verified_steps_and_large_results():
    events = run("milestones", "add", "write", "add")
    (checkpoint,) = written(events)
    assert checkpoint.payload["reason"] == "milestone" and "step_completed" in before(events, checkpoint)[:3]
    large = run("milestones", "add", "add", slow=6.0)
    assert reasons(large) == ["large result"] * 2


def test_around_external_effects():
    events = run("before-effect", "add", "send", "add")
    (checkpoint,) = written(events)
    following = [e.type for e in events[checkpoint.seq :]]
    assert checkpoint.payload["reason"] == "before effect" and following[0] == "effect_pending"
    events = run("after-effect", "add", "send", "add")
    (checkpoint,) = written(events)
    assert "effect_completed" in before(events, checkpoint)[:4]


def test_budget_thresholds():
    events = run("budget=0.5", *ADDS, limits=Limits(tool_calls=8))
    assert reasons(events)[0] == "50 % of the budget used", "before any alert of the budget itself"
    used = sum(e.type == "tool_result" for e in events[: written(events)[0].seq])
    assert used == 4


def test_size_of_what_no_snapshot_holds():
    by_count = written(run("unsnapshotted=2", *["note"] * 4))
    assert [e.payload["reason"] for e in by_count][:1] == ["2 commands not in a snapshot"]
    events = run("unsnapshotted=bytes:9", "write", "add")
    assert reasons(events)[:1] == ["9 bytes not in a snapshot"], "one line is nine bytes"
    assert reasons(run("unsnapshotted=bytes:1000", "write", "add")) == []


def test_young_and_daly_follow_the_measured_cost_and_rate():
    often = reasons(run("young=mtbf:50,cost:1", *ADDS, slow=5))
    seldom = reasons(run("young=mtbf:5000,cost:1", *ADDS, slow=5))
    assert len(often) >= 3 > len(seldom) and "young interval 10 s" in often[0]
    assert "daly interval" in reasons(run("daly=mtbf:50,cost:1", *ADDS, slow=5))[0]
    clamped = reasons(run("young=mtbf:10,cost:20", *ADDS, slow=5))
    assert clamped and "costs more than it saves" in clamped[0]


def test_a_deadline_is_known_before_it_comes():
    events = run("deadline=at:30,margin:8", *ADDS, slow=5)
    (checkpoint,) = written(events)
    at = (checkpoint.ts - events[0].ts) / 1e6
    assert 22 <= at < 30, f"written {at} s after the start, before the deadline"


def test_by_hand_with_a_label():
    asked = Draft("checkpoint_requested", {"id": "c1", "label": "here"})
    (checkpoint,) = written(run("never", "add", inputs=[asked]))
    assert checkpoint.payload["reason"] == "by hand" and checkpoint.payload["label"] == "here"


def test_combined():
    assert reasons(run("steps=3+before-effect", "add", "send", *ADDS[:4]))[0] == "before effect"
    assert reasons(run("every=30&steps=1", *ADDS))[0] == "every 30 events and every 1 steps"


def test_the_default_policy_any_of_every_n_milestones_before_an_effect_and_on_a_pause():
    events = run("default", "add", "write", "send", *ADDS[:6], limits=Limits(tool_calls=8), ends=("paused",))
    found = reasons(events)
    assert found[0] == "milestone" and found[1] == "before effect" and found[-1] in ("pause", "budget exhausted")
    many = run("default", *(("add",) * 20))
    assert f"every {DEFAULT_EVERY_EVENTS} events" in reasons(many)
    *_, last = [e for e in events if e.type in ("checkpoint_written", "session_paused")]
    assert last.type == "session_paused", "first the checkpoint, then the rest"


def test_a_confirm_step_has_one_each_time_and_a_move_step_none():
    assert reasons(run("every=1000", *ADDS, kind="confirm")) == ["confirm step"] * 8
    assert len(reasons(run("every=12", *ADDS))) >= 4 and reasons(run("every=12", *ADDS, kind="move")) == []
    assert reasons(run("default", "add", "send", kind="move")) == ["before effect"], "an effect is no moving of data"


@pytest.mark.parametrize("kind", sorted(TRIGGERS))
def test_each_trigger_is_among_those_tried_here(kind):
    words = {"every_events": "every=", "every_steps": "steps=", "seconds": "seconds=", "before_effect": "before-effect",
             "after_effect": "after-effect", "on_pause": "default"}  # fmt: skip
    source = open(__file__, encoding="utf-8").read()
    assert f'run("{words.get(kind, kind)}' in source


def test_a_pure_tool_needs_no_checkpoint_before_it():
    reading = ToolSpec("look", "Look.", OBJECT, effect="pure", ref=local("add"))
    events = run("before-effect", "add", tools=(reading, *tools()))
    assert written(events) == []
