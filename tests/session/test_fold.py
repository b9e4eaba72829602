"""The fold is pure, strict about who may append, and its states survive JSON."""

import copy
import json

import pytest

from agentlab.errors import CheckpointError, LogCorrupt
from agentlab.events import GENESIS, Draft, Head, seal
from agentlab.session.decide import Run, decide
from agentlab.session.fold import fold
from agentlab.session.state import State
from agentlab.session.statecodec import state_from_json, to_json
from tests.harness.worlds import Outside, task, world


@pytest.fixture(scope="module")
def events():
    made = world(Outside())
    made.accept(task(), "s")
    assert made.run("s") == "ended"
    return list(made.store.open("s").replay())


def states(events):
    state = State(hash=GENESIS)
    for event in events:
        state = fold(state, event)
        yield state


def test_every_state_survives_json(events):
    for state in states(events):
        assert state_from_json(json.loads(json.dumps(to_json(state)))) == state


def test_fold_and_decide_change_nothing_they_are_given(events):
    state = State(hash=GENESIS)
    run = Run.of(task())
    for event in events:
        before = copy.deepcopy(state)
        after = fold(state, event)
        assert state == before and fold(state, event) == after
        if event.seq > 2:
            assert decide(after, run) == decide(after, run)
        state = after


def test_a_missing_or_unknown_field_is_named(events):
    data = json.loads(json.dumps(to_json(list(states(events))[-1])))
    missing = copy.deepcopy(data)
    del missing["plan"]["current"]
    with pytest.raises(CheckpointError, match=r"state\.plan\.current is missing"):
        state_from_json(missing)
    unknown = {**data, "colour": 1}
    with pytest.raises(CheckpointError, match=r"state\.colour"):
        state_from_json(unknown)
    wrong = copy.deepcopy(data)
    wrong["turns"] = "many"
    with pytest.raises(CheckpointError, match=r"state\.turns should be int"):
        state_from_json(wrong)


def appended(state, draft, incarnation):
    (event,) = seal(
        [draft], Head(state.seq, state.hash), session_id="s", incarnation=incarnation, commit_id="k", now_us=1
    )
    return fold(state, event)


def test_facts_and_intents_of_another_incarnation_are_refused(events):
    state = list(states(events))[5]
    for draft in (
        Draft("decision", {"action": "a", "why": "w"}),
        Draft("session_paused", {"reason": "r"}),
    ):
        with pytest.raises(LogCorrupt, match="incarnation"):
            appended(state, draft, state.incarnation + 1)
    assert appended(state, Draft("note_added", {"id": "x", "text": "hello"}), 0).seq == state.seq + 1


def test_an_input_counts_once(events):
    state = next(states(events))
    ask = Draft("pause_requested", {"id": "p1", "reason": "first", "mode": "safe"})
    paused = appended(state, ask, 0)
    resumed = appended(paused, Draft("resume_requested", {"id": "r1"}), 0)
    again = appended(resumed, ask, 0)
    assert paused.control.pause_id == "p1" and again.control.pause_id == ""


def test_a_budget_extension_needs_the_version_it_expects(events):
    state = next(states(events))
    one = appended(
        state, Draft("budget_extended", {"id": "b1", "dimension": "steps", "limit": 9, "expected_version": 0}), 0
    )
    stale = appended(
        one, Draft("budget_extended", {"id": "b2", "dimension": "steps", "limit": 2, "expected_version": 0}), 0
    )
    assert one.budget.limits["steps"] == 9 == stale.budget.limits["steps"]


def test_the_state_does_not_grow_with_the_number_of_turns():
    from agentlab.bench import small
    from agentlab.harness.simulation import SimulatedWorld
    from agentlab.models.scripted import ScriptedModel

    made = SimulatedWorld(
        model_of=lambda d: ScriptedModel(small.endless, d.model, clock=made.clock), resolve=small.resolve
    )
    sizes = {}
    for turns in (100, 1000):
        made.accept(small.many_turns(turns), f"s{turns}")
        rig = made.wake(f"s{turns}")
        from agentlab.harness.loop import run

        run(rig)
        sizes[turns] = len(json.dumps(to_json(rig.state)))
    assert sizes[1000] < 2 * sizes[100]
