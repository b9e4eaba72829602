"""at and restore with real processes: pure reads, going back after a kill, and what the views say of it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from agentlab.cli import main
from agentlab.errors import CheckpointError, UnknownName, UserError
from agentlab.events import GENESIS, Draft
from agentlab.faults import parse_fault
from agentlab.session.fold import fold_all
from agentlab.session.state import State

from . import tasks


def of_type(session, *types):
    return [e for e in session.events() if e.type in types]


@pytest.fixture
def resting(lab, receiver, tmp_path, until):
    """A session whose second step has sent and whose third was cut by a kill of harness and sandbox."""
    session = lab.create(
        tasks.task("write", "send", "gate", tools=tasks.MORE_TOOLS),
        params={"gate": str(tmp_path / "gate"), "receiver_url": receiver.url},
        policy="steps=1",
    )
    session.start()
    until((tmp_path / "gate.reached").exists, what="the last tool has begun")
    session.kill("harness")
    session.kill("sandbox")
    records = session.lab.path / "run"
    until(lambda: not list(records.glob("sandbox-*.json")), what="its keeper has taken it off the record")
    return session


def test_a_killed_session_goes_back_and_comes_to_the_same_end(resting, receiver, tmp_path):
    session = resting
    first = of_type(session, "checkpoint_written")[0]
    there = session.restore(first.seq)
    assert there.state.plan.completed == 1 and there.seq == first.seq
    assert f"at event {there.seq} of" in str(there)
    (tmp_path / "gate").touch()
    session.wake(timeout_s=120)
    assert session.status().status == "completed", session.locate()
    session.verify()
    assert len(receiver.ledger()) == 1, "what was sent is not sent again"
    sends = [e for e in of_type(session, "tool_result") if e.tool_name == "send"]
    assert [bool(e.payload.get("reused")) for e in sends] == [False, True]
    assert session.read_file("report.txt") == b"hello\n"
    back = of_type(session, "restored_to")[0]
    gone = session.lab.sql("SELECT min(seq) AS first, max(seq) AS last FROM events WHERE superseded")
    assert (gone["first"][0], gone["last"][0]) == (first.seq + 1, back.payload["superseded_to"])
    assert session.superseded() == ((first.seq + 1, back.payload["superseded_to"]),)
    with pytest.raises(UserError, match="fork it"):
        session.restore(first.seq)


def test_a_harness_that_is_killed_while_it_goes_back_is_taken_over_where_it_was(resting, receiver, tmp_path):
    session = resting
    first = of_type(session, "checkpoint_written")[0]
    session.restore(first.seq)
    (tmp_path / "gate").touch()
    session.add_input(Draft("resume_requested", {"id": "by hand"}))
    kills = ("harness@restored_to", "harness@snapshot.restore", "sandbox@sandbox_restored")
    session.start(arm=[parse_fault(words, f"f{number}") for number, words in enumerate(kills)])
    session.wait(120)
    assert session.status().status == "completed", session.locate()
    session.verify()
    struck = [e.payload["point"] for e in of_type(session, "fault_injected") if e.payload.get("point")]
    assert len(struck) == len(kills), struck
    assert len(of_type(session, "restored_to")) == 1, "it went back once"
    assert len(receiver.ledger()) == 1 and session.read_file("report.txt") == b"hello\n"


def test_the_state_at_every_event_is_the_fold_and_reading_writes_nothing(resting, tmp_path):
    session = resting
    before = sorted((p, p.stat().st_mtime_ns) for p in session.lab.path.rglob("*") if p.is_file())
    events = session.events()
    for seq in range(1, len(events) + 1):
        assert session.at(seq).state == fold_all(State(hash=GENESIS), events[:seq]), seq
    found = session.at(len(events))
    assert found.event == events[-1] and found.next.describe()
    assert json.dumps(found.to_json()) and "<script" not in found._repr_html_()
    assert sorted((p, p.stat().st_mtime_ns) for p in session.lab.path.rglob("*") if p.is_file()) == before
    for wrong in (0, len(events) + 1, -1, True, "3"):
        with pytest.raises(UserError, match=f"events 1 to {len(events)}"):
            session.at(wrong)


def test_what_can_not_be_gone_back_to_is_said_at_once(resting):
    with pytest.raises(UnknownName, match="checkpoint"):
        resting.restore("nowhere")
    with pytest.raises(UnknownName):
        resting.restore(1)
    assert not of_type(resting, "restore_requested")
    early, late = [e.seq for e in of_type(resting, "checkpoint_written")][:2]
    resting.restore(early)
    (resting.lab.path.parent / "gate").touch()
    resting.step()
    with pytest.raises(CheckpointError, match="superseded"):
        resting.restore(late)


def test_the_command_line_looks_and_goes_back(resting, capsys):
    session, lab = resting, ["--lab", str(resting.lab.path)]
    first = of_type(session, "checkpoint_written")[0].seq
    assert main(["at", session.id, str(first), *lab]) == 0
    assert f"at event {first} of" in capsys.readouterr().out
    assert main(["at", session.id, "9999", *lab]) == 2
    assert main(["restore", session.id, str(first), *lab, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1])["session"] == session.id
    session.step()
    assert main(["log", session.id, "--all", *lab]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert Counter(line[0] for line in lines)["╳"] == session.superseded()[0][1] - first
    assert main(["restore", session.id, "nowhere", *lab]) == 2
