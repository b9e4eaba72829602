"""A tool host per test, and the proof that nothing of it is left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentlab.ports import ToolHost, ToolInvocation, ToolOutcome
from agentlab.toolhost import hostprocess
from agentlab.toolhost.client import ProcessToolHost

HERE = os.path.dirname(os.path.abspath(__file__))
Call = Callable[..., ToolOutcome]
From = Callable[[Path], None]


def until(what: Callable[[], object], limit_s: float = 60.0) -> None:
    """Poll until ``what()`` holds."""
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.003)


def alive(pid: int) -> bool:
    """Whether ``pid`` runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.parent.parent.is_dir() or stat.read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def misbehaving(function: str, timeout_s: float = 120.0, **arguments: Any) -> ToolInvocation:
    """An invocation of a function of ``misbehaving.py``."""
    ref = {"kind": "dotted", "name": f"misbehaving:{function}", "digest": "", "sys_path": [HERE]}
    return ToolInvocation("c1.1", ref, arguments, timeout_s=timeout_s)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ProcessToolHost]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])}
    host = ProcessToolHost(str(tmp_path / "blobs"), cwd=str(tmp_path), env=env)
    yield host
    host.close()
    assert host.pid is None


@pytest.fixture
def from_here_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """``from_here_on(file)``: times of calls begin to count when ``file`` is there, however slow its writer starts."""

    def begin(file: Path) -> None:
        stood, began = time.monotonic(), []

        def monotonic() -> float:
            if not began and file.exists():
                began.append(time.monotonic())
            return stood + (time.monotonic() - began[0] if began else 0.0)

        monkeypatch.setattr(hostprocess, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))

    return begin


@pytest.fixture
def call(host: ToolHost) -> Call:
    def call(function: str, timeout_s: float = 120.0, **arguments: Any) -> ToolOutcome:
        return host.call(misbehaving(function, timeout_s, **arguments))

    return call
