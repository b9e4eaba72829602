"""Limits, environment and paths of a real sandbox."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agentlab.clock import SystemClock
from agentlab.errors import SandboxError
from agentlab.log.blobs import BlobFolder
from agentlab.ports import Execution, ProcessRecord, Resources
from agentlab.sandbox import DirectSpawner, LocalSandbox, LocalSandboxes

from .conftest import of_lab, python, until

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can do this")


def limited(local: LocalSandboxes, resources: Resources) -> LocalSandbox:
    sandbox = local.provision("s", 1, resources)
    sandbox.confirm()
    return sandbox


def test_wall_time(local: LocalSandboxes) -> None:
    sandbox = limited(local, Resources(timeout_s=2.0))
    done = sandbox.execute("e1", Execution(["/bin/sh", "-c", "echo before; sleep 600 & sleep 600"]))
    assert (done.status, done.stdout) == ("timeout", "before\n")
    assert done.duration_ms >= 2000
    assert sandbox.execute("e2", Execution(["/bin/echo", "alive"], timeout_s=60)).stdout == "alive\n"


@linux_only
def test_memory(local: LocalSandboxes) -> None:
    sandbox = limited(local, Resources(memory_bytes=256 << 20, timeout_s=120))
    done = sandbox.execute("e1", Execution(python("x = bytearray(1 << 30)")))
    assert done.status == "memory"
    assert sandbox.execute("e2", Execution(python("x = bytearray(1 << 20); print(len(x))"))).exit_code == 0


def test_cpu(local: LocalSandboxes) -> None:
    sandbox = limited(local, Resources(cpu_s=1, timeout_s=200))
    done = sandbox.execute("e1", Execution(python("while True: pass")))
    assert done.status == "timeout"
    assert done.duration_ms < 200_000, "the limit of processor time, not that of wall time"


def test_a_flood_is_capped_and_both_ends_are_kept(local: LocalSandboxes) -> None:
    sandbox = limited(local, Resources(output_bytes=10_000, timeout_s=120))
    flood = "import sys; w = sys.{}.write\nw('first ')\nfor _ in range(40): w('x' * (1 << 20))\nw(' last')"
    for number, stream in enumerate(("stdout", "stderr")):
        done = sandbox.execute(f"e{number}", Execution(python(flood.format(stream))))
        kept = getattr(done, stream)
        assert done.truncated and done.exit_code == 0
        assert len(kept) <= 10_000
        assert kept.startswith("first ") and kept.endswith(" last") and "bytes left out" in kept
    if sys.platform.startswith("linux"):
        status = Path(f"/proc/{sandbox.record['pid']}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert peak < 100_000, f"the sandbox needed {peak} KiB for a flood"


def test_output_that_just_fits_is_whole_and_cuts_split_no_character(local: LocalSandboxes) -> None:
    sandbox = limited(local, Resources(output_bytes=1000))
    whole = sandbox.execute("e1", Execution(python("print('y' * 999)")))
    assert (whole.stdout, whole.truncated) == ("y" * 999 + "\n", False)
    for size in (1001, 1002, 1003):
        cut = sandbox.execute(
            f"c{size}", Execution(python(f"import sys; sys.stdout.buffer.write('€'.encode() * {size})"))
        )
        assert "\\x" not in cut.stdout and cut.truncated
    assert sandbox.execute("e2", Execution(python("import os; os.write(1, b'a\\xffb')"))).stdout == "a\\xffb"


def test_what_can_not_start_is_a_result(sandbox: LocalSandbox) -> None:
    for number, execution in enumerate(
        (
            Execution(["no-such-command"]),
            Execution([]),
            Execution(["a\0b"]),
            Execution(["/bin/echo"], cwd="missing"),
            Execution(["/bin/echo"], env={"a=b": "c"}),
        )
    ):
        done = sandbox.execute(f"e{number}", execution)
        assert (done.status, done.exit_code) == ("failed_to_start", None)
        assert done.stderr
    assert len(sandbox.finished()) == 5


def test_a_signal_is_told(sandbox: LocalSandbox) -> None:
    done = sandbox.execute("e1", Execution(["/bin/sh", "-c", "kill -TERM $$"]))
    assert (done.status, done.exit_code) == ("killed", -15)


def test_no_secret_gets_in(
    lab: Path, spawner: DirectSpawner, local: LocalSandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("LANG", "C.UTF-8")
    sandbox = limited(local, Resources())
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    env = json.loads(sandbox.execute("e1", Execution(python(code), env={"GIVEN": "yes"})).stdout)
    home = str(lab / "sandboxes" / sandbox.sandbox_id / "workspace")
    assert env.pop("AGENTLAB_SCRATCH").startswith(str(lab))
    assert env.pop("AGENTLAB_SANDBOX") == sandbox.sandbox_id
    assert (env["HOME"], env["GIVEN"], env["LANG"], env["PYTHONHASHSEED"]) == (home, "yes", "C.UTF-8", "0")
    allowed = {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "GIVEN", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"}
    assert set(env) <= allowed
    if sys.platform.startswith("linux"):
        # Nor by looking at the sandbox process, the command's parent.
        spied = sandbox.execute("e2", Execution(["/bin/sh", "-c", "cat /proc/$PPID/environ /proc/$PPID/cmdline"]))
        assert spied.exit_code == 0 and "sk-very-secret" not in spied.stdout


def test_scratch_is_outside_of_the_workspace_and_goes(sandbox: LocalSandbox, blobs: BlobFolder, lab: Path) -> None:
    command = ["/bin/sh", "-c", 'cat "$AGENTLAB_SCRATCH/tool.txt"; touch "$AGENTLAB_SCRATCH/x"; ls']
    done = sandbox.execute("e1", Execution(command, files={"@tool.txt": blobs.put(b"tool\n")}))
    assert done.stdout == "tool\n"
    assert os.listdir(lab / "sandboxes" / sandbox.sandbox_id / "scratch") == []


@pytest.mark.parametrize(
    "lure",
    ["ln -s /etc out", "ln -s ../../.. out", "ln -s /etc/passwd passwd", "mkdir d; ln -s ../.. d/up", "mkfifo pipe"],
)
def test_links_lead_nowhere(sandbox: LocalSandbox, blobs: BlobFolder, lab: Path, lure: str) -> None:
    sandbox.execute("e1", Execution(["/bin/sh", "-c", lure]))
    digest = blobs.put(b"intruder")
    for path in ("out/passwd", "passwd", "d/up/server.log", "d/up/sandbox.json", "out/blobs", "pipe", "out", "."):
        with pytest.raises((SandboxError, FileNotFoundError)):
            sandbox.read_file(path)
    for path in ("out/new", "d/up/new", "d/up/sandbox.json"):
        try:
            sandbox.put_files({path: digest})
        except SandboxError:
            continue
        # Where the lure was another one, these are plain paths.
        assert sandbox.read_file(path) == b"intruder"
    with pytest.raises(SandboxError):
        sandbox.execute("e2", Execution(["/bin/pwd"], cwd="../scratch"))
    sandbox.put_files({"passwd": digest})
    assert sandbox.read_file("passwd") == b"intruder"
    assert not os.path.exists("/etc/new") and b"intruder" not in Path("/etc/passwd").read_bytes()
    assert sorted(os.listdir(lab)) == ["blobs", "sandboxes"]


def test_links_inside_work(sandbox: LocalSandbox) -> None:
    sandbox.execute("e1", Execution(["/bin/sh", "-c", "mkdir real; echo x > real/f; ln -s real alias; ln -s real/f g"]))
    assert sandbox.read_file("alias/f") == sandbox.read_file("g") == b"x\n"
    assert sandbox.execute("e2", Execution(["/bin/ls"], cwd="alias")).stdout == "f\n"


def test_a_workspace_that_was_deleted_or_replaced(sandbox: LocalSandbox) -> None:
    sandbox.execute("e1", Execution(["/bin/sh", "-c", 'rm -rf "$HOME"']))
    assert sandbox.snapshot().files == 0
    digest = sandbox.snapshot().digest
    sandbox.execute("e2", Execution(["/bin/sh", "-c", 'rm -rf "$HOME"; ln -s / "$HOME"']))
    with pytest.raises(SandboxError):
        sandbox.snapshot()
    with pytest.raises(SandboxError):
        sandbox.read_file("etc/passwd")
    sandbox.restore(digest)
    assert sandbox.snapshot().digest == digest
    assert os.path.isdir("/etc")


@linux_only
@pytest.mark.parametrize("how", ["end", "timeout", "destroy", "restore"])
def test_grandchildren_with_sessions_of_their_own_die(local: LocalSandboxes, lab: Path, how: str) -> None:
    """A tree that forks on, each in a session of its own with its parent gone, is dead after the execution."""
    sandbox = limited(local, Resources(timeout_s=0.5 if how == "timeout" else 120))
    last = "time.sleep(60)" if how == "timeout" else "sys.exit(0)"
    code = f"""
