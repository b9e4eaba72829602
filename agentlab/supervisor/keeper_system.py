"""What the keeper asks of the operating system. Standard library only: the keeper imports nothing of agentlab.

Linux needs a kernel of 5.3 or newer (pidfd); macOS uses kqueue. The subreaper and the walk over descendants exist
on Linux only: on macOS an orphan goes to launchd, and only process groups can be swept.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any


def start_time(pid: int, zombie: bool = False) -> str | None:
    """When ``pid`` started, None when there is no such process. The same text as ``agentlab.process.start_time``.

    A zombie counts as no process unless ``zombie`` asks for it, which a parent does for a child it has not reaped.
    """
    if sys.platform.startswith("linux"):
        fields = _stat_fields(pid)
        return None if fields is None or (not zombie and fields[0] in (b"Z", b"X")) else fields[19].decode()
    try:
        out = subprocess.run(
            ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, started = out.stdout.strip().partition(" ")
    return None if not started or (not zombie and state.startswith("Z")) else started.strip()


def _stat_fields(pid: int) -> list[bytes] | None:
    """The fields of ``/proc/<pid>/stat`` from the state on (the command name before it may hold anything)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


def orphans_marked(mark: str) -> list[tuple[int, str]]:
    """Pid and start time of this process's children whose environment holds the line ``mark``, and of all below them.

    So an orphan that was adopted is told apart from others: its parent is forgotten, its environment is not (unless
    it was given another one). Linux only; empty elsewhere.
    """
    found: list[tuple[int, str]] = []
    for pid in children_of(os.getpid()):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                marked = mark.encode() in file.read().split(b"\0")
        except OSError:
            continue
        started = start_time(pid)
        if marked and started is not None:
            found += [(pid, started), *descendants(pid)]
    return found


def become_subreaper() -> bool:
    """Adopt orphaned descendants instead of init (Linux only); False where that can not be had."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        set_child_subreaper = 36
        return bool(ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def children_of(pid: int) -> list[int]:
    """Pids of the living and dead children of ``pid``. Linux only; empty elsewhere."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
        return found
    except FileNotFoundError:
        pass  # the process ended, or the kernel was built without this file
    except OSError:
        return []
    if not os.path.isdir(f"/proc/{pid}"):
        return []
    wanted = str(pid).encode()
    for name in os.listdir("/proc"):
        fields = _stat_fields(int(name)) if name.isdigit() else None
        if fields is not None and fields[1] == wanted:
            found.append(int(name))
    return found


def descendants(pid: int) -> list[tuple[int, str]]:
    """Pid and start time of every living process below ``pid``. Linux only; empty elsewhere."""
    found: list[tuple[int, str]] = []
    open_pids = [pid]
    while open_pids:
        for child in children_of(open_pids.pop()):
            started = start_time(child)
            if started is not None:
                found.append((child, started))
                open_pids.append(child)
    return found


def complain(text: str) -> None:
    """Write a line to the keeper's own log (its standard error). Never raises: that disk may be full."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        print(f"{now} keeper {os.getpid()}: {text}", file=sys.stderr, flush=True)
    except OSError:
        pass


if sys.platform == "linux":

    class ExitWatch:
        """Tells which watched processes have ended, without reaping them, by one descriptor that can be polled."""

        def __init__(self) -> None:
            self._poller = select.epoll()
            self._pids: dict[int, int] = {}  # pidfd -> pid
            self._ended: set[int] = set()  # had ended before they could be watched

        def fileno(self) -> int:
            return self._poller.fileno()

        @property
        def overdue(self) -> bool:
            """Whether :meth:`take` has something that the descriptor does not show."""
            return bool(self._ended)

        def add(self, pid: int) -> None:
            """Watch ``pid``, a child or any other process."""
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                self._ended.add(pid)
                return
            self._pids[fd] = pid
            self._poller.register(fd, select.EPOLLIN)

        def take(self) -> list[int]:
            """Pids that ended since the last call; each is told once."""
            ended, self._ended = list(self._ended), set()
            for fd, _ in self._poller.poll(0):
                ended.append(self._pids.pop(fd))
                os.close(fd)
            return ended

else:

    class ExitWatch:
        """Tells which watched processes have ended, without reaping them, by one descriptor that can be polled."""

        def __init__(self) -> None:
            self._queue = select.kqueue()
            self._ended: set[int] = set()

        def fileno(self) -> int:
            return self._queue.fileno()

        @property
        def overdue(self) -> bool:
            """Whether :meth:`take` has something that the descriptor does not show."""
            return bool(self._ended)

        def add(self, pid: int) -> None:
            """Watch ``pid``, a child or any other process."""
            event = select.kevent(
                pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT
            )
            try:
                self._queue.control([event], 0)
            except ProcessLookupError:
                self._ended.add(pid)

        def take(self) -> list[int]:
            """Pids that ended since the last call; each is told once."""
            ended, self._ended = list(self._ended), set()
            return ended + [event.ident for event in self._queue.control(None, 64, 0)]


class RunFiles:
    """Record files ``<lab>/run/<kind>-<pid>.json``: which processes this keeper is responsible for.

    They are hints for other processes (``agentlab.supervisor.ps``); losing one loses no work.
    """

    def __init__(self, lab: str, keeper: Mapping[str, Any], owner: Mapping[str, Any]) -> None:
        self._folder = os.path.join(lab, "run")
        self._keeper, self._owner = dict(keeper), dict(owner)

    def _path(self, kind: str, pid: int) -> str:
        return os.path.join(self._folder, f"{kind}-{pid}.json")

    def write(self, kind: str, session: str | None, record: Mapping[str, Any]) -> None:
        """Write the record of a process that was just started."""
        entry = {
            "kind": kind,
            "session": session,
            "record": dict(record),
            "keeper": self._keeper,
            "owner": self._owner,
            "started_at_us": time.time_ns() // 1000,
        }
        path = self._path(kind, int(record["pid"]))
        try:
            os.makedirs(self._folder, exist_ok=True)
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                json.dump(entry, file)
            os.replace(path + ".tmp", path)
        except OSError as error:
            complain(f"{path} can not be written: {error}")

    def remove(self, kind: str, pid: int) -> None:
        """Remove the record of a process that was reaped."""
        for path in (self._path(kind, pid), self._takeover(pid)):
            try:
                os.unlink(path)
            except OSError:
                pass

    def taken_over(self, record: Mapping[str, Any]) -> bool:
        """Whether somebody announced that he kills this harness to take its session over."""
        try:
            with open(self._takeover(int(record["pid"])), encoding="utf-8") as file:
                return file.read() == str(record["start_time"])
        except OSError:
            return False

    def _takeover(self, pid: int) -> str:
        return os.path.join(self._folder, f"takeover-{pid}")
