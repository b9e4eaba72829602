"""Arming faults in a process: when a point is reached, leave a durable mark and strike for real."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.crashpoints import CrashPoint, When
from agentlab.faults.spec import Fault

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "int": signal.SIGINT, "term": signal.SIGTERM}
KillSandbox = Callable[[Mapping[str, Any], str, str], None]
"""``(record, target, action)``: kill or stop the sandbox of a record; ``sandbox-process`` keeps the folder."""


class Arming:
    """Armed faults of one process. Install it with :func:`agentlab.crashpoints.arm`.

    A fault strikes once in a session: its mark (a file in ``folder``) is durable before it strikes, so the next
    harness knows, arms it no more, and writes the mark into the log.
    """

    def __init__(
        self, folder: Path, sandbox_record: Callable[[], Mapping[str, Any]], kill_sandbox: KillSandbox
    ) -> None:
        self._folder = folder
        self._sandbox_record = sandbox_record
        self._kill_sandbox = kill_sandbox
        self._faults: list[Fault] = []
        self._visits: dict[str, int] = {}
        self._busy = False
        self.struck: list[dict[str, Any]] = []
        """Faults that struck and left this process alive; to be written into the log."""

    def watch(self, sandbox_record: Callable[[], Mapping[str, Any]]) -> None:
        """Say where the record of the sandbox is found from now on."""
        self._sandbox_record = sandbox_record

    def add(self, faults: Sequence[Fault]) -> None:
        """Arm ``faults`` that have not struck yet."""
        known = {f.id for f in self._faults}
        self._faults += [f for f in faults if f.id not in known and not self._mark(f).exists()]

    def marks(self) -> list[dict[str, Any]]:
        """What struck in this session so far, from the marks."""
        out = []
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []:
            try:
                out.append(json.loads(path.read_text()))
            except (OSError, ValueError):
                continue  # a torn mark: the kill it announces did not follow
        return out

    def __call__(self, point: CrashPoint, when: When, detail: str) -> None:
        """Called at every boundary; strikes when an armed fault is due."""
        if self._busy:
            return
        names = (point.value, *detail.split(",")) if point is CrashPoint.COMMIT else (point.value,)
        for fault in tuple(self._faults):
            if fault.point in names and fault.when == when:
                self._visits[fault.id] = self._visits.get(fault.id, 0) + 1
                if self._visits[fault.id] == fault.visit and self._in_turn(fault):
                    self.strike(fault)

    def _in_turn(self, fault: Fault) -> bool:
        return not fault.follows or (self._folder / f"{fault.follows}.json").exists()

    def observe(self, seq: int, step: int, elapsed_s: float) -> None:
        """Called between commands: strikes faults bound to a seq, a step or a time."""
        for fault in tuple(self._faults):
            due = (
                (fault.seq and seq >= fault.seq)
                or (fault.step and step >= fault.step)
                or (fault.after_s and elapsed_s >= fault.after_s)
            )
            if due:
                self.strike(fault)

    def strike(self, fault: Fault) -> None:
        """Leave the mark, then do it."""
        self._faults.remove(fault)
        self._busy = True  # the mark's own writing must not trigger other faults
        try:
            mark = {
                "id": f"{fault.id}!",
                "fault": fault.id,
                "target": fault.target,
                "action": fault.action,
                "point": fault.spec(),
            }
            self._write_mark(fault, mark)
            if fault.target == "harness":
                os.kill(os.getpid(), SIGNALS[fault.action])
                if fault.action != "kill":
                    self.struck.append(mark)
                return
            record = self._sandbox_record()
            if record and process.liveness(record) == "alive":
                self._kill_sandbox(record, fault.target, fault.action)
            self.struck.append(mark)
        finally:
            self._busy = False

    def _mark(self, fault: Fault) -> Path:
        return self._folder / f"{fault.id}.json"

    def _write_mark(self, fault: Fault, mark: Mapping[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._mark(fault), "w", encoding="utf-8") as file:
            file.write(json.dumps(mark))
            file.flush()
            os.fsync(file.fileno())