import os, sys, time
def spread(depth):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if depth: spread(depth - 1)
            elif os.fork() == 0: time.sleep(300)
            else: os._exit(0)
            time.sleep(300) if depth % 2 else os._exit(0)
spread(2)
time.sleep(0.1)
{last}
"""
    digest = sandbox.snapshot().digest
    done = sandbox.execute("e1", Execution(python(code)))
    assert done.status == ("timeout" if how == "timeout" else "exited")
    alive = [text for text in of_lab(lab) if "server.py" not in text]
    assert alive == []
    if how == "restore":
        sandbox.restore(digest)
    if how == "destroy":
        sandbox.destroy()
        until(lambda: not of_lab(lab))


def test_no_network_is_not_promised(local: LocalSandboxes, lab: Path) -> None:
    with pytest.raises(SandboxError, match="network"):
        local.provision("s", 1, Resources(network=False))
    assert not (lab / "sandboxes").exists()


def test_a_spawner_that_passes_too_much_on_leaks_nothing(lab: Path, spawner: DirectSpawner) -> None:
    class Sloppy:
        def spawn(
            self, kind: str, argv: Sequence[str], env: Mapping[str, str], cwd: str, log_path: str | None
        ) -> ProcessRecord:
            return spawner.spawn(kind, argv, {**env, "ANTHROPIC_API_KEY": "sk-very-secret"}, cwd, log_path)

    sandbox = limited(LocalSandboxes(lab, lab / "blobs", Sloppy(), SystemClock()), Resources())
    assert "ANTHROPIC" not in sandbox.execute("e1", Execution(["/usr/bin/env"])).stdout
