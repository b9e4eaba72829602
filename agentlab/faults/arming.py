"""Arming faults in a process: when a point is reached, leave a durable mark and strike for real."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.crashpoints import CrashPoint, Misdeed, When
from agentlab.faults.disk import fail, hits
from agentlab.faults.marks import Marks
from agentlab.faults.spec import Fault

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "int": signal.SIGINT, "term": signal.SIGTERM}
KillSandbox = Callable[[Mapping[str, Any], str, str], None]
"""``(record, target, action)``: kill or stop the sandbox of a record; ``sandbox-process`` keeps the folder."""


class Arming:
    """Armed faults of one process. Install it with :func:`agentlab.crashpoints.arm`.

    A fault strikes once in a session: its mark (a file in ``folder``) is durable before it strikes, so the next
    harness knows, arms it no more, and writes the mark into the log. ``shift_clock`` (seconds) and ``second`` (wake
    another harness on this session, with the faults that are still to strike, and see it open it) carry out what those
    faults ask for.
    """

    def __init__(
        self,
        folder: Path,
        sandbox_record: Callable[[], Mapping[str, Any]],
        kill_sandbox: KillSandbox,
        shift_clock: Callable[[float], None] = lambda seconds: None,
        second: Callable[[Sequence[Fault]], None] = lambda faults: None,
    ) -> None:
        self._marks = Marks(folder)
        self._sandbox_record = sandbox_record
        self._kill_sandbox = kill_sandbox
        self._shift_clock, self._second = shift_clock, second
        self._faults: list[Fault] = []
        self._visits: dict[str, int] = {}
        self._services: set[str] = set()
        """Ids of the service faults armed in this process: they strike and leave it alive."""
        self._commit: frozenset[str] = frozenset()
        """Kinds of the events of the commit in progress."""
        self._busy = False
        self._began: float | None = None
        """The session's start on the monotonic clock of this process."""
        self._timer: threading.Thread | None = None
        self._changed = threading.Condition()
        self._lock = threading.RLock()
        self.struck: list[dict[str, Any]] = []
        """Faults that struck and left this process alive; to be written into the log."""

    def watch(self, sandbox_record: Callable[[], Mapping[str, Any]]) -> None:
        """Say where the record of the sandbox is found from now on."""
        self._sandbox_record = sandbox_record

    def add(self, faults: Sequence[Fault]) -> None:
        """Arm ``faults`` that have not struck yet."""
        known = {f.id for f in self._faults}
        fresh = [f for f in faults if f.id not in known and not self._marks.has(f.id)]
        with self._changed:
            self._faults += fresh
            self._services |= {f.id for f in fresh if f.service}
            self._changed.notify()
        self._keep_time()

    def marks(self) -> list[dict[str, Any]]:
        """What struck in this session so far, from the marks."""
        return self._marks.all()

    # --- points ------------------------------------------------------------------------------------------------------

    def __call__(self, point: CrashPoint, when: When, detail: str) -> None:
        """Called at every boundary; strikes when an armed fault is due."""
        if self._busy or not self._faults:
            return
        names: tuple[str, ...] = (point.value,)
        if point is CrashPoint.COMMIT:
            names = (point.value, *detail.split(","))
            self._commit = frozenset(names[1:]) if when == "before" else frozenset()
        for fault in tuple(self._faults):
            if fault.target == "disk":
                if hits(fault, point, when, self._commit) and self._due(fault):
                    self.strike(fault)
                    fail(fault)
            elif fault.point in names and fault.when == when and fault.target not in ("model", "tool"):
                if self._due(fault):
                    self.strike(fault)

    def misdeed(self, service: str, name: str, ref: str) -> Misdeed | None:
        """How this call of a service is to misbehave, None when it is not; see :func:`agentlab.crashpoints.misdeed`."""
        # All are counted, one strikes; another that is due as well takes the next call.
        due = [f for f in self._faults if f.target == service and f.name in ("", name) and self._due(f)]
        if not due:
            return None
        self.strike(due[0], ref)
        return due[0].action, due[0].value

    def _due(self, fault: Fault) -> bool:
        """Count a visit of an armed fault; whether this is the one.

        What follows a service fault, or is one, counts from its turn on. What follows a death counts from the first visit
        of this process on, which is the same where a harness died; behind a sandbox both may strike at one visit.
        """
        ready = not fault.follows or self._marks.has(fault.follows)
        if not ready and (fault.service or fault.follows in self._services):
            return False
        self._visits[fault.id] = self._visits.get(fault.id, 0) + 1
        return ready and self._visits[fault.id] >= fault.visit if fault.service else (
            ready and self._visits[fault.id] == fault.visit
        )  # fmt: skip

    # --- seqs, steps and times ---------------------------------------------------------------------------------------

    def observe(self, seq: int, step: int, elapsed_s: float) -> None:
        """Called between commands: strikes faults bound to a seq or a step; times are kept from the first call on."""
        if self._began is None:
            self._began = time.monotonic() - elapsed_s
            self._keep_time()
        for fault in tuple(self._faults):
            if (fault.seq and seq >= fault.seq) or (fault.step and step >= fault.step):
                self.strike(fault)

    def _keep_time(self) -> None:
        """Strike faults bound to a time when it comes, in the middle of a command too."""
        if self._began is None or self._timer is not None or not any(f.after_s for f in self._faults):
            return
        self._timer = threading.Thread(target=self._wait, name="agentlab-faults", daemon=True)
        self._timer.start()

    def _wait(self) -> None:
        assert self._began is not None
        while True:
            with self._changed:
                timed = sorted((f for f in self._faults if f.after_s), key=lambda f: f.after_s)
                left = timed[0].after_s - (time.monotonic() - self._began) if timed else None
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
            self.strike(timed[0])

    # --- striking ----------------------------------------------------------------------------------------------------

    def strike(self, fault: Fault, ref: str = "") -> None:
        """Leave the mark, then do it. ``ref`` is the id of the call that it strikes."""
        with self._lock:
            if fault not in self._faults:
                return
            self._faults.remove(fault)
            self._busy = True  # the mark's own writing must not trigger other faults
            try:
                self._carry_out(fault, self._marks.write(fault, ref))
            finally:
                self._busy = False

    def _carry_out(self, fault: Fault, mark: dict[str, Any]) -> None:
        if fault.target == "clock":
            self._shift_clock(-fault.value if fault.action == "back" else fault.value)
        elif fault.action == "second":
            # What is still to strike is for the harness that works on, not for the one that it fences.
            rest, self._faults = self._faults, []
            self._second(rest)
            return
        elif fault.target == "harness":
            os.kill(os.getpid(), SIGNALS[fault.action])
            if fault.action == "kill":
                return
        elif not fault.service:
            record = self._sandbox_record()
            if record and process.liveness(record) == "alive":
                self._kill_sandbox(record, fault.target, fault.action)
        self.struck.append(mark)
