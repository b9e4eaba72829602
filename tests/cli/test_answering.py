"""The verbs for people on the command line: effects, settle, reply, approve, deny, checkpoints, wake."""

from __future__ import annotations

import json

import pytest

from agentlab.cli import main
from agentlab.errors import BadDefinition, UserError
from agentlab.events import Draft
from agentlab.lab import Lab
from tests.session.museum import lab_of


@pytest.fixture
def lab(tmp_path):
    return lab_of(1, tmp_path)


@pytest.fixture
def say(lab, capsys):
    """Run a verb in this process; its output, after its exit code was checked."""

    def run(*words, code=0):
        assert main([*map(str, words), "--lab", str(lab)]) == code
        return capsys.readouterr().out

    return run


def test_effects_lists_them_and_tells_by_its_exit_code_when_one_is_in_doubt(lab, say):
    assert "completed" in say("effects", "ended")
    said = say("effects", "doubtful", code=1)
    assert "in_doubt" in said and "agentlab settle doubtful KEY done|retry|skip" in said
    (row,) = json.loads(say("effects", "doubtful", "--doubt", "--json", code=1))
    assert row["state"] == "in_doubt" and row["tries"] == 1 and row["key"].startswith("doubtful#")
    assert say("effects", "waits") == "waits: no effects\n"


def test_context_and_guard_are_read_on_the_command_line(say):
    assert "context of ended" in say("context", "ended") and "guard of ended" in say("guard", "ended")
    assert {layer["name"] for layer in json.loads(say("context", "ended", "--json"))["layers"]} >= {"fixed", "task"}
    assert json.loads(say("guard", "ended", "--json"))["findings"] == []


@pytest.mark.parametrize("answer", [None, "", " \n", 5])
def test_an_answer_without_a_word_is_none(lab, answer):
    session = Lab(lab).session("waits")
    with pytest.raises(BadDefinition, match="text"):
        session.reply(answer)
    assert session.state.control.status == "waiting", "the question is still open"


@pytest.mark.parametrize("decision", ["done", "retry", "skip"])
def test_settle_is_an_event_and_decides(lab, say, decision):
    key = Lab(lab).session("doubtful").effects()[0].key
    assert f"settled: {decision}" in say("settle", "doubtful", key, decision)
    session = Lab(lab).session("doubtful")
    assert session.events()[-1].payload["decision"] == decision
    assert session.effects()[0].state == decision and session.status().status == "paused"
    assert (
        session.state.calls[0].status
        == {"done": "settled_done", "retry": "requested", "skip": "settled_skip"}[decision]
    )
    session.verify()


def test_what_is_not_in_doubt_can_not_be_settled(lab, capsys):
    assert main(["settle", "doubtful", "nope", "done", "--lab", str(lab)]) == 2
    assert "no effect in doubt named 'nope'" in capsys.readouterr().err


def test_reply_approve_deny(lab, say, capsys):
    assert "answered" in say("reply", "waits", "yes", "please")
    assert Lab(lab).session("waits").events()[-1].payload["text"] == "yes please"
    for verb in ("reply", "approve", "deny"):
        words = [verb, "waits", "again"]
        assert main([*words, "--lab", str(lab)]) == 2
        assert "asks nothing now" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["reply", "approve", "deny"])
def test_an_effect_in_doubt_is_settled_and_not_talked_about(lab, capsys, verb):
    session = Lab(lab).session("doubtful")
    (effect,), events = session.effects(), len(session.events())
    assert main([verb, "doubtful", "no", "--lab", str(lab)]) == 2
    assert f"Answer with settle {effect.key} done, retry or skip" in capsys.readouterr().err
    word = {"id": "w", "question_seq": session.state.control.question_seq, "text": "no"}
    session.add_input(
        Draft({"reply": "user_reply", "approve": "approval_given", "deny": "approval_denied"}[verb], word)
    )
    session = Lab(lab).session("doubtful")
    assert len(session.events()) == events + 1 and session.status().status == "waiting", "whoever appends it"
    assert session.effects()[0].state == "in_doubt" and session.plan().name == "Rest"


def test_checkpoints_are_listed_and_one_is_shown_whole(lab, say):
    listed = json.loads(say("checkpoints", "ended", "--json"))
    assert len(listed) >= 3 and {c["reason"] for c in listed} == {"every 6 events"}
    assert f"{listed[0]['seq']:>6}  stands for" in say("checkpoints", "ended")
    whole = json.loads(say("checkpoints", "ended", listed[-1]["seq"]))
    assert whole["task_status"]["completed_steps"] and whole["original_input"] == "please keep these notes"


def test_wake_says_what_there_is_to_do_instead(lab, capsys):
    for session, says in (
        ("ended", "has ended (completed): there is nothing to wake"),
        ("waits", "waits for a person: File it?"),
    ):
        assert main(["wake", session, "--lab", str(lab)]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("label", [5, None, "newest", "12", "two\nlines", "x" * 1000])
def test_a_label_that_could_not_find_its_checkpoint_is_refused(lab, label):
    session = Lab(lab).session("paused")
    events = len(session.events())
    with pytest.raises(BadDefinition, match="label"):
        session.checkpoint(label)
    assert len(session.events()) == events
    with pytest.raises(UserError, match="has ended"):
        Lab(lab).session("ended").checkpoint("late")
