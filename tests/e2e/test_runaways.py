"""Models that take the harness along, and what a session that can not be read leaves of its lab."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import agentlab as al
from agentlab import process
from agentlab.errors import LogCorrupt

from . import tasks


def exits(view):
    """Ends the process without a word."""
    os._exit(7)


def asks_to_exit(view):
    raise SystemExit(3)


def reads(view):
    return al.say(f"heard {input()!r}")


def test_a_model_that_kills_its_harness_in_every_call_is_not_asked_for_ever(lab):
    session = lab.run(tasks.task("write", model=exits), timeout_s=120)
    status = session.status()
    assert (status.status, status.reason) == ("paused", "crash_loop")
    assert session.state.incarnation == 3, "three deaths without work, then rest"


def test_a_kill_in_the_middle_of_a_recovery_that_follows_work_does_not_count_towards_the_limit(lab, receiver):
    crashes = ["harness@step_completed#1", "harness@effect.send", "harness@effect.reply"]
    session = lab.run(tasks.task("write", "slow", "send"), params={"receiver_url": receiver.url}, crash=crashes)
    assert session.status().status == "completed" and session.status().crashes == 3


@pytest.mark.parametrize("model", [asks_to_exit, reads])
def test_a_model_that_wants_to_exit_or_to_read_from_the_keyboard_pauses_the_session(lab, model):
    session = lab.run(tasks.task("write", model=model), timeout_s=120)
    status = session.status()
    assert (status.status, status.reason) == ("paused", "model"), session.locate()
    assert session.state.incarnation == 1


def of_a_cell(how: str):
    """A policy that can not be imported, as one that was written in a notebook cell; it does its harm on the second question."""

    def policy(view):
        if not view.calls():
            return al.call("write_line", text="one")
        if how == "exit":
            os._exit(7)
        elif how == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif how == "hang":
            time.sleep(3600)
        raise al.UserError("the policy gave up")

    return policy


@pytest.mark.parametrize("how", ["exit", "segfault", "hang", "raise"])
def test_a_model_of_a_cell_that_dies_or_hangs_takes_no_harness_along(lab, how):
    limits = al.Limits(model_timeout_s=1.0 if how == "hang" else 60.0, model_retries=0)
    session = lab.run(tasks.task("write", model=of_a_cell(how), limits=limits), timeout_s=120)
    status = session.status()
    assert (status.status, status.reason) == ("paused", "model"), session.locate()
    assert session.state.incarnation == 1, "the harness lives on and says what happened"
    kinds = [event.payload["kind"] for event in session.events() if event.type == "model_error"]
    expected = {"exit": "connection", "segfault": "connection", "hang": "timeout", "raise": "bad_request"}
    assert kinds == [expected[how]]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a stopped keeper is recognised by its state in /proc")
def test_a_takeover_is_not_held_up_by_a_keeper_that_is_stopped(lab, until):
    session = lab.run(tasks.task("long", "write"), background=True)
    until(lambda: session.state.calls, what="a call in progress")
    record = dict(session.state.process)
    keeper = psutil.Process(record["pid"]).ppid()
    os.kill(keeper, signal.SIGSTOP)
    try:
        process.send_signal(record, signal.SIGKILL)
        command = [sys.executable, "-m", "agentlab", "wake", session.id, "--lab", str(lab.path), "--takeover"]
        other = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            until(lambda: session.state.incarnation == 2, 120, "a second incarnation")
        finally:
            other.kill()
            assert "not died" not in other.communicate()[1]
    finally:
        os.kill(keeper, signal.SIGCONT)


def test_one_damaged_session_hides_no_other(lab):
    good, bad, torn, empty = (
        lab.run(tasks.task("write"), session_id=name) for name in ("good", "bad", "torn", "empty")
    )
    folders = {s.id: Path(s.log.folder) for s in (good, bad, torn, empty)}
    for name in folders:
        lab.supervisor.wait_exit(name, 120)  # it is sealed then
    newest = Path(bad.log.commit_files()[-1][0])
    newest.write_bytes(b"")
    (folders["torn"] / "session.json").write_text("{")
    for name in ("commits", "segments", "checkpoints"):
        shutil.rmtree(folders["empty"] / name)
        (folders["empty"] / name).mkdir()
    with al.Lab(lab.path) as again:
        found = {s.session_id: s.status for s in again.statuses()}
        assert found == {"good": "completed", "bad": "damaged", "torn": "damaged", "empty": "empty"}
        with pytest.raises(al.UserError, match="never accepted"):
            again.session("empty").wake()


def test_verify_looks_at_blobs_too(lab):
    session = lab.run(tasks.task("write"))
    session.verify()
    digest = session.state.sandbox.snapshot
    path = Path(lab.store.blobs.path(digest))
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(LogCorrupt, match="snapshot_taken"):
        al.Lab(lab.path).session(session.id).verify()
    path.write_bytes(kept)
    report = Path(lab.store.blobs.path(next(e.ref for e in session._manifest() if e.path == "report.txt")))
    report.write_bytes(b"changed")
    with pytest.raises(LogCorrupt, match="snapshot_taken"):
        al.Lab(lab.path).session(session.id).verify()


@pytest.mark.parametrize(
    "wrong",
    [{"crash": [None]}, {"crash": [5]}, {"session_id": 5}, {"session_id": b"x"}, {"policy": 5}, {"goal": 5}],
    ids=str,
)
def test_values_of_another_type_are_refused_in_one_line(lab, wrong):
    with pytest.raises(al.UserError):
        lab.create(tasks.task("write"), **wrong)
    assert lab.sessions() == []


def test_a_lab_from_a_folder_that_is_gone(tmp_path, monkeypatch):
    place = tmp_path / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    with pytest.raises(al.UserError, match="can not be found from here"):
        al.Lab("lab")
