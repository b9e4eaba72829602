"""Real sandboxes under a temporary lab, and the proof after each test that nothing of them is left."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from agentlab.clock import SystemClock
from agentlab.log.blobs import BlobFolder
from agentlab.ports import Resources
from agentlab.sandbox import DirectSpawner, LocalSandbox, LocalSandboxes, processes, reap

LIMITS = Resources(timeout_s=120.0)


def until(what: Callable[[], object], limit_s: float = 60.0) -> None:
    """Poll until ``what()`` holds."""
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.003)


def python(code: str) -> Sequence[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def of_lab(lab: Path) -> list[str]:
    """Command lines of processes, zombies included, that belong to a sandbox of ``lab``."""
    if not sys.platform.startswith("linux"):
        return []
    ids = os.listdir(lab / "sandboxes") if (lab / "sandboxes").exists() else []
    wanted = [os.fsencode(lab), *(f"{processes.MARKER}={sandbox_id}".encode() for sandbox_id in ids)]
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            text = Path(f"/proc/{name}/cmdline").read_bytes() + b" " + Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        if any(word in text for word in wanted):
            found.append(f"{name}: {text[:200]!r}")
    return found


def children(states: bytes) -> set[int]:
    """Children of this process in one of ``states`` (``Z``: dead and not reaped)."""
    if not sys.platform.startswith("linux"):
        return set()
    rows = ((name, processes._stat(int(name))) for name in os.listdir("/proc") if name.isdigit())
    me = str(os.getpid()).encode()
    return {int(name) for name, fields in rows if fields and fields[1] == me and fields[0] in states}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Path]:
    """A lab's folder; afterwards no process of it may be alive, and no child that this test started a zombie."""
    path = tmp_path / "lab"
    (path / "blobs").mkdir(parents=True)
    before = children(b"RSDTZ")
    yield path
    until(lambda: not of_lab(path) and not children(b"Z") - before)


@pytest.fixture
def spawner(lab: Path) -> Iterator[DirectSpawner]:
    spawner = DirectSpawner()
    yield spawner
    spawner.close()
    reap(str(lab))


@pytest.fixture
def blobs(lab: Path) -> BlobFolder:
    return BlobFolder(lab / "blobs")


@pytest.fixture
def local(lab: Path, spawner: DirectSpawner) -> LocalSandboxes:
    return LocalSandboxes(lab, lab / "blobs", spawner, SystemClock())


@pytest.fixture
def sandbox(local: LocalSandboxes) -> Iterator[LocalSandbox]:
    sandbox = local.provision("s", 1, LIMITS)
    sandbox.confirm()
    yield sandbox
    sandbox.close()
