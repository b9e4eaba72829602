"""Locate tells conditions apart, each produced by a real fault, each with evidence from outside the session."""

from __future__ import annotations

import os
import signal

import pytest

from agentlab import process
from agentlab.clock import ShiftedClock
from agentlab.errors import SessionBusy
from agentlab.events import GENESIS, Draft, Head, seal
from agentlab.faults import Fault
from agentlab.lab import Lab
from agentlab.lab.locate import CONDITIONS
from agentlab.models.scripted import ScriptedModel
from agentlab.sandbox.killing import continue_sandbox, kill_sandbox, stop_sandbox
from agentlab.testing.messages_faults import hang
from agentlab.testing.messages_server import MessagesServer

from . import tasks
from .owner import Owner


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


@pytest.fixture
def server(monkeypatch):
    with MessagesServer(ScriptedModel(tasks.by_step), key="locate-key-0123456789") as running:
        monkeypatch.setenv("ANTHROPIC_API_KEY", running.key)
        yield running


def at_the_gate(lab, gate, until, tool=tasks.GATED, **start):
    """A session whose one tool call has begun and waits for the gate."""
    session = lab.create(tasks.task("gate", tools=(tool,)), params={"gate": str(gate)})
    session.start(**start)
    until((gate.parent / "gate.reached").exists, what="the tool has begun")
    return session


def said(session):
    """The finding, checked for what every finding owes: a known word, evidence, and what to do next.

    The session may go on meanwhile: what it says is true of one moment between the look before and the look after.
    """
    before = session.state.seq
    found = session.locate()
    assert found.condition in CONDITIONS
    assert found.evidence and all(found.evidence) and found.next
    assert before <= found.last_event <= session.state.seq
    assert f"the newest event is {found.last_event} (" in found.evidence[-1]
    assert found.to_json()["condition"] == found.condition and found.condition.replace("_", " ") in str(found)
    return found


def finding(session, until, condition):
    """The finding once it is ``condition``, which then stays: nobody lets the session go on meanwhile."""
    until(lambda: session.locate().condition == condition, what=f"{condition}, not {session.locate()}")
    found = said(session)
    assert found.condition == condition
    return found


def test_a_session_that_nobody_started(lab):
    found = said(lab.create(tasks.task("measure")))
    assert found.condition == "not_started" and "no harness has opened" in found.evidence[0]


def test_a_session_that_ended(lab):
    found = said(lab.run(tasks.task("measure"), timeout_s=120))
    assert found.condition == "ended" and "completed" in found.evidence[0]
    assert "measure" in found.before or "end of turn" in found.before


def test_a_finding_is_of_one_moment_although_the_log_goes_on(lab, monkeypatch):
    session = lab.create(tasks.task("measure"))
    other, replay = Lab(lab.path).session(session.id), session.log.replay

    def overtaken(*wanted):
        yield from replay(*wanted)
        other.checkpoint("meanwhile")

    monkeypatch.setattr(session.log, "replay", overtaken)
    before = other.state.seq
    found = session.locate()
    assert other.state.seq > before
    assert f"the newest event is {found.last_event} (" in found.evidence[-1]


@pytest.mark.parametrize("asked", ["status", "locate"])
def test_a_harness_that_ends_between_the_look_at_its_log_and_the_look_at_it_did_not_crash(
    lab, until, monkeypatch, asked
):
    session = lab.create(tasks.task("measure"))
    session.start(arm=[Fault("stop", "harness", action="stop", point="session_ended")])
    until(lambda: session.state.process and process.stopped(session.state.process["pid"]), what="it is stopped")
    harness, alive = dict(session.state.process), process.liveness

    def later(record):
        if alive(harness) == "alive":
            os.kill(harness["pid"], signal.SIGCONT)
            until(lambda: alive(harness) == "dead", what="it has ended")
        return alive(record)

    monkeypatch.setattr(process, "liveness", later)
    if asked == "status":
        assert session.status().status == "completed"
    else:
        assert said(session).condition == "ended"


