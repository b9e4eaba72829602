"""The harness's half: the link, the spawner, and the watch over the process above."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from agentlab import process
from agentlab.errors import AgentlabError
from agentlab.keeperlink import KeeperLink, KeeperSpawner, ParentWatch, death_told
from agentlab.supervisor import keeper_system

from .conftest import HERE, ROOT, Bench, until


def test_spawner_and_progress_over_a_real_keeper(bench: Bench) -> None:
    owner = bench.supervisor()
    argv = [sys.executable, str(HERE / "standin_linked.py"), str(bench.lab)]
    owner.start("s", argv, {"PYTHONPATH": ROOT}, log_path=bench.lab / "logs" / "harness.log")
    until((bench.lab / "linked-0").exists, "the first harness is up")
    first = json.loads((bench.lab / "linked-0").read_text())
    assert process.liveness(first["sandbox"]) == "alive" and "/nowhere/at/all" in first["refused"]
    assert first["death"] is None and (bench.lab / "logs" / "harness.log").exists()
    until(lambda: owner.status()["s"]["seq"] == 7, "the progress has come")
    owner.kill("s")
    until((bench.lab / "linked-1").exists, "the second harness is up")
    death = json.loads((bench.lab / "linked-1").read_text())["death"]
    assert death["pid"] == first["pid"] and death["incarnation"] == 3


def test_a_link_without_a_keeper_raises_for_spawn_only() -> None:
    ours, theirs = socket.socketpair()
    link = KeeperLink(ours, {"pid": 1})
    theirs.close()
    link.progress(1, "running", work=True)
    link.done("ended")
    with pytest.raises(AgentlabError, match="does not answer"):
        KeeperSpawner(link).spawn("sandbox", ["x"], {}, "/", None)
    link.close()


def _received(theirs: socket.socket) -> list[dict[str, Any]]:
    theirs.setblocking(False)
    lines = b""
    try:
        while data := theirs.recv(1 << 20):
            lines += data
    except BlockingIOError:
        pass
    return [json.loads(line) for line in lines.splitlines()]


def test_progress_never_waits_for_a_keeper_that_does_not_read_and_owes_it_the_work() -> None:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 5000)  # so that a line is cut
    link = KeeperLink(ours, {"pid": 1}, reply_timeout_s=60.0)
    with theirs:
        for seq in range(2000):
            link.progress(seq, "running" * 20, work=seq == 1999)
        before = [message["seq"] for message in _received(theirs)]
        link.progress(2000, "running")
        link.progress(2001, "running")
        after = _received(theirs)
        link.done("paused")
        assert _received(theirs) == [{"op": "done", "state": "paused"}]
    link.close()
    assert before == list(range(len(before))) and 0 < len(before) < 2000
    assert [(m["seq"], m["work"]) for m in after if m["seq"] >= 2000] == [(2000, True), (2001, False)]


def test_environment_is_taken_once() -> None:
    environ = {"AGENTLAB_DEATH": '{"pid":5}', "OTHER": "x"}
    assert death_told(environ) == {"pid": 5} and death_told(environ) is None
    assert KeeperLink.from_env(environ) is None and environ == {"OTHER": "x"}


@pytest.mark.parametrize("how", ["pid", "eof"])
def test_parent_watch_by_pid_and_by_end_of_file(how: str) -> None:
    reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    ours, theirs = socket.socketpair()
    with subprocess.Popen(["sleep", "600"]) as parent, ours, theirs:
        watch = ParentWatch(process.identify(parent.pid), ours.fileno(), reasons.put)
        theirs.sendall(b"data for the link's own reader")
        assert not watch.gone.is_set() and reasons.empty()
        if how == "pid":
            parent.kill()
        else:
            theirs.close()
        assert reasons.get(timeout=60) == how
        assert watch.gone.is_set() and ours.recv(4) == b"data"
        watch.close()
        parent.kill()


def test_parent_watch_of_a_pid_that_was_given_away_calls_at_once() -> None:
    reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    ParentWatch({**process.identify(), "start_time": "1"}, None, reasons.put)
    assert reasons.get(timeout=60) == "pid"


def test_parent_watch_can_be_closed_and_leaves_no_descriptor() -> None:
    before = set(os.listdir("/dev/fd"))
    reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    watch = ParentWatch(process.identify(), None, reasons.put)
    watch.close()
    watch.close()
    assert reasons.empty()
    # one of another thread of this process may be open for a moment
    until(lambda: set(os.listdir("/dev/fd")) <= before, "no descriptor is left")


def test_the_keeper_reads_start_times_as_agentlab_does() -> None:
    assert keeper_system.start_time(os.getpid()) == process.start_time(os.getpid())
    with subprocess.Popen(["sleep", "600"]) as child:
        record = process.identify(child.pid)
        child.send_signal(signal.SIGKILL)
        until(lambda: process.liveness(record) == "dead", "the child is a zombie")
        assert keeper_system.start_time(child.pid) is None
        assert keeper_system.start_time(child.pid, zombie=True) == record["start_time"]


def test_the_keeper_imports_nothing_of_agentlab() -> None:
    keeper = HERE.parents[1] / "agentlab" / "supervisor" / "keeper.py"
    code = (
        "import runpy, sys\nrunpy.run_path(sys.argv[1], run_name='probe')\n"
        "print([m for m in sys.modules if m.startswith('agentlab')])"
    )
    out = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(keeper)], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"
