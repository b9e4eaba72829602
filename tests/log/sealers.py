"""Runs as processes of their own for the tests of sealing: seals that are killed, a writer that is stopped."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from agentlab.contracts.log import events_after, write
from agentlab.crashpoints import CrashPoint, When, arm
from agentlab.errors import Conflict
from agentlab.events import Draft, Event, seal
from agentlab.harness.sealing import seal_ended
from agentlab.log import ParquetStore
from agentlab.ports import Log

from .victims import kill_at


def killed(base: Path, names: list[str]) -> None:
    """For each point, moment and hit: a copy of the lab ``whole``, and a child that seals it and dies there."""
    importlib.import_module("pyarrow.parquet")
    moments: tuple[When, ...] = ("before", "after")
    for name in names:
        for when in moments:
            hit, died = 1, True
            while died:
                lab = base / f"{name}-{when}-{hit}"
                shutil.copytree(base / "whole", lab)
                pid = os.fork()
                if pid == 0:
                    try:
                        kill_at(CrashPoint(name), when, hit)
                        seal_ended(lab, "s")
                    finally:
                        os._exit(0)
                _, status = os.waitpid(pid, 0)
                died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
                print(json.dumps({"point": name, "when": when, "lab": str(lab), "killed": died}), flush=True)
                hit += 1


def stopped(lab: Path) -> None:
    """A writer that knows the head, and stops itself (SIGSTOP) before its next commit gets its name."""
    log = ParquetStore(lab).open("s")
    late = events_after(log.head(), "s", ["late", "later", "latest"])

    def stop(point: CrashPoint, when: When, detail: str) -> None:
        if point is CrashPoint.LOG_LINK and when == "before":
            arm(None)
            os.kill(os.getpid(), signal.SIGSTOP)

    arm(stop)
    try:
        log.append(late, late[0].seq)
    except Conflict as conflict:
        print(f"conflict at {conflict.seq}", flush=True)
        return
    print("appended", flush=True)


def busy(lab: Path, rounds: int) -> None:
    """Writes and seals ``rounds`` times, each when a byte says that a read begins; then ends the session, seals it."""
    log = ParquetStore(lab).open("s")
    importlib.import_module("pyarrow.parquet")
    for number in range(rounds):
        os.read(0, 1)
        write(log, f"a{number}")
        write(log, f"b{number}", f"c{number}")
        if number % 2:
            log.seal()
    log.append(_end(log), log.head().seq + 1)
    seal_ended(lab, "s")


def _end(log: Log) -> tuple[Event, ...]:
    said = Draft("session_ended", {"outcome": "completed", "result": {}, "totals": {}, "steps": {}})
    head = log.head()
    return seal([said], head, session_id="s", incarnation=1, commit_id="end", now_us=1_700_000_000_000_000 + head.seq)


if __name__ == "__main__":
    if sys.argv[1] == "killed":
        killed(Path(sys.argv[2]), sys.argv[3:])
    elif sys.argv[1] == "stopped":
        stopped(Path(sys.argv[2]))
    else:
        busy(Path(sys.argv[2]), int(sys.argv[3]))