def test_a_tool_that_runs_a_harness_that_is_stopped_and_one_that_is_dead(lab, gate, until):
    session = at_the_gate(lab, gate, until, restart=False)
    running = said(session)
    assert running.condition == "tool_running" and running.step == "gate"
    assert "gated" in running.evidence[0] and "has no result" in running.evidence[0]

    record = dict(session.state.process)
    pid = record["pid"]
    os.kill(pid, signal.SIGSTOP)
    stopped = finding(session, until, "no_progress")
    assert f"process {pid} is stopped" in " ".join(stopped.evidence)

    os.kill(pid, signal.SIGKILL)
    dead = finding(session, until, "harness_dead")
    assert f"process {pid}" in dead.evidence[0] and dead.next == "wake it"
    assert session.status().status == "crashed" and session.status().resumable
    gate.touch()
    assert session.wake(timeout_s=120).status().status == "completed"


def test_a_sandbox_that_is_dead_while_its_harness_can_not_see_it(lab, gate, until):
    session = at_the_gate(lab, gate, until)
    record = dict(session.state.sandbox.record)
    os.kill(session.state.process["pid"], signal.SIGSTOP)
    kill_sandbox(record)
    found = finding(session, until, "sandbox_dead")
    evidence = " ".join(found.evidence)
    assert f"sandbox process {record['pid']} is gone" in evidence and "stopped" in evidence
    assert "continue" in found.next, "a stopped harness restores nothing"
    gate.touch()
    os.kill(session.state.process["pid"], signal.SIGCONT)
    assert session.wait(120).status == "completed"
    assert any(e.type == "sandbox_lost" for e in session.events())


def test_a_model_that_does_not_answer_and_a_sandbox_that_dies_meanwhile(lab, server, until):
    server.add(hang())
    task = tasks.task("write", model="claude-test", base_url=server.url)
    session = lab.run(task, background=True)
    until(lambda: server.requests, what="the request is at the server")
    found = finding(session, until, "waiting_for_model")
    assert f"model_request {session.state.model.request_seq} has no answer" in found.evidence[0]
    assert "is alive" in found.evidence[1]

    kill_sandbox(dict(session.state.sandbox.record))
    found = finding(session, until, "sandbox_dead")
    assert "is alive" in " ".join(found.evidence) and "restores" in found.next

    session.kill("harness", restart=True)
    assert session.wait(120).status == "completed"


def test_a_tool_that_exceeds_its_limit(lab, gate, until):
    """Its sandbox is stopped: nobody is left who could end the tool. Looked at by a clock that says that it is late."""
    session = at_the_gate(lab, gate, until)
    record = dict(session.state.sandbox.record)
    stop_sandbox(record)
    later = ShiftedClock(lab.clock)
    later.shift(3600.0)
    found = said(Lab(lab.path, clock=later).session(session.id))
    assert found.condition == "tool_hung"
    assert "gated" in found.evidence[0] and "s exceed its limit of 60 s" in found.evidence[1]
    session.pause(now=True)
    assert session.wait(120).status == "paused"
    continue_sandbox(record)


def test_a_tool_without_a_sandbox_that_runs(lab, gate, until):
    session = at_the_gate(lab, gate, until, tasks.PURE_GATED)
    found = said(session)
    assert found.condition == "tool_running" and "gated" in found.evidence[0]
    gate.touch()
    assert session.wait(120).status == "completed"


def test_a_tool_that_hangs_is_ended_at_its_limit_and_the_model_reads_it(lab, until):
    session = lab.run(tasks.task("hang"), background=True)
    until(lambda: any(e.error is not None for e in session.replay()), what="the limit of the tool")
    found = said(session)
    assert "hang" in found.error and "event" in found.error
    session.pause(now=True)
    assert session.wait(120).status == "paused"


def test_a_question_to_a_person(lab):
    session = lab.run(tasks.task("ask"), timeout_s=120)
    found = said(session)
    assert found.condition == "waiting_for_person" and "Which region?" in found.evidence[0]
    assert str(session.state.control.question_seq) in found.evidence[0] and found.next == "reply"
    session.reply("North")
    session.wake(timeout_s=120)
    assert said(session).condition == "ended"


