"""Forks with real processes: the shared past, the workspace, effects that are never repeated, deep chains, trust."""

from __future__ import annotations

import json

import pytest

import agentlab as al
from agentlab.cli import main
from agentlab.effects.receiver import ReceiverProcess
from agentlab.errors import NotTrusted, UnknownName, UserError
from agentlab.events import GENESIS
from agentlab.session.fold import fold_all
from agentlab.session.state import State

from . import tasks


def of_type(session, *types):
    return [e for e in session.events() if e.type in types]


def own(session):
    return [e for e in session.events() if e.session_id == session.id]


def seq_of(session, kind, **fields):
    return next(
        e.seq for e in session.events() if e.type == kind and all(e.payload.get(k) == v for k, v in fields.items())
    )


def says_hello_twice(view):
    """Another policy: writes its line, and sends another message."""
    step = view.status.get("step")
    if step == "send":
        return [al.say("Another message."), al.call("send", message="another")]
    return tasks.by_step(view)


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    with ReceiverProcess(tmp_path_factory.mktemp("receiver")) as process:
        yield process


@pytest.fixture(scope="module")
def done(tmp_path_factory, outside):
    """A session that has written, sent and ended; forks of it leave it as it is."""
    with al.Lab(tmp_path_factory.mktemp("forks") / "lab") as lab:
        task = tasks.task("measure", "write", "send")
        session = lab.run(task, params={"receiver_url": outside.url}, policy="steps=1", timeout_s=120)
        assert session.status().status == "completed"
        before = session.events()
        yield session
        assert session.events() == before


def sent(outside):
    """How often the one message of the shared past was delivered."""
    return [entry["body"]["message"] for entry in outside.ledger()].count("done")


def run(fork, status="completed"):
    fork.wake(timeout_s=120)
    assert fork.status().status == status, fork.locate()
    fork.verify()
    assert fold_all(State(hash=GENESIS), fork.log.replay()) == fork.state
    return fork


def test_a_fork_before_the_effect_gets_the_record_of_what_has_happened_since(done, outside):
    at = seq_of(done, "step_completed", step_id="write")
    fork = done.fork(at, label="again")
    assert fork.id.startswith(f"{done.id}-fork-") and fork.status().status == "new"
    first = own(fork)[0]
    assert first.seq == at + 1 and first.payload["parent"] == {
        "session": done.id,
        "seq": at,
        "hash": done.events()[at - 1].hash,
    }
    assert first.payload["labels"] == ["again"] and "send has happened" in first.payload["note"]
    assert fork.events()[:at] == done.events()[:at]
    run(fork)
    sends = [e for e in own(fork) if e.type == "tool_result" and e.tool_name == "send"]
    assert [e.payload.get("reused") for e in sends] == [True]
    assert (
        sends[0].payload["output"]
        == next(e for e in of_type(done, "tool_result") if e.tool_name == "send").payload["output"]
    )
    assert sent(outside) == 1, "the outside saw one message"
    notes = next(e for e in own(fork) if e.type == "model_request").payload["notes"]
    assert first.payload["note"] in notes, "the model is told"
    assert fork.read_file("report.txt") == b"hello\n", "the workspace came from the snapshot"
    asked = [e for e in own(fork) if e.type == "tool_requested" and e.tool_name == "write_line"]
    assert not asked, "what was done is not asked for again"


def test_a_fork_may_have_another_model_policy_and_limits_and_do_something_else(done, outside):
    at = seq_of(done, "step_started", step_id="send")
    fork = done.fork(at, model=says_hello_twice, policy="never", limits={"max_turns": 7}, session_id="other")
    run(fork)
    assert fork.definition.limits.max_turns == 7 and "says_hello_twice" in fork.definition.model
    assert not [e for e in own(fork) if e.type == "checkpoint_written"]
    assert sorted(entry["body"]["message"] for entry in outside.ledger()) == ["another", "done"]
    keys = {e.effect_key for e in own(fork) if e.type == "effect_completed"}
    assert all(key.startswith("other#") for key in keys) and len(keys) == 1
    parent, mine = done.result["totals"], fork.result["totals"]
    assert mine["model_calls"] >= parent["model_calls"] - 1, "the budget goes on from the shared past"


@pytest.mark.parametrize("kind", ["effect_pending", "effect_completed"])
def test_a_fork_in_the_middle_of_an_effect_never_does_it_again(done, outside, kind):
    at = next(e.seq for e in done.events() if e.type == kind and e.tool_name == "send")
    run(done.fork(at))
    assert sent(outside) == 1


def test_a_fork_verifies_first_what_is_open_in_its_parent(lab, receiver):
    session = lab.create(tasks.task("send"), params={"receiver_url": receiver.url})
    session.start(arm=[al.parse_fault("harness@effect.reply", "f1")], restart=False)
    session.wait(120)
    session = lab.session(session.id)
    assert session.state.calls[0].status == "pending" and len(receiver.ledger()) == 1
    before = seq_of(session, "step_started", step_id="send")
    fork = run(session.fork(before))
    verified = [e for e in own(fork) if e.type == "effect_verified"]
    assert [e.payload["outcome"] for e in verified] == ["completed"] and len(receiver.ledger()) == 1
    assert verified[0].effect_key == session.state.calls[0].key, "under the parent's key"


