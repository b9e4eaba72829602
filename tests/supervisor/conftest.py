"""Real processes, found again by the lab's path in their command lines; every test must leave none."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import agentlab
from agentlab.supervisor import Supervisor, owned

HERE = Path(__file__).parent
ROOT = str(Path(agentlab.__file__).parent.parent)
T = TypeVar("T")


def until(look: Callable[[], T], what: str, timeout_s: float = 60.0) -> T:
    """The first true value of ``look``, polled; fails after ``timeout_s`` seconds."""
    deadline = time.monotonic() + timeout_s
    while not (value := look()):
        assert time.monotonic() < deadline, f"in {timeout_s:g} s it did not come that {what}"
        time.sleep(0.003)
    return value


def processes(mark: str) -> dict[int, str]:
    """Pid and command line of every process but this one whose command line holds ``mark``; zombies have none."""
    out = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True).stdout
    found = {int(line.split()[0]): line for line in out.splitlines() if mark in line}
    return {pid: line for pid, line in found.items() if pid != os.getpid()}


def os_sessions(mark: str, code: str = "") -> set[int]:
    """Operating-system sessions of the processes whose command line holds ``mark`` and ``code``; one may end meanwhile."""
    found = set()
    for pid, line in processes(mark).items():
        if code in line:
            with contextlib.suppress(ProcessLookupError):
                found.add(os.getsid(pid))
    return found


class Bench:
    """A lab folder, the stand-ins in it, and what they told."""

    def __init__(self, lab: Path) -> None:
        self.lab = lab
        self.supervisors: list[Supervisor] = []
        self.owners: list[subprocess.Popen[str]] = []

    def supervisor(self, grace_s: float = 1.0) -> Supervisor:
        self.supervisors.append(Supervisor(self.lab, grace_s=grace_s))
        return self.supervisors[-1]

    def argv(self, *plans: list[str], session: str = "s") -> list[str]:
        harness = str(HERE / "standin_harness.py")
        return [sys.executable, "-I", "-S", harness, str(self.lab), session, json.dumps(plans)]

    def owner(self, *plans: list[str], grace_s: float = 1.0, mode: str = "plain") -> subprocess.Popen[str]:
        argv = [sys.executable, str(HERE / "standin_owner.py"), str(self.lab), str(grace_s), mode, json.dumps(plans)]
        env = {**os.environ, "PYTHONPATH": ROOT}
        self.owners.append(subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True))
        return self.owners[-1]

    def told(self, session: str = "s", having: str = "started_ns") -> list[dict[str, Any]]:
        """What the stand-ins of ``session`` told that has the field ``having``."""
        path = self.lab / "told.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if line["session"] == session and having in line]

    def staying(self, count: int = 1, session: str = "s") -> dict[str, Any]:
        """The ``count``-th harness of ``session`` once it has done its plan and waits."""
        return until(lambda: self.told(session, "staying")[count - 1 :], f"harness {count} of {session} waits")[0]

    def spawned(self, kind: str, session: str = "s") -> dict[str, Any]:
        """The record of the newest child of ``kind``."""
        of_kind = [line["answer"]["record"] for line in self.told(session, "spawned") if line["spawned"] == kind]
        return dict(of_kind[-1])

    def recorded(self, kind: str) -> dict[str, Any]:
        """The record of the one process of ``kind``; the keeper writes it just after the start."""
        found = until(lambda: [one for one in owned(self.lab) if one.kind == kind], f"a {kind} is recorded")
        assert len(found) == 1
        return dict(found[0].record)

    def nothing_left(self) -> None:
        until(lambda: not processes(str(self.lab)), "every process of the lab is gone")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for owner in made.owners:
        if owner.poll() is None:
            os.killpg(owner.pid, signal.SIGKILL)
        owner.wait()
        assert owner.stdout is not None
        owner.stdout.close()
    for each in made.supervisors:
        each.close()
    try:
        made.nothing_left()
        assert not list((tmp_path / "run").glob("*.json")), "a record file was left behind"
    finally:
        for pid in processes(str(tmp_path)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
