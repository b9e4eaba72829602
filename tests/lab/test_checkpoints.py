"""A checkpoint read by a person: the field names that are promised, and every item that it has to hold."""

from __future__ import annotations

import json

import pytest

from agentlab.errors import UnknownName
from agentlab.events import Draft, resolve
from agentlab.harness.loop import turn
from agentlab.harness.wake import checkpoint_state
from agentlab.lab.checkpoints import checkpoints_of, find, picture
from agentlab.lab.inputs import append_input
from agentlab.log.store import ParquetStore
from tests.session.museum import SESSIONS, outside_of, record, world


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    record(folder)
    return folder


def pictures(lab, session):
    store = ParquetStore(lab)
    events = list(store.open(session).replay(1))
    for checkpoint in checkpoints_of(events):
        state = checkpoint_state(events[checkpoint.seq - 1], store.blobs)
        yield state, picture(checkpoint, state, SESSIONS[session], events, lambda v: resolve(v, store.blobs.get))


def test_the_field_names_of_the_example(lab):
    for state, shown in pictures(lab, "ended"):
        assert json.loads(json.dumps(shown)) == shown, "plain JSON"
        assert {"checkpoint_id", "schema_version", "session_id", "created_at"} <= set(shown)
        assert {"current_step", "completed_steps", "pending_steps"} <= set(shown["task_status"])
        assert {"tokens_consumed", "tool_calls"} <= set(shown["resource_usage"])
        assert shown["session_id"] == "ended" and shown["cursor"] == state.seq
        assert shown["created_at"].endswith("Z") or "+00:00" in shown["created_at"]


def test_what_a_checkpoint_has_to_hold(lab):
    shown = next(p for s, p in pictures(lab, "ended") if p["task_status"]["current_step"] == "send" and s.turns)
    assert shown["original_input"] == "please keep these notes"
    assert shown["constraints"] == ["Send once."] and shown["goal"].startswith("Count")
    assert shown["parameters"] == {"month": "2023-05"}
    done = shown["task_status"]["completed_steps"]
    assert [step["step"] for step in done] == ["count", "write"]
    assert all(step["seq"] and step["summary"] for step in done)
    assert [step["step"] for step in shown["task_status"]["pending_steps"]] == ["send"]
    assert shown["resource_usage"]["left"]["tool_calls"] == 40 - shown["resource_usage"]["tool_calls"]
    assert {"fact": "case: A-17", "seq": None} in shown["confirmed_facts"]
    assert shown["reason"] == "every 6 events"
    assert len(shown["snapshot"]) == 64
    calls = shown["tool_calls"]
    assert [c["tool"] for c in calls][:2] == ["remember", "count"]
    assert all(c["result_seq"] and c["output"] and c["input"] and c["status"] == "ok" for c in calls[:5])


def test_the_first_one_holds_the_steps_to_come_with_parameters_and_expected_results(lab):
    _, shown = next(pictures(lab, "ended"))
    first = shown["task_status"]["pending_steps"][0]
    assert first["parameters"] == {"upto": 3} and first["expected_result"] == "a number"
    assert shown["next_action"]["action"]


def test_side_effects_have_their_state(lab):
    *_, (_, shown) = pictures(lab, "doubtful")
    events = list(ParquetStore(lab).open("doubtful").replay(1))
    (pending,) = [e for e in events if e.type == "effect_pending"]
    key = pending.payload["key"]
    assert shown["side_effects"] == {"send": [{"key": key, "state": "pending", "seq": pending.seq}]}
    made = world(lab, "doubtful", outside_of("doubtful"), 1_800_000_000_000_000)
    log = made.store.open("doubtful")
    settled = Draft("effect_settled", {"id": "s1", "key": key, "decision": "done"})
    asked = Draft("checkpoint_requested", {"id": "c1", "label": "afterwards"})
    append_input(log, (settled,), made.clock, made.ids)
    rig = made.wake("doubtful")
    while not any(e.type == "effect_completed" for e in log.replay(1)):
        turn(rig)
        rig.recorder.commit()
    append_input(log, (asked,), made.clock, made.ids)
    assert made.run("doubtful") == "ended"
    *_, (_, shown) = pictures(lab, "doubtful")
    (effect,) = shown["side_effects"]["send"]
    assert shown["label"] == "afterwards" and effect["key"] == key and effect["state"] == "completed"


def test_a_checkpoint_is_found_by_number_id_label_or_as_the_newest(lab):
    known = checkpoints_of(ParquetStore(lab).open("ended").replay(1))
    assert find(known, known[1].seq) is known[1] is find(known, known[1].checkpoint_id)
    assert find(known, "newest") is known[-1]
    with pytest.raises(UnknownName, match="checkpoint named 'nope'"):
        find(known, "nope")