def test_forks_of_forks_and_a_fork_back_in_the_shared_past(done, outside):
    at = seq_of(done, "step_completed", step_id="measure")
    chain = [done]
    for _ in range(3):
        chain.append(run(chain[-1].fork(at)))
        at = min(at + 3, chain[-1].state.seq)
    back = run(chain[-1].fork(seq_of(done, "step_started", step_id="measure")))
    assert sent(outside) == 1
    assert back.events()[0].session_id == done.id
    lab = done.lab
    statuses = {s.session_id: s.status for s in lab.statuses()}
    assert {statuses[session.id] for session in [*chain, back]} == {"completed"}
    rows = lab.sql("SELECT session_id, seq, count(*) AS n FROM events GROUP BY ALL HAVING n > 1")
    assert rows.empty, "each event is a row of one session"
    frame = lab.sql("SELECT session_id, events, status, forked_from, forked_at FROM sessions ORDER BY session_id")
    found = frame.set_index("session_id")
    for parent, fork in zip(chain, chain[1:], strict=False):
        assert (found.forked_from[fork.id], found.forked_at[fork.id]) == (parent.id, fork.log.base.seq)
    assert found.forked_from.isna()[done.id]
    assert frame.events.tolist() == [len(own(lab.session(s))) for s in frame.session_id]


def test_a_fork_survives_kills_and_restores_like_any_session(done, outside):
    at = seq_of(done, "step_completed", step_id="measure")
    fork = done.fork(at)
    fork.start(arm=[al.parse_fault("harness@tool_result", "f1"), al.parse_fault("sandbox@step=2", "f2")])
    fork.wait(120)
    assert fork.status().status == "completed" and fork.status().crashes >= 1
    fork.verify()
    assert sent(outside) == 1
    shared = seq_of(done, "checkpoint_written")
    second = done.fork(shared + 2)
    second.restore(shared)
    run(second)
    assert sent(outside) == 1


def test_a_fork_runs_beside_its_parent(lab, receiver, tmp_path, until):
    parent = lab.create(tasks.task("write", "gate", tools=tasks.MORE_TOOLS), params={"gate": str(tmp_path / "gate")})
    parent.start()
    until((tmp_path / "gate.reached").exists, what="the parent is in its second step")
    fork = parent.fork(seq_of(parent, "step_completed", step_id="write"))
    (tmp_path / "gate").touch()
    run(fork)
    assert parent.wait(120).status == "completed"
    assert parent.state.sandbox.sandbox_id != fork.state.sandbox.sandbox_id


def test_what_can_not_be_forked_is_said(done, monkeypatch, tmp_path):
    before = {s.id for s in done.lab.sessions()}
    with pytest.raises(UserError, match="there is no event"):
        done.fork(9999)
    with pytest.raises(UnknownName):
        done.fork(5, model="skripted:x:y")
    with pytest.raises(UserError):
        done.fork(5, policy="sometimes")
    with pytest.raises(UserError, match="exists"):
        done.fork(5, session_id=done.id)
    assert {s.id for s in done.lab.sessions()} == before, "nothing was written"
    monkeypatch.setenv("AGENTLAB_STATE_DIR", str(tmp_path / "another owner"))
    with pytest.raises(NotTrusted):
        done.fork(5)


def test_a_difference_names_the_event_the_calls_the_cost_and_the_outcome(lab, receiver, capsys):
    session = lab.run(tasks.task("measure", "send"), params={"receiver_url": receiver.url}, timeout_s=120)
    at = seq_of(session, "step_started", step_id="send")
    lab_option = ["--lab", str(lab.path)]
    assert main(["fork", session.id, "--at", str(at), "--id", "mine", *lab_option, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "session": "mine",
        "parent": session.id,
        "at": lab.session("mine").log.base.seq,
    }
    same = run(lab.session("mine"))
    other = run(session.fork(at, model=says_hello_twice))
    assert al.diff(session, session).same and al.diff(session, same).same and not al.diff(session, same).data.size
    found = al.diff(session, other)
    assert not found.same and found.shared == other.log.base.seq
    assert [e.type for e in found.first] == ["model_response", "model_response"]
    assert found.first[0].seq > found.shared and "another" in " ".join(found.where)
    assert [(c.what, c.tool_name, c.step) for c in found.calls] == [
        ("only in a", "send", "send"),
        ("only in b", "send", "send"),
    ]
    assert list(found.data.columns) == ["what", "step", "tool_name", "a_seq", "b_seq", "a_result", "b_result"]
    assert found.data.a_seq.isna().tolist() == [False, True]
    assert found.cost["model_calls"][0] == session.result["totals"]["model_calls"]
    assert found.outcome["status"] == ("completed", "completed") and "part at event" in str(found)
    assert json.dumps(found.to_json()) and "<script" not in found._repr_html_()
    assert main(["diff", session.id, other.id, *lab_option, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["shared"] == found.shared
    assert main(["diff", session.id, same.id, *lab_option]) == 0
    with pytest.raises(UserError, match="diff compares two sessions"):
        al.diff(session, "mine")
