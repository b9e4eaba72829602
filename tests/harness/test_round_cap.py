"""The hard cap of rounds in a step: one recovery from before the repetition, then a rest; and retries by kind."""

from dataclasses import replace

import pytest

from agentlab.definition import RETRIES_BY_KIND, Limits, PolicySpec, StepSpec, ToolSpec
from agentlab.events import Draft
from agentlab.lab.inputs import append_input
from agentlab.models.pairing import check_messages
from agentlab.models.scripted import call, say

from .worlds import OBJECT, Outside, local, policy, task, tools, world


def events_of(made):
    return list(made.store.open("s").replay())


def of_kind(made, kind):
    return [e for e in events_of(made) if e.type == kind]


class Circling:
    """Writes again and again in the step that wants one line, until it is told what the log confirms (if ``learns``)."""

    def __init__(self, learns):
        self.learns, self.requests = learns, []

    def __call__(self, view):
        self.requests.append(view.request)
        if view.status.get("step") != "write":
            return policy(view)
        told = "Confirmed by the log" in str(view.request.messages)
        number = len(self.requests)
        if self.learns and told:
            return [say("one line then"), call("write", text="one line\n")]
        return [say(f"attempt {number}"), call("write", text=f"line {number}\n")]


def circling_task(**changes):
    limits = Limits(rounds_per_step=5)
    return task(limits=limits, policy=PolicySpec("every_steps", {"n": 1}), **changes)


def test_the_defaults_are_data():
    assert (Limits().rounds_per_step, Limits().attempts) == (5, 3)
    assert (RETRIES_BY_KIND["query"], RETRIES_BY_KIND["code"], RETRIES_BY_KIND["downstream"]) == (3, 5, 1)
    assert Limits(retries={"query": 0}).retries_of("query") == 0 and Limits().retries_of("code") == 5


def test_at_the_cap_it_goes_back_before_the_repetition_with_a_clean_context_and_the_finding():
    outside, model = Outside(), Circling(learns=True)
    made = world(outside, model)
    made.accept(circling_task(), "s")
    assert made.run("s") == "ended"
    events = events_of(made)
    (verdict,) = of_kind(made, "guard_verdict")
    assert (verdict.payload["rule"], verdict.payload["action"]) == ("rounds", "recover")
    evidence = [e for e in events if e.seq in verdict.payload["evidence"]]
    assert len(evidence) == 5 and all(e.type == "tool_result" and e.tool_name == "write" for e in evidence)
    (back,) = of_kind(made, "restored_to")
    assert back.payload["checkpoint_seq"] == verdict.payload["checkpoint_seq"] < evidence[0].seq
    checkpoint = events[verdict.payload["checkpoint_seq"] - 1]
    assert checkpoint.type == "checkpoint_written"
    later = [e for e in of_kind(made, "checkpoint_written") if checkpoint.seq < e.seq < evidence[0].seq]
    assert not later, "the newest one before the repetition"
    # What the model is asked next: no message of the five rounds, the finding as a confirmed fact, told once.
    first = next(r for r in model.requests if "Confirmed by the log" in str(r.messages))
    assert "tool_use" not in str(first.messages) and "5 of 5 rounds" in str(first.messages)
    assert "line 3" in str(first.messages), "the finding names the calls that did not help"
    assert made.store.blobs is not None and outside.requests == 1
    ended = events[-1].payload
    assert ended["outcome"] == "completed" and not of_kind(made, "session_paused")


def test_hit_again_it_rests_with_a_checkpoint_and_a_person_lets_it_go_on():
    model = Circling(learns=False)
    made = world(Outside(), model)
    made.accept(circling_task(), "s")
    assert made.run("s") == "paused"
    verdicts = of_kind(made, "guard_verdict")
    assert [(v.payload["rule"], v.payload["action"]) for v in verdicts if v.payload["rule"] == "rounds"] == [
        ("rounds", "recover"),
        ("rounds", "pause"),
    ]
    assert len(of_kind(made, "restored_to")) == 1
    paused = events_of(made)[-1]
    assert (paused.type, paused.payload["reason"]) == ("session_paused", "rounds")
    model.learns = True
    append_input(made.store.open("s"), (Draft("resume_requested", {"id": "r1"}),), made.clock, made.ids)
    assert made.run("s") in ("ended", "paused")
    assert len(of_kind(made, "restored_to")) == 1, "it recovers once"


def test_without_a_checkpoint_the_context_is_purified_all_the_same():
    model = Circling(learns=True)
    made = world(Outside(), model)
    made.accept(replace(circling_task(), policy=PolicySpec("never")), "s")
    made.run("s")
    (verdict,) = of_kind(made, "guard_verdict")[:1]
    assert verdict.payload["action"] == "recover" and "checkpoint_seq" not in verdict.payload
    assert not of_kind(made, "restored_to")
    first = next(r for r in model.requests if "Confirmed by the log" in str(r.messages))
    assert "tool_use" not in str(first.messages)


