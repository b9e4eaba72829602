"""Real deaths: of the harness, of the sandbox, of the owner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlab import process
from agentlab.clock import SystemClock
from agentlab.crashpoints import CrashPoint, When, arm
from agentlab.errors import SandboxError, SandboxGone
from agentlab.ports import Execution, Resources
from agentlab.sandbox import (
    DirectSpawner,
    LocalSandbox,
    LocalSandboxes,
    continue_sandbox,
    kill_sandbox,
    leftovers,
    reap,
    stop_sandbox,
)

from .conftest import LIMITS, of_lab, python, until

ROOT = Path(__file__).parents[2]
SLOW = ["/bin/sh", "-c", 'echo ran >> ran.txt; while [ ! -e "$0" ]; do sleep 0.02; done; echo done']


@pytest.fixture
def armed() -> Iterator[Callable[[Callable[[CrashPoint, When, str], None]], None]]:
    yield arm
    arm(None)


def home(lab: Path, sandbox: LocalSandbox) -> Path:
    return lab / "sandboxes" / sandbox.sandbox_id


def killed_harness(lab: Path, sandbox: LocalSandbox, exec_id: str, argv: list[str]) -> None:
    """Let a child process execute a command as a harness, and SIGKILL it while the command runs."""
    record = lab.parent / "record.json"
    record.write_text(json.dumps(sandbox.record))
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.harness_child", str(lab), str(record), exec_id, *argv],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    with child, child.stdout:
        assert child.stdout.readline() == b"running\n"
        child.kill()


@pytest.mark.parametrize("while_away", [True, False])
def test_a_command_survives_its_harness(
    local: LocalSandboxes, sandbox: LocalSandbox, lab: Path, tmp_path: Path, while_away: bool
) -> None:
    go = tmp_path / "go"
    killed_harness(lab, sandbox, "call-1", [*SLOW, str(go)])
    if while_away:  # it ends while nobody is attached
        go.touch()
        until(lambda: list((home(lab, sandbox) / "results").glob("*.json")))
    later = local.attach(sandbox.record, 2, LIMITS)
    assert list(later.finished()) == (["call-1"] if while_away else [])
    go.touch()
    done = later.execute("call-1", Execution([*SLOW, str(go)]))
    assert (done.exit_code, done.stdout) == (0, "done\n")
    assert later.read_file("ran.txt") == b"ran\n"
    later.acknowledge(["call-1"])
    assert list((home(lab, sandbox) / "results").iterdir()) == []
    later.destroy()


PATIENCE_S = 60.0


def run_aside(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Call in a thread; its result or error ends up in the list."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_a_kill_is_felt_at_once_and_takes_everything(lab: Path, spawner: DirectSpawner) -> None:
    """Whoever waits for a result learns of it by the death alone: no limit of time comes into it for an hour."""
    local = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock(), answer_within_s=3600.0)
    sandbox = local.provision("s", 1, Resources(timeout_s=3600.0))
    sandbox.confirm()
    marker = home(lab, sandbox) / "workspace" / "ran.txt"
    thread, outcome = run_aside(lambda: sandbox.execute("e1", Execution([*SLOW, "/nowhere"])))
    until(marker.exists)
    assert kill_sandbox(sandbox.record)
    thread.join(PATIENCE_S)
    assert isinstance(outcome[0], SandboxGone)
    assert not home(lab, sandbox).exists()
    assert of_lab(lab) == []
    assert not os.path.exists(os.path.dirname(sandbox.record["address"]))
    assert not kill_sandbox(sandbox.record)
    for call in (sandbox.finished, sandbox.snapshot, lambda: sandbox.execute("e2", Execution(["/bin/echo"]))):
        with pytest.raises(SandboxGone):
            call()


def test_a_kill_that_keeps_the_folder(sandbox: LocalSandbox, lab: Path) -> None:
    sandbox.execute("e1", Execution(["/bin/sh", "-c", "echo x > x"]))
    assert kill_sandbox(sandbox.record, keep_folder=True)
    assert (home(lab, sandbox) / "workspace" / "x").exists()
    assert leftovers(str(lab)) == [str(home(lab, sandbox))]
    assert reap(str(lab)) == 1
    assert not home(lab, sandbox).exists() and reap(str(lab)) == 0


def test_nothing_of_the_old_folder_is_ever_read(local: LocalSandboxes, sandbox: LocalSandbox, lab: Path) -> None:
    """The dead sandbox's folder is poisoned in every way; its successor shows the snapshot and nothing else."""
    sandbox.execute("e1", Execution(["/bin/sh", "-c", "echo clean > data; mkdir d; echo kept > d/k"]))
    digest = sandbox.snapshot().digest
    sandbox.execute("call-2", Execution(["/bin/echo", "old result"]))
    kill_sandbox(sandbox.record, keep_folder=True)
    for path in [*(home(lab, sandbox)).rglob("*")]:
        if path.is_file():
            path.write_text("POISON")
    (home(lab, sandbox) / "workspace" / "extra").write_text("POISON")
    with pytest.raises(SandboxGone):
        local.attach(sandbox.record, 2, LIMITS)
    fresh = local.provision("s", 2, LIMITS)
    fresh.restore(digest)
    fresh.confirm()
    assert list(fresh.finished()) == []
    seen = fresh.execute("call-2", Execution(["/bin/sh", "-c", "cat data d/k; ls; grep -r POISON . ; true"]))
    assert seen.stdout == "clean\nkept\nd\ndata\n"
    assert fresh.snapshot().digest == digest
    fresh.destroy()


