"""The first of the two processes of a tool host: runs nothing of the user's, kills all below when its time comes.

A process that runs users' code can not be trusted to clean up after itself: it may hang, or be dead. The warden
forks it, adopts what it leaves behind (Linux), and ends everything when the harness closes its end of the *life*
socket, when the harness dies, or when the worker dies. On macOS it kills the group; a grandchild that called
``setsid`` escapes there. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator

LINUX = sys.platform.startswith("linux")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PARENT_DIED = signal.SIGUSR2


def split(life: int, calls: int, parent: int) -> None:
    """Fork the worker and return in it alone; the process that called becomes its warden.

    ``life`` is the warden's socket to the harness, ``calls`` the worker's, ``parent`` the harness's pid.
    """
    told, tell = os.pipe()
    os.set_blocking(told, False)
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    caught = (signal.SIGCHLD, signal.SIGTERM, _PARENT_DIED)
    for number in caught:
        signal.signal(number, lambda *_: None)
    _control(_PR_SET_CHILD_SUBREAPER, 1)
    # Not SIGKILL: the warden has to outlive the harness for as long as it takes to kill what is below it.
    _control(_PR_SET_PDEATHSIG, _PARENT_DIED)
    if os.getppid() != parent:
        os._exit(1)
    me = os.getpid()
    worker = os.fork()
    if worker:
        os.close(calls)
        _watch(worker, life, told, parent)
    signal.set_wakeup_fd(-1)
    for number in caught:
        signal.signal(number, signal.SIG_DFL)
    for fd in (told, tell, life):
        os.close(fd)
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != me:
        os._exit(1)


def _control(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, int(value), 0, 0, 0)


def _watch(worker: int, life: int, told: int, parent: int) -> None:
    """Wait for one of the three ends; never returns."""
    poll = select.poll()
    poll.register(life, select.POLLIN)
    poll.register(told, select.POLLIN)
    while True:
        # Without a signal at the parent's death (macOS) its pid is looked at once a second.
        ready = dict(poll.poll(None if LINUX else 1000))
        signals = os.read(told, 4096) if told in ready else b""
        status = _reap(worker)
        if status is not None:
            try:
                os.write(life, b"%d\n" % status)
            except OSError:
                pass
            break
        # The parent's *thread* that started us may end alone; that is signalled too and means nothing.
        if life in ready or signal.SIGTERM in signals or os.getppid() != parent:
            break
    kill_all()
    os._exit(0)


def _reap(worker: int) -> int | None:
    """Reap what is dead; the wait status of the worker when it is among it."""
    status = None
    try:
        while True:
            pid, how = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return status
            if pid == worker:
                status = how
    except ChildProcessError:
        return status


def kill_all() -> None:
    """SIGKILL everything below this process and reap it; on Linux returns only when nothing is left."""
    if not LINUX:
        os.killpg(0, signal.SIGKILL)
    pause = 0.0005
    while True:
        for pid in below(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            # As the subreaper we get every orphan: no child left means that nothing below us is left.
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def _running() -> Iterator[tuple[int, int, int]]:
    """Pid, parent and group of every process that is not a zombie (Linux; nothing elsewhere)."""
    for name in os.listdir("/proc") if LINUX else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] not in (b"Z", b"X"):
                yield int(name), int(fields[1]), int(fields[2])


def below(pid: int) -> list[int]:
    """Every running process below ``pid`` (Linux; empty elsewhere)."""
    children: dict[int, list[int]] = {}
    for child, parent, _ in _running():
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    todo = [pid]
    while todo:
        fresh = children.pop(todo.pop(), [])
        found += fresh
        todo += fresh
    return found


def of_group(group: int) -> list[int]:
    """Every running process of a group but its leader (Linux; empty elsewhere)."""
    return [pid for pid, _, its in _running() if its == group and pid != group]
