"""Tools that hang, crash, fork and flood; harnesses that die. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentlab.crashpoints import CrashPoint, When, arm
from agentlab.errors import ToolHostError
from agentlab.toolhost.client import ProcessToolHost

from .conftest import HERE, Call, From, alive, misbehaving, until

LINUX = sys.platform.startswith("linux")
FAMILY = LINUX  # elsewhere a grandchild with a session of its own escapes


def test_the_host_is_used_again(call: Call) -> None:
    assert call("pid").value == call("pid").value


@pytest.mark.parametrize("function", ["hang", "hang_deaf"])
def test_a_hung_tool_is_killed_and_dead(call: Call, tmp_path: Path, function: str, from_here_on: From) -> None:
    call("ok")
    from_here_on(tmp_path / "pids")
    outcome = call(function, timeout_s=0.5, pid_file=str(tmp_path / "pids"))
    pid = int((tmp_path / "pids").read_text())
    assert not alive(pid)  # at once: the death was awaited
    assert (outcome.ok, outcome.kind, outcome.sent, outcome.stdout) == (False, "timeout", True, "hanging\n")
    assert outcome.duration_ms >= 500
    assert call("ok").value == "ok" and call("pid").value != pid


def test_a_timeout_takes_all_descendants(call: Call, tmp_path: Path, from_here_on: From) -> None:
    call("ok")
    from_here_on(tmp_path / "pids")
    assert call("hang", timeout_s=0.1, pid_file=str(tmp_path / "pids"), family=True).kind == "timeout"
    pids = [int(p) for p in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    assert not any(alive(pid) for pid in (pids if FAMILY else pids[:2]))


def test_a_segfault(call: Call) -> None:
    outcome = call("segfault")
    assert (outcome.ok, outcome.kind, outcome.sent, outcome.stdout) == (False, "died", True, "about to crash\n")
    assert outcome.message is not None and "SIGSEGV" in outcome.message
    assert call("ok").value == "ok"


def test_a_tool_that_exits(call: Call) -> None:
    outcome = call("leave")
    assert (outcome.kind, outcome.sent, outcome.stdout) == ("died", True, "leaving\n")
    assert outcome.message is not None and "exit code 7" in outcome.message
    assert call("ok").value == "ok"


def test_a_death_is_seen_though_a_child_holds_the_socket(call: Call) -> None:
    outcome = call("leave_with_heirs")  # it is no timeout: the child would hold the socket for longer than that
    assert outcome.kind == "died" and outcome.message is not None and "SIGKILL" in outcome.message


def test_a_forked_child_that_returns_says_nothing(call: Call) -> None:
    assert [call("fork_and_return").value for _ in range(3)] == ["parent"] * 3


def test_output_past_the_limit(call: Call) -> None:
    outcome = call("flood", size=5_000_000)
    assert outcome.value == "flooded"
    assert outcome.stdout.startswith("first\n.") and outcome.stdout.endswith("from a child\nlast")
    assert "bytes left out" in outcome.stdout and len(outcome.stdout) < 1_050_000


def test_closed_output_and_no_input(call: Call) -> None:
    assert call("close_output").value == "closed"
    assert call("read_input").value == ""


def test_a_value_that_is_too_large(call: Call) -> None:
    outcome = call("too_large")
    assert (outcome.ok, outcome.kind, outcome.sent) == (False, "garbage", True)
    assert call("ok").value == "ok"


def test_a_death_between_two_calls(call: Call, host: ProcessToolHost) -> None:
    worker, first = call("pid").value, host.pid
    assert first is not None and worker != first
    os.kill(worker, signal.SIGKILL)
    until(lambda: not alive(first))
    assert call("ok").value == "ok" and host.pid != first


def test_close_ends_a_call_of_another_thread(host: ProcessToolHost, tmp_path: Path) -> None:
    outcomes = []
    thread = threading.Thread(
        target=lambda: outcomes.append(host.call(misbehaving("hang", pid_file=str(tmp_path / "p"))))
    )
    thread.start()
    until((tmp_path / "p").exists)
    host.close()
    thread.join(60)
    assert [o.kind for o in outcomes] == ["died"] and not alive(int((tmp_path / "p").read_text()))


def test_a_host_outlives_the_thread_that_started_it(call: Call) -> None:
    pids = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: pids.append(call("pid").value))
        thread.start()
        thread.join(60)
        time.sleep(0.05)
    assert pids[0] == pids[1]  # Linux signals a child when the thread dies that forked it


def test_a_frozen_warden(
    call: Call, host: ProcessToolHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_here_on: From
) -> None:
    monkeypatch.setattr("agentlab.toolhost.hostprocess._DEATH_S", 0.2)
    call("ok")
    assert host.pid is not None
    os.kill(host.pid, signal.SIGSTOP)
    from_here_on(tmp_path / "p")
    outcome = call("hang", timeout_s=0.1, pid_file=str(tmp_path / "p"))
    assert outcome.kind == "timeout" and not alive(int((tmp_path / "p").read_text()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_warden_is_killed(call: Call, host: ProcessToolHost, tmp_path: Path, number: int) -> None:
    call("ok")

    def strike() -> None:
        until((tmp_path / "p").exists)
        assert host.pid is not None
        os.kill(host.pid, number)

    killer = threading.Thread(target=strike)
    killer.start()
    outcome = call("hang", pid_file=str(tmp_path / "p"), family=True)
    killer.join()
    pids = [int(p) for p in (tmp_path / "p").read_text().split()]
    # The one with a session of its own is out of reach once a SIGKILL took the warden, which had adopted it.
    sure = 0 if not LINUX else 2 if number == signal.SIGKILL else 3
    left = [pid for pid in pids if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert outcome.kind == "died" and not set(left) & set(pids[:sure])
    assert call("ok").value == "ok"


def test_a_host_that_can_not_start(tmp_path: Path) -> None:
    with pytest.raises(ToolHostError):
        ProcessToolHost(str(tmp_path), cwd=str(tmp_path / "nowhere")).call(misbehaving("ok"))


def test_a_file_in_the_working_folder_shadows_nothing_of_ours(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')")
    host = ProcessToolHost(str(tmp_path), cwd=str(tmp_path))
    try:
        assert host.call(misbehaving("ok")).value == "ok"
    finally:
        host.close()


def test_crash_points(call: Call, host: ProcessToolHost) -> None:
    reached: list[tuple[CrashPoint, When]] = []
    arm(lambda point, when, detail: reached.append((point, when)))
    try:
        call("ok")
        host.close()
    finally:
        arm(None)
    spawn, kill = CrashPoint.TOOLHOST_SPAWN, CrashPoint.TOOLHOST_KILL
    assert reached == [(spawn, "before"), (spawn, "after"), (kill, "before"), (kill, "after")]


def test_a_killed_harness_takes_its_tool_host_along(tmp_path: Path) -> None:
    code = (
        "import sys; from agentlab.toolhost.client import ProcessToolHost;"
        "from tests.toolhost.conftest import misbehaving;"
        "ProcessToolHost(sys.argv[1]).call(misbehaving('hang', 600, pid_file=sys.argv[2], family=True))"
    )
    root = os.path.dirname(os.path.dirname(HERE))
    argv = [sys.executable, "-c", code, str(tmp_path), str(tmp_path / "pids")]
    path = os.pathsep.join([root, HERE, os.environ.get("PYTHONPATH", "")])
    harness = subprocess.Popen(argv, cwd=root, env={**os.environ, "PYTHONPATH": path})
    try:
        until((tmp_path / "pids").exists)
        pids = [int(p) for p in (tmp_path / "pids").read_text().split()]
        assert all(alive(pid) for pid in pids)
    finally:
        harness.kill()
        harness.wait()
    until(lambda: not any(alive(pid) for pid in (pids if FAMILY else pids[:2])))
