"""Disk faults: at which system call of the store a kind strikes, and with which error."""

from __future__ import annotations

import errno
import os
import time

from agentlab.crashpoints import CrashPoint, When
from agentlab.faults.spec import Fault

_CALLS = {
    "event.append": {"write": CrashPoint.LOG_WRITE, "fsync": CrashPoint.LOG_FSYNC},
    "blob.put": {"write": CrashPoint.BLOB_WRITE, "fsync": CrashPoint.BLOB_FSYNC},
    "checkpoint.pointer": {"write": CrashPoint.POINTER_WRITE, "fsync": CrashPoint.POINTER_WRITE},
}
_STRIKES: dict[str, tuple[str, When, int]] = {
    "full": ("write", "after", errno.ENOSPC),  # the bytes are there and are refused: a torn file
    "emfile": ("write", "before", errno.EMFILE),
    "readonly": ("write", "before", errno.EROFS),
    "eio": ("fsync", "before", errno.EIO),
    "slow": ("fsync", "before", 0),
}


def hits(fault: Fault, point: CrashPoint, when: When, commit: frozenset[str]) -> bool:
    """Whether the boundary is the call that ``fault`` breaks; ``commit`` are the kinds of the events being committed."""
    call, side, _ = _STRIKES[fault.action]
    if when != side:
        return False
    if fault.point in _CALLS:
        return point is _CALLS[fault.point][call]
    if point.value == fault.point:  # any boundary by its own name
        return True
    return point is _CALLS["event.append"][call] and fault.point in commit


def fail(fault: Fault) -> None:
    """Do to the system call what the kind says.

    Raises:
        OSError: as the system would.
    """
    code = _STRIKES[fault.action][2]
    if not code:
        time.sleep(fault.value)
        return
    raise OSError(code, os.strerror(code))