def test_a_raw_sigkill_leaves_strays_that_reap_finds(local: LocalSandboxes, sandbox: LocalSandbox, lab: Path) -> None:
    """The system's own out-of-memory kill asks nobody: the command dies with it, its grandchildren at the next reap."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux can do this")
    code = "import os, time\nif os.fork(): time.sleep(300)\nos.setsid(); open('up', 'w').close(); time.sleep(300)"
    thread, outcome = run_aside(lambda: sandbox.execute("e1", Execution(python(code))))
    until((home(lab, sandbox) / "workspace" / "up").exists)
    os.kill(sandbox.record["pid"], signal.SIGKILL)
    thread.join(PATIENCE_S)
    assert isinstance(outcome[0], SandboxGone)
    local.provision("s", 2, LIMITS).destroy()
    until(lambda: of_lab(lab) == [])
    assert not home(lab, sandbox).exists()


def test_a_stopped_sandbox_is_killed_by_who_waits(lab: Path, spawner: DirectSpawner) -> None:
    sandbox = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock()).provision("s", 1, LIMITS)
    sandbox.confirm()
    assert stop_sandbox(sandbox.record)
    sandbox._answer_within_s = 0.5  # impatient only now: before, a slow machine would have been taken for a stop
    with pytest.raises(SandboxGone, match="did not answer"):
        sandbox.finished()
    assert process.liveness(sandbox.record) == "dead"
    assert not home(lab, sandbox).exists()


def test_a_long_command_is_no_silence_and_a_short_stop_no_death(lab: Path, spawner: DirectSpawner) -> None:
    local = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock(), answer_within_s=8.0)
    sandbox = local.provision("s", 1, LIMITS)
    sandbox.confirm()
    thread, outcome = run_aside(lambda: sandbox.execute("e1", Execution(["/bin/sh", "-c", "sleep 9; echo woke"])))
    until((home(lab, sandbox) / "scratch").iterdir)
    assert stop_sandbox(sandbox.record)
    assert continue_sandbox(sandbox.record)
    thread.join(PATIENCE_S)
    assert outcome[0].stdout == "woke\n"
    sandbox.destroy()


def test_a_zombie_that_waits_is_told(local: LocalSandboxes, sandbox: LocalSandbox, lab: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    thread, outcome = run_aside(lambda: sandbox.execute("e1", Execution([*SLOW, str(go)])))
    until((home(lab, sandbox) / "workspace" / "ran.txt").exists)
    later = local.attach(sandbox.record, 2, LIMITS)
    thread.join(PATIENCE_S)
    assert isinstance(outcome[0], SandboxError) and not isinstance(outcome[0], SandboxGone)
    with pytest.raises(SandboxError, match="running"):
        later.execute("e2", Execution(["/bin/echo"]))
    with pytest.raises(SandboxError, match="running"):
        later.snapshot()
    go.touch()
    assert later.execute("e1", Execution(["/bin/false"])).stdout == "done\n"
    later.destroy()


def test_restore_kills_what_runs(local: LocalSandboxes, sandbox: LocalSandbox, lab: Path) -> None:
    digest = sandbox.snapshot().digest
    thread, outcome = run_aside(lambda: sandbox.execute("e1", Execution([*SLOW, "/nowhere"])))
    until((home(lab, sandbox) / "workspace" / "ran.txt").exists)
    later = local.attach(sandbox.record, 1, LIMITS)
    later.restore(digest)
    thread.join(PATIENCE_S)
    assert outcome[0].status == "killed"
    assert later.snapshot().digest == digest
    later.destroy()


def test_nobody_confirms(lab: Path, spawner: DirectSpawner) -> None:
    local = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock(), confirm_within_s=4.0)
    used = local.provision("s", 1, LIMITS)
    used.execute("e1", Execution(["/bin/echo"]))
    forgotten = local.provision("s", 1, LIMITS)
    until(lambda: process.liveness(forgotten.record) == "dead")
    assert not os.path.exists(forgotten.record["address"])
    with pytest.raises(SandboxGone):
        forgotten.confirm()
    assert process.liveness(used.record) == "alive", "the older one: its time is over too, and it was used"
    local.provision("s", 1, LIMITS).destroy()
    assert not home(lab, forgotten).exists() and home(lab, used).exists()
    used.destroy()


@pytest.mark.parametrize("how", ["pid", "eof"])
def test_the_owner_dies(lab: Path, how: str) -> None:
    """By its pid when somebody else holds the pipe open, by end of file when another process is watched."""
    spawner = DirectSpawner()
    owner = subprocess.Popen(["/bin/sleep", "300"])
    watched = process.identify(owner.pid) if how == "pid" else None
    local = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock(), owner=watched, grace_s=1.0)
    sandbox = local.provision("s", 1, LIMITS)
    sandbox.confirm()
    run_aside(lambda: sandbox.execute("e1", Execution(["/bin/sleep", "300"])))
    until(lambda: any("sleep" in text for text in of_lab(lab)) or not sys.platform.startswith("linux"))
    if how == "pid":
        owner.kill()
    else:
        stdin = spawner._children[0][0].stdin
        assert stdin is not None
        stdin.close()
    until(lambda: process.liveness(sandbox.record) == "dead")
    until(lambda: of_lab(lab) == [])
    assert not os.path.exists(sandbox.record["address"])
    assert home(lab, sandbox).exists(), "its folder goes with whoever provisions next"
    owner.kill()
    owner.wait()
    spawner.close()


def test_an_owner_that_is_another_process_by_now(lab: Path, spawner: DirectSpawner) -> None:
    """A pid that was taken again is no owner: the start time tells, and the sandbox ends."""
    stale = {**process.identify(), "start_time": "1"}
    local = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock(), owner=stale, grace_s=4.0)
    sandbox = local.provision("s", 1, LIMITS)
    until(lambda: process.liveness(sandbox.record) == "dead")


def test_no_kill_by_a_record_that_does_not_match(local: LocalSandboxes, sandbox: LocalSandbox, lab: Path) -> None:
    record = dict(sandbox.record)
    assert not kill_sandbox({**record, "start_time": "1"})
    assert not kill_sandbox({**record, "start_time": "1", "home": "/etc"})
    with pytest.raises(SandboxError, match="host"):
        kill_sandbox({**record, "host": "elsewhere"})
    with pytest.raises(SandboxGone):
        local.attach({**record, "host": "elsewhere"}, 2, LIMITS)
    with pytest.raises(SandboxGone):
        local.attach({**record, "start_time": "1"}, 2, LIMITS)
    assert os.path.isdir("/etc") and process.liveness(record) == "alive"


def test_a_provision_that_fails_leaves_nothing(
    lab: Path, spawner: DirectSpawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock())
    monkeypatch.setattr("agentlab.sandbox.local._SERVER", "/no/such/server.py")
    with pytest.raises(SandboxError, match="never got ready|died at once"):
        local.provision("s", 1, LIMITS)
    assert os.listdir(lab / "sandboxes") == []  # that its process was reaped is seen at the end of every test


def test_crash_points_are_reached_in_order(
    local: LocalSandboxes, armed: Callable[[Callable[[CrashPoint, When, str], None]], None]
) -> None:
    seen: list[tuple[str, str]] = []
    armed(lambda point, when, detail: seen.append((point.value, when)))
    sandbox = local.provision("s", 1, LIMITS)
    sandbox.execute("e1", Execution(["/bin/echo"]))
    sandbox.acknowledge(["e1"])
    sandbox.restore(sandbox.snapshot().digest)
    sandbox.destroy()
    names = ["sandbox.spawn", "sandbox.connect", "sandbox.execute", "sandbox.result", "sandbox.acknowledge"]
    names += ["snapshot.take", "snapshot.restore", "sandbox.destroy"]
    assert seen == [(name, when) for name in names for when in ("before", "after")]


def test_killed_between_sending_and_taking(
    local: LocalSandboxes, sandbox: LocalSandbox, armed: Callable[[Callable[[CrashPoint, When, str], None]], None]
) -> None:
    def strike(point: CrashPoint, when: When, detail: str) -> None:
        if (point, when) == (CrashPoint.SANDBOX_EXECUTE, "after"):
            kill_sandbox(sandbox.record)

    armed(strike)
    with pytest.raises(SandboxGone):
        sandbox.execute("e1", Execution(["/bin/echo"]))


def test_a_long_lab_path(tmp_path: Path, spawner: DirectSpawner) -> None:
    lab = tmp_path / ("long" * 40) / ("name" * 40)
    (lab / "blobs").mkdir(parents=True)
    sandbox = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock()).provision("s", 1, LIMITS)
    assert os.stat(os.path.dirname(sandbox.record["address"])).st_mode & 0o777 == 0o700
    sandbox.destroy()


def test_the_server_loads_nothing_of_agentlab_and_nothing_installed(sandbox: LocalSandbox) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux shows what a process has mapped")
    mapped = Path(f"/proc/{sandbox.record['pid']}/maps").read_text()
    assert "site-packages" not in mapped
    code = (
        f"import sys; sys.argv[:] = ['x']; sys.path.insert(0, {str(ROOT / 'agentlab' / 'sandbox')!r})\n"
        "import server; server._only_this_folder()\nimport agentlab.sandbox.serve\n"
        "names = {n for n in sys.modules if n.startswith('agentlab')}\n"
        "assert all(n == 'agentlab' or n.startswith('agentlab.sandbox') for n in names), names\n"
        "assert 'ctypes' not in sys.modules\n"
        "try:\n    import agentlab.errors\nexcept ImportError:\n    print('shut')"
    )
    assert subprocess.run(python(code), capture_output=True, text=True, check=True).stdout == "shut\n"
