"""The guard in the loop: first a nudge that the model sees, then a pause; and a person's word forgives."""

from dataclasses import replace

from agentlab.events import Draft
from agentlab.lab.inputs import append_input
from agentlab.models.scripted import call, say

from .worlds import Outside, task, world


def stubborn(view):
    return [say("once more"), call("add", a=1, b=2)] if view.status.get("step") else say("done")


def endless_task(**guard):
    steps = (replace(task().steps[0], tool="write"),)
    return task(steps=steps, validator=None, guard=guard)


def kinds(made):
    return [e.type for e in made.store.open("s").replay()]


def test_a_repetition_is_named_to_the_model_and_then_pauses_the_run():
    seen = []

    def watching(view):
        seen.append(view.request.messages[-1]["content"])
        return stubborn(view)

    made = world(Outside(), watching)
    made.accept(endless_task(), "s")
    assert made.run("s") == "paused"
    events = list(made.store.open("s").replay())
    verdicts = [e for e in events if e.type == "guard_verdict"]
    assert [v.payload["action"] for v in verdicts] == ["nudge", "pause"]
    results = {e.seq for e in events if e.type == "tool_result"}
    assert set(verdicts[0].payload["evidence"]) <= results, "the evidence is event numbers"
    told = [text for message in seen for text in message if "Repetition found" in str(text)]
    assert len(told) == 1
    paused = events[-1]
    assert paused.type == "session_paused" and paused.payload["reason"] == "loop"
    assert "checkpoint_written" in kinds(made)


def test_stop_ends_the_session_when_it_is_configured():
    made = world(Outside(), stubborn)
    made.accept(endless_task(final="stop"), "s")
    assert made.run("s") == "ended"
    assert list(made.store.open("s").replay())[-1].payload["outcome"] == "failed"


def test_a_resume_forgives_and_the_verdict_survives_a_crash():
    made = world(Outside(), stubborn)
    made.accept(endless_task(), "s")
    assert made.run("s") == "paused"
    append_input(made.store.open("s"), (Draft("resume_requested", {"id": "r1"}),), made.clock, made.ids)
    assert made.run("s") == "paused"
    verdicts = [e.payload["action"] for e in made.store.open("s").replay() if e.type == "guard_verdict"]
    assert verdicts == ["nudge", "pause", "nudge", "pause"]


def test_the_guard_can_be_switched_off():
    made = world(Outside(), stubborn)
    made.accept(endless_task(enabled=False), "s")
    assert made.run("s") == "paused"
    assert "guard_verdict" not in kinds(made)
    assert list(made.store.open("s").replay())[-1].payload["reason"] == "rounds"