def test_a_budget_that_is_too_small_for_one_call_says_what_the_call_needs(lab):
    session = lab.run(tasks.task("measure"), limits={"output_tokens": 300}, timeout_s=120)
    evidence = " ".join(said(session).evidence)
    assert "300 output_tokens left, and the next model call is expected to need 4,096" in evidence
    unpriced = lab.run(tasks.task("measure"), limits={"cost": 1}, timeout_s=120)
    assert "extend" not in said(unpriced).next and "price" in said(unpriced).next


def test_a_budget_that_is_used_up(lab):
    session = lab.run(tasks.task("measure", "write"), limits={"tool_calls": 1}, timeout_s=120)
    found = said(session)
    assert found.condition == "waiting_for_budget" and "extend" in found.next
    assert "tool_calls" in " ".join(found.evidence), "which limit it is"
    session.extend("tool_calls", 3)
    session.wake(timeout_s=120)
    assert said(session).condition == "ended"


def test_a_pause(lab, gate, until):
    session = at_the_gate(lab, gate, until)
    session.pause("lunch")
    gate.touch()
    assert session.wait(120).status == "paused"
    found = said(session)
    assert found.condition == "paused" and "lunch" in " ".join(found.evidence)
    assert session.wake(timeout_s=120).status().status == "completed"


def test_a_place_in_a_queue(lab, gate, until, tmp_path):
    """One session runs under another owner, a second waits for its place; the first dies with its owner."""
    lab.queue.limit(1)
    first = lab.create(tasks.task("gate", tools=(tasks.GATED,)), params={"gate": str(gate)})
    with Owner(lab.path) as owner:
        owner.start(first.id)
        until((tmp_path / "gate.reached").exists, what="the first one runs")
        second = lab.run(tasks.task("measure"), background=True)
        found = finding(second, until, "waiting_in_queue")
        evidence = " ".join(found.evidence)
        assert "place 1 of 1" in evidence and "session_queued" in evidence
        assert f"1 of 1 places taken: {first.id} (process {first.state.process['pid']}, alive)" in evidence
        assert second.status().status == "queued" and second.plan().name == "AwaitPlace"
        assert not any(e.type == "model_request" for e in second.events()), "nothing is spent while it waits"
        owner.kill(lab)
    assert second.wait(120).status == "completed"
    kinds = [e.type for e in second.events()]
    assert kinds.index("session_queued") < kinds.index("session_admitted") < kinds.index("attempt_started")
    assert said(first).condition == "harness_dead"
    gate.touch()
    assert first.wake(timeout_s=120).status().status == "completed", "and the place is free again for the first"
    assert lab.queue.places() == []


def test_a_harness_of_another_host_is_unknown_and_never_called_dead(lab):
    session = opened_elsewhere(lab, {**process.identify(), "host": "elsewhere"})
    found = said(session)
    assert found.condition == "unknown" and "elsewhere" in found.evidence[0]
    assert session.status().status == "unknown" and not session.status().resumable
    before = session.state.seq
    with pytest.raises(SessionBusy, match="elsewhere"):
        session.wake(timeout_s=120)
    assert session.state.seq == before, "nothing was written"


def test_a_harness_of_an_earlier_boot_is_dead(lab):
    session = opened_elsewhere(lab, {**process.identify(), "boot_id": "an earlier one"})
    assert said(session).condition == "harness_dead"
    assert session.wake(timeout_s=120).status().status == "completed"


def opened_elsewhere(lab, record, *more):
    """A session whose log says that a harness with this process record opened it."""
    session = lab.create(tasks.task("measure"))
    state = session.state
    woken = {"process": dict(record), "baseline": dict(state.baseline), "reason": "start", "cursor": 0}
    events = seal(
        (Draft("harness_woken", woken), *more),
        Head(state.seq, state.hash or GENESIS),
        session_id=session.id,
        incarnation=1,
        commit_id="forged",
        now_us=lab.clock.now_us(),
    )
    session.log.append(events, state.seq + 1)
    return session
