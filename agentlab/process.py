"""Which process is that: host, boot, pid and start time, and killing only what matches all four."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

Liveness = Literal["alive", "dead", "unknown"]


@lru_cache(maxsize=1)
def host() -> str:
    """This machine's name."""
    return platform.node() or "localhost"


@lru_cache(maxsize=1)
def boot_id() -> str:
    """A text that changes with every boot: Linux's boot id, the boot time elsewhere."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        pass
    try:
        out = subprocess.run(["sysctl", "-n", "kern.boottime"], capture_output=True, text=True, timeout=5, check=False)
        return out.stdout.split("}")[0].strip() or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"


def start_time(pid: int) -> str | None:
    """When ``pid`` started (clock ticks since boot on Linux, a date on macOS), None when there is no such process.

    A zombie counts as no process: it runs nothing any more.
    """
    if sys.platform.startswith("linux"):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return None
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    try:
        out = subprocess.run(
            ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, started = out.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def identify(pid: int | None = None) -> dict[str, Any]:
    """The record of a living process (this one by default): host, boot_id, pid, start_time."""
    pid = os.getpid() if pid is None else pid
    return {"host": host(), "boot_id": boot_id(), "pid": pid, "start_time": start_time(pid) or ""}


def liveness(record: Mapping[str, Any]) -> Liveness:
    """``alive`` or ``dead`` by pid and start time; ``unknown`` for a record of another host."""
    if record.get("host") != host():
        return "unknown"
    if record.get("boot_id") != boot_id():
        return "dead"
    return "alive" if record.get("start_time") and start_time(int(record["pid"])) == record["start_time"] else "dead"


def send_signal(record: Mapping[str, Any], number: int = signal.SIGKILL, group: bool = False) -> bool:
    """Signal the process of ``record`` (its group when asked) if pid and start time match; False when it is not alive."""
    if liveness(record) != "alive":
        return False
    try:
        (os.killpg if group else os.kill)(int(record["pid"]), number)
    except ProcessLookupError:
        return False
    return True


def await_death(record: Mapping[str, Any], timeout_s: float = 30.0) -> bool:
    """Wait until the process of ``record`` is gone; False when it is still there after ``timeout_s`` seconds."""
    deadline = time.monotonic() + timeout_s
    while liveness(record) == "alive":
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.002)
    return True


def stopped(pid: int) -> bool:
    """Whether ``pid`` is stopped (SIGSTOP): alive and not running."""
    if sys.platform.startswith("linux"):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
        except OSError:
            return False
    out = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False)
    return out.stdout.strip().startswith("T")
