"""A user's own state is lifted step by step when a session of an older version is woken, as an event of the log."""

from __future__ import annotations

import json

import pytest

import agentlab as al
from agentlab.errors import BadDefinition, CheckpointError, CheckpointTooNew
from agentlab.events import Draft
from agentlab.lab import upcasting
from agentlab.lab.upcasting import lift
from agentlab.models.scripted import ScriptedModel
from agentlab.session.ownstate import own_state
from tests.session.museum import lab_of, outside_of, policy, world


@pytest.fixture(autouse=True)
def _registry():
    before = {task: dict(steps) for task, steps in upcasting._known.items()}
    yield
    upcasting._known.clear()
    upcasting._known.update(before)


@pytest.fixture
def session(tmp_path):
    """A session that waits for a person; the model has pinned ``case`` and two steps are to come."""
    with al.Lab(lab_of(1, tmp_path)) as lab:
        yield lab.session("waits")


def renames(own):
    own["facts"]["case_id"] = own["facts"].pop("case")
    return own


def adds_parameters(own):
    for step in own["steps"]:
        step["parameters"]["case"] = own["facts"]["case_id"]
    own["facts"]["lifted"] = "yes"
    return own


def test_steps_are_applied_in_order_and_what_they_give_is_an_event(session):
    al.upcaster("museum", 2)(adds_parameters)
    al.upcaster("museum", 1)(renames)
    before = own_state(session.state)
    assert before["facts"] == {"case": "A-17"} and [s["id"] for s in before["steps"]] == ["ask", "send"]
    draft = lift(session)
    assert draft.payload["from_version"] == 1 and draft.payload["to_version"] == 3
    assert draft.payload["by"] == "renames, adds_parameters"
    session.add_input(draft)
    state = session.state
    assert state.control.own_version == 3 and dict(state.context.anchors) == {"case_id": "A-17", "lifted": "yes"}
    assert [dict(s.parameters) for s in state.plan.steps] == [{"upto": 3}, {"case": "A-17"}, {"case": "A-17"}]
    assert lift(session) is None, "once"
    session.add_input(Draft("own_state_lifted", {**draft.payload, "id": "again"}))
    assert session.state.context.anchors == state.context.anchors, "one that begins elsewhere changes nothing"
    session.verify()


def test_the_model_sees_the_lifted_facts_and_the_session_goes_on(session):
    al.upcaster("museum", 1)(renames)
    session.add_input(lift(session))
    session.reply("yes")
    made = world(session.lab.path, "waits", outside_of("waits"), 1_800_000_000_000_000)
    seen = []

    def watching(view):
        seen.append(json.dumps([dict(m) for m in view.request.messages]))
        return policy(view)

    made.model_of = lambda d: ScriptedModel(watching, d.model, clock=made.clock)
    assert made.run("waits") == "ended"
    assert any("case_id: A-17" in text for text in seen) and not any("- case: A-17" in text for text in seen)


def test_without_upcasters_nothing_happens_and_a_newer_version_is_refused(session):
    assert lift(session) is None
    al.upcaster("museum", 1)(renames)
    al.upcaster("museum", 2)(adds_parameters)
    session.add_input(lift(session))
    upcasting._known["museum"].pop(2)
    with pytest.raises(CheckpointTooNew, match="version 3; the upcasters here lead to 2"):
        lift(session)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (lambda own: None, "no object with facts and steps"),
        (lambda own: {**own, "facts": {"case": 17}}, "no texts by name"),
        (lambda own: {**own, "steps": own["steps"][1:]}, "ids and order stay"),
        (lambda own: {**own, "steps": [{**s, "tool": "x"} for s in own["steps"]]}, "other fields"),
        (lambda own: {**own, "steps": [{**s, "parameters": {"x": {1}}} for s in own["steps"]]}, "JSON can not carry"),
        (lambda own: own["facts"]["nope"], "failed with KeyError: 'nope'"),
    ],
)
def test_a_step_that_gives_something_else_is_named_and_nothing_is_written(session, step, says):
    al.upcaster("museum", 1)(step)
    head = session.log.head()
    with pytest.raises(CheckpointError, match=says):
        lift(session)
    assert session.log.head() == head


def test_a_gap_between_steps_is_named(session):
    al.upcaster("museum", 2)(adds_parameters)
    with pytest.raises(CheckpointError, match="own state of version 1, from which no upcaster leads on"):
        lift(session)
    for wrong in (0, "1", True):
        with pytest.raises(BadDefinition, match="number from 1 on"):
            al.upcaster("museum", wrong)


def test_a_task_says_which_version_it_begins_with(tmp_path):
    def say(view):
        return al.say("done")

    task = al.Task(name="own_version", goal="x", model=say, state_version=2)
    al.upcaster("own_version", 1)(renames)
    with al.Lab(tmp_path / "lab") as lab:
        session = lab.create(task)
        assert session.definition.state_version == 2 and lift(session) is None
        with pytest.raises(BadDefinition, match="state_version"):
            lab.create(al.Task(name="own_version", goal="x", model=say, state_version=0))