def test_a_checkpoint_within_the_first_round_is_not_before_the_repetition():
    """Checkpoints before effects stand between an answer and its results; the messages pair all the same."""
    outside = Outside()

    def model(view):
        check_messages(view.request.messages, ask=True)
        if view.purpose != "act" or view.status.get("step") != "write":
            return policy(view)
        number = len(view.calls("write"))
        if "Confirmed by the log" in str(view.request.messages):
            return [say("one line"), call("write", text="one line\n")]
        return [say("both"), call("send", message=f"draft {number}"), call("write", text=f"{number}\n")]

    made = world(outside, model)
    made.accept(
        replace(
            circling_task(),
            policy=PolicySpec("any", parts=(PolicySpec("before_effect"), PolicySpec("every_steps", {"n": 1}))),
        ),
        "s",
    )
    made.run("s")
    (back,) = of_kind(made, "restored_to")
    events = events_of(made)
    verdict = next(e for e in of_kind(made, "guard_verdict") if e.payload["action"] == "recover")
    begun = next(e.seq for e in events if e.type == "model_response" and "draft 0" in str(e.payload["content"]))
    assert back.payload["checkpoint_seq"] < begun < verdict.payload["evidence"][0]
    assert back.payload["state"]["calls"] == []
    assert len(set(outside.delivered.values())) == len(outside.delivered), "no draft was sent twice"


def test_a_crash_at_any_commit_of_the_recovery_ends_the_same():
    """The verdict and the way back are one commit: a harness that forgets everything after it goes on from there."""
    from agentlab.harness.loop import turn
    from agentlab.session.commands import Rest

    model = Circling(learns=True)
    made = world(Outside(), model)
    made.accept(circling_task(), "s")
    rig = made.wake("s")
    while not isinstance(turn(rig), Rest):
        rig.recorder.commit()
        rig = made.forget(rig) if rig.sandbox is not None else rig
    (verdict,), (back,) = of_kind(made, "guard_verdict"), of_kind(made, "restored_to")
    assert verdict.commit_id == back.commit_id
    assert events_of(made)[-1].payload["outcome"] == "completed"


def test_work_without_a_plan_is_not_capped_by_rounds():
    def long(view):
        return [say("on"), call("add", a=len(view.calls()), b=1)] if len(view.calls()) < 12 else say("done")

    made = world(Outside(), long)
    made.accept(task(steps=(), validator=None, limits=Limits()), "s")
    assert made.run("s") == "ended"
    assert len(of_kind(made, "decision")) == 13


@pytest.mark.parametrize(("kind", "retries"), [("query", 3), ("code", 5), ("downstream", 1)])
def test_a_tool_that_fails_is_tried_as_often_as_its_kind_says_and_then_a_person_is_asked(kind, retries):
    tried = []

    def broken(n: int) -> int:
        tried.append(n)
        raise ValueError(f"no luck with {n}")

    def keen(view):
        return [say("again"), call("broken", n=len(view.calls()))]

    made = world(Outside(), keen, {"broken": broken})
    spec = ToolSpec("broken", "It breaks.", OBJECT, ref=local("broken"), kind=kind)
    limits = Limits(rounds_per_step=None)
    steps = (StepSpec("go", tool="broken"),)
    made.accept(task(steps=steps, tools=(spec, *tools()), validator=None, limits=limits, guard={"enabled": False}), "s")
    assert made.run("s") == "paused"
    assert len(tried) == 1 + retries
    paused = events_of(made)[-1].payload
    assert paused["reason"] == "retries" and f"({kind}) is tried {retries} times again" in paused["detail"]
    assert len(of_kind(made, "decision")) == 2 + retries, "every iteration leaves a decision"
    append_input(made.store.open("s"), (Draft("resume_requested", {"id": "r1"}),), made.clock, made.ids)
    assert made.run("s") == "paused" and len(tried) == 2 * (1 + retries), "a person lets it try again"


def test_the_step_decides_where_the_tool_says_nothing_and_limits_decide_over_both():
    def keen(view):
        return [say("again"), call("add", a="x", b=len(view.calls()))]

    for limits, expected in (
        (Limits(rounds_per_step=None), 4),
        (Limits(rounds_per_step=None, retries={"query": 0}), 1),
    ):
        made = world(Outside(), keen)
        made.accept(task(steps=(StepSpec("go", tool="add", kind="query"),), validator=None, limits=limits), "s")
        made.run("s")
        assert len(of_kind(made, "tool_error")) == expected
