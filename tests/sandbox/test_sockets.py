"""The private folders of sandboxes' sockets in the folder for temporary files: none outlives its sandbox for long."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlab import process
from agentlab.clock import SystemClock
from agentlab.lab import Lab
from agentlab.sandbox import DirectSpawner, LocalSandbox, LocalSandboxes, continue_sandbox, sockets, stop_sandbox
from agentlab.supervisor import keeper_system
from agentlab.supervisor.keeper_parts import spawn
from tests.sandbox.conftest import LIMITS, python, until


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files of this test alone, with a short path."""
    made = tempfile.mkdtemp(prefix="al-")
    monkeypatch.setenv("TMPDIR", made)
    yield Path(made)
    shutil.rmtree(made)


def provision(lab: Path, spawner: DirectSpawner) -> LocalSandbox:
    (lab / "blobs").mkdir(parents=True, exist_ok=True)
    made = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock()).provision("s", 1, LIMITS)
    made.confirm()
    return made


def folder_of(sandbox: LocalSandbox) -> Path:
    return Path(sandbox.record["address"]).parent


def test_one_that_ends_in_order_removes_its_own(temporary: Path, lab: Path, spawner: DirectSpawner) -> None:
    told, destroyed = provision(lab, spawner), provision(lab, spawner)
    assert {folder_of(told), folder_of(destroyed)} == set(temporary.iterdir())
    destroyed.destroy()
    os.kill(told.record["pid"], signal.SIGTERM)
    until(lambda: not list(temporary.iterdir()))
    told.close()


def test_a_new_one_removes_those_of_dead_ones_only(
    temporary: Path, lab: Path, tmp_path: Path, spawner: DirectSpawner
) -> None:
    """Also of a lab that is gone; never that of a living one, stopped or not, nor what only looks like one."""
    other = tmp_path / "other"
    dead, living, stopped = (provision(other, spawner) for _ in range(3))
    os.kill(dead.record["pid"], signal.SIGKILL)
    assert process.await_death(dead.record, 60)
    assert stop_sandbox(stopped.record)
    shutil.move(other, tmp_path / "gone")
    fresh, old, full, odd = (temporary / f"agentlab-{n * 12}" for n in "abcd")
    for folder in (fresh, old, full):
        folder.mkdir()
    (full / "mine.txt").touch()
    odd.symlink_to(full)
    nobody = socket.socket(socket.AF_UNIX)
    nobody.bind(str(old / "s"))  # by a version that noted nothing; nobody has listened since
    nobody.close()
    for folder in (old, full):
        os.utime(folder, times=(time.time() - 7200,) * 2)
    os.utime(folder_of(living), times=(time.time() - 7200,) * 2)

    new = provision(lab, spawner)
    assert set(temporary.iterdir()) == {*map(folder_of, (living, stopped, new)), fresh, full, odd}
    assert not (temporary / "agentlab-bbbbbbbbbbbb").exists() and living.changed_bytes() == 0
    assert continue_sandbox(stopped.record)
    assert stopped.changed_bytes() == 0
    shutil.move(tmp_path / "gone", other)
    for sandbox in (living, stopped, new):
        sandbox.destroy()
    dead.close()


def test_one_whose_note_is_of_a_dead_process_stays_while_somebody_listens(
    temporary: Path, lab: Path, spawner: DirectSpawner
) -> None:
    """A pid that is dead and a socket that refuses, both: what is known of one alone is not certain."""
    address = sockets.new_address()
    sockets.note(address, {**process.identify(), "start_time": "1"})
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        provision(lab, spawner).destroy()
        assert os.path.exists(address)
    sockets.note(address, {**process.identify(), "host": "elsewhere"})
    provision(lab, spawner).destroy()
    assert os.path.exists(address), "whether it lives there can not be told from here"
    sockets.note(address, {**process.identify(), "start_time": "1"})
    provision(lab, spawner).destroy()
    assert not list(temporary.iterdir())


def test_a_keeper_removes_that_of_one_it_killed(temporary: Path) -> None:
    address = sockets.new_address()
    Path(address).touch()
    sockets.note(address, process.identify())
    identity = {"host": process.host(), "boot_id": process.boot_id()}
    kept = temporary / "agentlab-eeeeeeeeeeee" / "x"
    kept.parent.mkdir()
    kept.touch()
    for named in (address, str(kept), ""):
        child = spawn(
            "sandbox", "s", python("import time; time.sleep(600)"), {"AGENTLAB_SOCKET": named}, None, None, identity
        )
        child.kill_tree()
        until(lambda pid=child.pid: keeper_system.start_time(pid) is None)
        assert child.reap() == -signal.SIGKILL
    assert list(temporary.iterdir()) == [kept.parent] and kept.exists()


def test_a_lab_that_is_closed_in_the_middle_of_a_run_leaves_none(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab") as lab:
        session = lab.create("sea_table")
        while not session.state.sandbox.record:
            assert session.step(), "it has a sandbox before it ends"
        folder = os.path.dirname(str(session.state.sandbox.record["address"]))
    assert not os.path.exists(folder)
