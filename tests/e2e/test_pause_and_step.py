"""Pausing, stepping, checkpoints by hand, other models, and what people answer: with real harnesses."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from agentlab import process
from agentlab.effects.receiver import ReceiverProcess
from agentlab.errors import BadDefinition, UnknownName, UserError
from agentlab.faults import Fault
from agentlab.lab import Lab

from . import tasks


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


@pytest.fixture
def keyless(tmp_path):
    """An outside that knows no keys: nobody can ask it whether something happened."""
    with ReceiverProcess(tmp_path / "keyless", ignore_keys=True) as process:
        yield process


def of_type(session, *types):
    return [e for e in session.events() if e.type in types]


def test_a_pause_lets_the_tool_finish_and_a_wake_goes_on_after_it(lab, gate, until):
    session = lab.create(tasks.task("gate", "write", tools=tasks.MORE_TOOLS), params={"gate": str(gate)})
    session.start()
    until((gate.parent / "gate.reached").exists, what="the tool has begun")
    session.pause("a meeting")
    gate.touch()
    status = session.wait(120)
    assert (status.status, status.reason, status.resumable) == ("paused", "requested", True)
    results = of_type(session, "tool_result")
    assert [e.tool_name for e in results] == ["gated"], "the tool in progress finished, the next did not begin"
    paused = of_type(session, "session_paused")[0]
    assert paused.payload["detail"] == "a meeting"

    assert session.wake(timeout_s=120).status().status == "completed"
    assert session.status().crashes == 0, "a pause is no crash"
    assert not of_type(session, "recovery_started")
    asked = Counter(e.tool_name for e in of_type(session, "tool_result"))
    assert asked == {"gated": 1, "write_line": 1}


def test_a_pause_now_cuts_the_command_in_progress_and_loses_nothing(lab, gate, until):
    session = lab.create(tasks.task("write", "gate", tools=tasks.MORE_TOOLS), params={"gate": str(gate)})
    session.start()
    until((gate.parent / "gate.reached").exists, what="the tool has begun")
    session.pause("now", now=True)
    assert session.wait(120).status == "paused"
    assert [e.tool_name for e in of_type(session, "tool_result", "tool_error")] == ["write_line"], (
        "it did not wait for the tool"
    )
    gate.touch()
    assert session.wake(timeout_s=120).status().status == "completed"
    session.verify()
    answers = Counter(e.call_id for e in of_type(session, "tool_result", "tool_error"))
    assert set(answers.values()) == {1} and len(answers) == 2
    assert session.read_file("report.txt") == b"hello\n"


def what_happened(session):
    """The events of the work itself: without openings, inputs, rests and what a rest costs."""
    passing = {
        "harness_woken", "resume_requested", "session_paused", "checkpoint_written", "snapshot_taken",
        "sandbox_attached", "pause_requested",
    }  # fmt: skip
    told = []
    for event in session.events():
        if event.type not in passing:
            told.append((event.type, event.step, event.tool_name, event.payload.get("summary"), event.input_hash))
    return told


def test_step_by_step_gives_the_same_events_as_a_run(lab, receiver, tmp_path):
    params = {"receiver_url": receiver.url}
    with ReceiverProcess(tmp_path / "another") as another:
        run = lab.run(tasks.task("measure", "write", "send"), params={"receiver_url": another.url}, timeout_s=120)
    stepped = lab.create(tasks.task("measure", "write", "send"), params=params)
    pids, commands = set(), 0
    while stepped.status().status != "completed":
        planned = stepped.plan()
        assert planned.describe().startswith(planned.name)
        events = stepped.step()
        commands += 1
        assert events, "a step leaves something in the log"
        assert commands < 100
        pids.add(stepped.state.process["pid"])
    assert run.status().status == "completed"
    assert what_happened(stepped) == what_happened(run)
    assert len(pids) == 1, "one harness stays for all steps"
    assert len(receiver.ledger()) == 1
    with pytest.raises(UserError, match="has ended"):
        stepped.step()


def test_after_some_steps_a_wake_runs_the_rest(lab):
    session = lab.create(tasks.task("measure", "write"))
    for _ in range(4):
        session.step()
    assert session.status().status == "paused" and session.state.control.reason == "step"
    assert session.wake(timeout_s=120).status().status == "completed"
    assert session.status().crashes == 0


def test_a_checkpoint_by_hand_has_its_label(lab, gate, until):
    session = lab.create(tasks.task("gate", "write", tools=tasks.MORE_TOOLS), params={"gate": str(gate)})
    session.start()
    until((gate.parent / "gate.reached").exists, what="the tool has begun")
    session.checkpoint()
    for label in ("before the report", "again", "before the report"):  # before the next command: none is lost
        session.checkpoint(label)
    gate.touch()
    assert session.wait(120).status == "completed"
    labelled = [e for e in of_type(session, "checkpoint_written") if e.payload.get("label")]
    assert [e.payload["label"] for e in labelled] == ["before the report", "again"]
    assert {e.payload["reason"] for e in labelled} == {"by hand"}


def test_start_after_a_single_step_goes_on_with_the_harness_that_waits(lab):
    session = lab.create(tasks.task("write", tools=tasks.MORE_TOOLS))
    session.step(60)
    session.start()
    assert session.wait(120).status == "completed"
    assert len(of_type(session, "harness_woken")) == 1 and session.status().crashes == 0


def test_an_input_that_lands_while_a_checkpoint_is_written_does_not_spoil_it(lab, until):
    """The harness is stopped right before the commit of its checkpoint; the input takes the number it was made for."""
    session = lab.create(tasks.task("write", "measure"))
    session.start(arm=[Fault("stop", "harness", action="stop", point="checkpoint_written")])
    until(lambda: session.state.process and process.stopped(session.state.process["pid"]), what="it is stopped")
    session.pause("in between")
    process.send_signal(dict(session.state.process), signal.SIGCONT)
    assert session.wait(120).status == "paused"
    newest = of_type(session, "checkpoint_written")[-1]
    kept = next(session.replay(newest.payload["cursor"], newest.payload["cursor"]))
    assert kept.hash == newest.payload["cursor_hash"], "it stands for an event that is in the log"
    with Lab(lab.path) as another:
        loaded = another.session(session.id)
        assert loaded.status() == session.status()
    assert session.wake(timeout_s=120).status().status == "completed"
    assert not of_type(session, "checkpoint_skipped")


def test_a_wake_under_another_model_is_told_as_a_change_of_the_baseline(lab, gate, until):
    session = lab.create(tasks.task("gate", "measure", tools=tasks.MORE_TOOLS), params={"gate": str(gate)})
    session.start()
    until((gate.parent / "gate.reached").exists, what="the tool has begun")
    session.pause("another model")
    gate.touch()
    session.wait(120)
    other = "scripted:tests.e2e.tasks:skips_after_errors"
    session.wake(model=other, timeout_s=120)
    changed = of_type(session, "baseline_changed")
    assert len(changed) == 1 and "model" in changed[0].payload["fields"]
    assert changed[0].payload["before"]["model"] != other == changed[0].payload["after"]["model"]
    after = [e for e in of_type(session, "model_request") if e.seq > changed[0].seq]
    assert after and {e.model for e in after} == {other}
    assert session.definition.model == other


def test_a_question_is_answered_once_and_the_model_reads_the_answer(lab):
    session = lab.run(tasks.task("ask"), timeout_s=120)
    assert session.status().status == "waiting"
    with pytest.raises(UserError, match="Which region"):
        session.wake(timeout_s=10)
    session.reply("North")
    with pytest.raises(UserError, match="asks nothing now"):
        session.reply("South")
    assert session.wake(timeout_s=120).status().status == "completed"
    answer = of_type(session, "tool_result")[0]
    assert answer.tool_name == "ask_user" and answer.payload["output"] == "North"


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_a_tool_that_needs_approval(lab, receiver, answer):
    task = tasks.task("approve", tools=tasks.MORE_TOOLS, limits={"errors_in_a_row": 1})
    session = lab.run(task, params={"receiver_url": receiver.url}, timeout_s=120)
    assert session.status().status == "waiting" and not receiver.ledger()
    getattr(session, answer)("because")
    status = session.wake(timeout_s=120).status()
    if answer == "approve":
        assert status.status == "completed" and len(receiver.ledger()) == 1
    else:
        assert not receiver.ledger(), "what was denied never happens"
        told = of_type(session, "tool_error")
        assert len(told) == 1 and "denied" in told[0].payload["message"] + told[0].payload["kind"]


@pytest.mark.parametrize("decision", ["done", "retry", "skip"])
def test_an_effect_in_doubt_is_settled_by_a_person(lab, keyless, decision):
    keyless.misbehave("lose_reply")
    task = tasks.task(tools=tasks.MORE_TOOLS, model=tasks.answers_doubt)
    session = lab.run(task, params={"receiver_url": keyless.url}, timeout_s=120)
    status = session.status()
    assert status.status == "waiting" and "Did unverifiable_send happen?" in status.reason
    assert len(keyless.ledger()) == 1, "it is not repeated while nobody knows"
    key = session.state.control.question["key"]
    assert key in session.locate().next
    with pytest.raises(UnknownName):
        session.settle("another key", "done")
    with pytest.raises(BadDefinition, match="done, retry or skip"):
        session.settle(key, "maybe")
    with pytest.raises(UserError, match="waits for a person"):
        session.wake(timeout_s=10)

    session.settle(key, decision)
    assert session.wake(timeout_s=120).status().status == "completed"
    session.verify()
    assert len(keyless.ledger()) == (2 if decision == "retry" else 1)
    answers = of_type(session, "tool_result", "tool_error")
    assert len(answers) == 1
    assert answers[0].type == ("tool_error" if decision == "skip" else "tool_result")
    assert len(of_type(session, "effect_completed")) == (0 if decision == "skip" else 1)
    assert session.result["result"]["answer"].startswith("error" if decision == "skip" else "result")
