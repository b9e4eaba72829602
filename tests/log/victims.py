"""Runs as a process of its own: works on a log in forked children that kill themselves with a real SIGKILL.

``python -m`` arguments: the base folder and the name of the point. For hit 1, 2, 3 … of each moment a child works in a
fresh lab until it dies there; the first one that lives to the end closes the series. One JSON line per child.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path

from agentlab.contracts.log import write
from agentlab.crashpoints import CrashPoint, When, arm
from agentlab.log import ParquetStore
from agentlab.log.files import Disk
from agentlab.ports import Pointer

TEXTS = [f"text {i}" for i in range(5)]
BLOB = b"blob" * 1000


class Unsynced(Disk):
    """Skips the fsyncs, whose crash points stay: what a process has written survives its death without them."""

    def fsync(self, fd: int) -> None:
        return None


def work(lab: Path, acked: int) -> None:
    """Append what is missing, seal in the middle; every acknowledged thing is told at once and unbuffered."""
    store = ParquetStore(lab, disk=Unsynced())
    log = store.open("s")
    while (seq := log.head().seq) < len(TEXTS):
        write(log, TEXTS[seq])
        os.write(acked, b"e")
        if seq in (1, 3):
            log.seal()
            log.put_pointer(Pointer(seq, seq, "h", "d"))
            os.write(acked, b"p")
    store.blobs.put(BLOB)
    os.write(acked, b"b")


def kill_at(point: CrashPoint, when: When, hit: int) -> None:
    """Arm a SIGKILL of this process at the ``hit``-th time that ``point`` is reached."""
    left = hit

    def trigger(reached: CrashPoint, moment: When, detail: str) -> None:
        nonlocal left
        if reached is point and moment == when:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    arm(trigger)


def child(lab: Path, point: CrashPoint, when: When, hit: int) -> tuple[bool, str]:
    """Fork, work, die; returns whether it was killed and what it had acknowledged."""
    ParquetStore(lab, disk=Unsynced()).create("s")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            kill_at(point, when, hit)
            work(lab, writing)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        acked = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, acked


def main() -> None:
    importlib.import_module("pyarrow.parquet")  # once here instead of once in every child that seals
    base = Path(sys.argv[1])
    moments: tuple[When, ...] = ("before", "after")
    for name in sys.argv[2:]:
        for when in moments:
            hit, killed = 1, True
            while killed:
                lab = base / f"{name}-{when}-{hit}"
                killed, acked = child(lab, CrashPoint(name), when, hit)
                print(json.dumps({"point": name, "when": when, "lab": str(lab), "killed": killed, "acked": acked}))
                hit += 1


if __name__ == "__main__":
    main()
