"""Processes of a sandbox: who descends from whom, killing all of them, and watching the owner. Standard library only.

What only Linux can do: adopt orphans (subreaper), so that a grandchild with a session of its own is still ours; die
with the parent (PDEATHSIG); read a foreign environment. On macOS a grandchild that calls ``setsid`` *and* loses its
parent escapes; its process group and what still hangs under the execution are killed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

LINUX = sys.platform.startswith("linux")
MARKER = "AGENTLAB_SANDBOX"
"""Environment variable that every process of a sandbox inherits: the sandbox's id."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def start_time(pid: int) -> str | None:
    """When ``pid`` started, in the same text as ``agentlab.process.start_time``; None when it is gone or a zombie."""
    if LINUX:
        fields = _stat(pid)
        return None if fields is None or fields[0] in (b"Z", b"X") else fields[19].decode()
    state, _, started = _ps("-o", "state=,lstart=", "-p", str(pid)).strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def _stat(pid: int) -> list[bytes] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


def _ps(*arguments: str) -> str:
    try:
        return subprocess.run(
            ["ps", *arguments],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _parents() -> dict[int, int]:
    """Parent of every process that is not a zombie."""
    if not LINUX:
        rows = (line.split() for line in _ps("-axo", "pid=,ppid=,state=").splitlines())
        return {int(row[0]): int(row[1]) for row in rows if len(row) == 3 and not row[2].startswith("Z")}
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields is not None and fields[0] not in (b"Z", b"X"):
                found[int(name)] = int(fields[1])
    return found


def descendants(pid: int) -> set[int]:
    """Every living process below ``pid``."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents().items():
        children.setdefault(parent, []).append(child)
    found: set[int] = set()
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def marked(sandbox_id: str) -> set[int]:
    """Living processes that carry the marker of a sandbox in their environment (Linux; nothing elsewhere)."""
    if not LINUX:
        return set()
    wanted = f"{MARKER}={sandbox_id}".encode()
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.add(int(name))
            except OSError:
                continue
    return found


def send(pids: set[int], number: int) -> None:
    """Signal each of ``pids``; those that are gone are passed over."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def freeze_below(pid: int, limit_s: float = 2.0) -> set[int]:
    """Stop everything below ``pid`` until no new process turns up: what is stopped can not fork away from a kill."""
    deadline = time.monotonic() + limit_s
    stopped: set[int] = set()
    while (fresh := descendants(pid) - stopped) and time.monotonic() < deadline:
        send(fresh, signal.SIGSTOP)
        stopped |= fresh
    return stopped


def kill_below(pid: int) -> set[int]:
    """SIGKILL everything below ``pid``, but not ``pid``; returns whom."""
    victims = freeze_below(pid)
    send(victims, signal.SIGKILL)
    return victims


def become_subreaper() -> None:
    """Adopt orphaned descendants (Linux; nothing elsewhere)."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """For a child between fork and exec: be killed when ``parent`` dies (Linux; nothing elsewhere)."""
    if LINUX:
        import ctypes  # loaded by become_subreaper long before the fork

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


class OwnerWatch:
    """Tells when the process above is gone: by its pidfd (Linux) or kqueue (macOS), and by EOF on standard input.

    EOF alone is not enough: a forked worker of the owner holds the pipe open. The pid alone is not enough either,
    for a pid can be taken again before the watch begins; its start time is compared first.
    """

    def __init__(self, pid: int, started: str | None) -> None:
        self._pid, self._started = pid, started or start_time(pid)
        self.gone = False
        self.fds: list[int] = []
        self._kqueue: object = None
        self._pid_fd: int | None = None
        if self._started is None or start_time(pid) != self._started:
            self.gone = True
            return
        try:
            self._pid_fd = self._watch(pid)
            self.fds.append(self._pid_fd)
        except (OSError, AttributeError):
            pass  # an old kernel: poll() looks at the start time instead
        if self._is_pipe(0):
            self.fds.append(0)

    def _watch(self, pid: int) -> int:
        if LINUX:
            return os.pidfd_open(pid)
        if sys.platform == "linux":  # for the type checker, which knows kqueue on other systems only
            raise OSError
        queue = select.kqueue()
        self._kqueue = queue
        queue.control([select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)], 0)
        return queue.fileno()

    @staticmethod
    def _is_pipe(fd: int) -> bool:
        import stat

        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            return False
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)

    def readable(self, fd: int) -> bool:
        """To be called when one of ``fds`` is readable; True when that means the owner is gone."""
        if fd != 0:
            self.gone = True
        elif not os.read(0, 4096):
            self.gone = True
        return self.gone

    def poll(self) -> bool:
        """Whether the owner is gone, as far as is known without a descriptor."""
        if not self.gone and self._pid_fd is None:
            self.gone = start_time(self._pid) != self._started
        return self.gone
