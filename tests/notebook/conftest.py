from __future__ import annotations

import contextlib
import io
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from IPython.core.interactiveshell import InteractiveShell

from agentlab.lab.session import Session
from agentlab.notebook import place
from tests.kernels import start_kernel

SLOW = '''
import time
from pathlib import Path
import agentlab as al

@al.tool(effect="pure", timeout_s=900)
def nap(n: int) -> str:
    """Sleep a little, and for as long as somebody holds it."""
    time.sleep(0.05)
    while Path(f"hold-{n}").exists():
        time.sleep(0.02)
    return f"nap {n}"

def napping(view):
    n = len(view.calls("nap"))
    return al.call("nap", n=n) if n < 12 else al.say("rested")

@al.tool(effect="sandboxed")
def touch(path: str) -> str:
    """Make an empty file."""
    open(path, "w").close()
    return path

slow = al.Task(name="naps", goal="Sleep twelve times.", tools=[nap, touch], model=napping)
'''
"""A task defined in a cell. A nap that is held does not end before it is let go, however long a test takes to act."""


def hold(nap: int, folder: Path | None = None) -> Path:
    """Hold a nap, from before it begins: a file in the folder in which the tools run. To unlink it lets the nap go."""
    held = (folder or Path.cwd()) / f"hold-{nap}"
    held.touch()
    return held


def held_in(session: Session, nap: int) -> None:
    """Wait until the session is in that nap, which is held: there it stays."""
    until(
        lambda: any(e.type == "tool_requested" and e.payload["input"] == {"n": nap} for e in session.events()),
        seen=lambda: (session.status(), kinds(session)[-8:]),
    )


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A place of its own for each test, plain output, and a working folder to put ./lab into."""
    fresh = place.Place()
    monkeypatch.setattr(place, "_current", fresh)
    monkeypatch.setenv("AGENTLAB_DISPLAY", "plain")
    monkeypatch.chdir(tmp_path)
    yield fresh
    for lab in fresh._labs.values():
        lab.close()


def let_go(held: Path, session: Session, kind: str) -> None:
    """Let a nap go as soon as the log has an event of that kind, while the caller is in a verb that waits for both."""
    log = session.lab.store.open(session.id)

    def watch() -> None:
        until(lambda: any(event.type == kind for event in log.replay(1)))
        held.unlink()

    threading.Thread(target=watch, daemon=True).start()


class Shell:
    """An IPython shell in this process: run a cell, see what it returned and what it complained about."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.ip = shell

    def run(self, code: str) -> Any:
        """The value of a cell's last expression; it must not fail."""
        with contextlib.redirect_stdout(io.StringIO()):
            result = self.ip.run_cell(code)
        assert result.success, result.error_in_exec or result.error_before_exec
        return result.result

    def complaint(self, code: str) -> str:
        """What a cell that must fail shows: standard error and output, without a traceback in them."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert not self.ip.run_cell(code).success
        return (out.getvalue() + err.getvalue()).strip()


@pytest.fixture
def shell(here):
    InteractiveShell.clear_instance()
    ip = InteractiveShell.instance()
    ip.history_manager.enabled = False
    ip.colors = "nocolor"
    ip.run_line_magic("load_ext", "agentlab")
    yield Shell(ip)
    InteractiveShell.clear_instance()


class Kernel:
    """A real kernel: run a cell, collect what it sent."""

    def __init__(self, cwd: Path, **env: str) -> None:
        environment = {**os.environ, "AGENTLAB_DISPLAY": "plain", **env}
        self.manager, self.client = start_kernel(cwd=str(cwd), env=environment)
        self.run("%load_ext agentlab")

    def send(self, code: str) -> str:
        """Send a cell and do not wait."""
        return str(self.client.execute(code))

    def take(
        self, message_id: str, timeout: float = 120.0, heard: Callable[[dict[str, Any]], None] = lambda message: None
    ) -> tuple[str, list[dict[str, Any]]]:
        """Await a cell: its status, and what it sent, of which ``heard`` is told as it comes."""
        seen, deadline = [], time.monotonic() + timeout
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") != message_id:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return str(self.client.get_shell_msg(timeout=60)["content"]["status"]), seen
            if message["msg_type"] not in ("status", "execute_input"):
                seen.append(message)
                heard(message)
        raise TimeoutError(f"the cell is not done within {timeout} s")

    def run(self, code: str, timeout: float = 120.0) -> str:
        """Run a cell that must not fail; its text."""
        status, seen = self.take(self.send(code), timeout)
        text = "\n".join(map(text_of, seen))
        assert status == "ok", text
        return text

    def kill(self) -> None:
        """SIGKILL the kernel."""
        os.kill(self.manager.provisioner.process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.client.stop_channels()
        with contextlib.suppress(Exception):
            self.manager.shutdown_kernel(now=True)


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    if "data" in content:
        return str(content["data"]["text/plain"])
    return str(content.get("text") or content.get("evalue") or "")


@pytest.fixture
def kernels(tmp_path):
    """Start kernels in one folder; they are ended at the end."""
    started: list[Kernel] = []

    def start(**env: str) -> Kernel:
        started.append(Kernel(tmp_path, **env))
        return started[-1]

    yield start
    for kernel in started:
        kernel.close()


def processes_of(folder: Path) -> list[str]:
    """Command lines of living processes that work for a lab below ``folder``."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.info["cmdline"] or ())
            if str(folder) in line and "agentlab" in line and process.status() != psutil.STATUS_ZOMBIE:
                found.append(line)
    return found


def until(condition: Any, seconds: float = 120.0, seen: Callable[[], object] = lambda: "") -> Any:
    """Poll until a condition holds; at the deadline ``seen`` says what there was in its place."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {seen()}"
        time.sleep(0.02)
    return value


def kinds(session: Session) -> list[str]:
    return [event.type for event in session.events()]
