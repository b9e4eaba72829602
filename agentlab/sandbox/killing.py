"""Real deaths of sandboxes, and tidying up after them.

Nothing is signalled whose pid and start time do not match its record, and no folder is deleted that does not say of
itself that it is the sandbox's: a record can come from a log that somebody else wrote.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from agentlab import process
from agentlab.errors import SandboxError
from agentlab.sandbox import processes, sockets, trees

DIES_S = 30.0
"""Seconds that a killed process may take to be gone (one that waits for a slow disk)."""
_UNNOTED_S, _AT_ONCE = 3600.0, 64
_ANONYMOUS_S = 60.0  # a folder without any record is being made at this moment, or is older than this


def kill_sandbox(record: Mapping[str, Any], *, keep_folder: bool = False) -> bool:
    """SIGKILL a sandbox and everything below it, await the deaths, delete its folder unless ``keep_folder``.

    Everything is stopped before it is killed, so nothing can fork away. Returns whether it was alive.

    Raises:
        SandboxError: the record is of another host, or something would not die within :data:`DIES_S` seconds.
    """
    state = process.liveness(record)
    if state == "unknown":
        raise SandboxError(f"sandbox {record.get('sandbox_id')} is on host {record.get('host')!r}: kill it there")
    home = _own_folder(record)
    if state == "dead" and home is not None and process.liveness(_read(home, "sandbox.json") or {}) == "alive":
        return False  # the folder belongs to a living process that is not the one of this record
    victims: set[int] = set()
    if state == "alive" and process.send_signal(record, signal.SIGSTOP):
        pid = int(record["pid"])
        victims = processes.freeze_below(pid)
        process.send_signal(record, signal.SIGKILL)
        processes.send(victims, signal.SIGKILL)
        if not process.await_death(record, DIES_S):
            raise SandboxError(f"sandbox {record.get('sandbox_id')}, pid {pid}, does not die")
    if state == "alive" or home is not None:
        _kill_strays(str(record.get("sandbox_id", "")), victims)
        sockets.remove(str(record.get("address", "")))
    if home is not None and not keep_folder:
        trees.remove(home)
    return state == "alive"


def _kill_strays(sandbox_id: str, victims: set[int]) -> None:
    """Kill what carries the sandbox's marker: orphans of a sandbox that died by another hand. Await all deaths."""
    deadline = time.monotonic() + DIES_S
    strays = processes.marked(sandbox_id) - {os.getpid()} if sandbox_id else set()
    while strays or any(processes.start_time(pid) is not None for pid in victims):
        processes.send(strays, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise SandboxError(f"processes of sandbox {sandbox_id} do not die: {sorted(strays | victims)}")
        time.sleep(0.002)
        strays = processes.marked(sandbox_id) - {os.getpid()}


def stop_sandbox(record: Mapping[str, Any]) -> bool:
    """SIGSTOP a sandbox and everything below it; False when it is not alive."""
    if not process.send_signal(record, signal.SIGSTOP):
        return False
    processes.freeze_below(int(record["pid"]))
    return True


def continue_sandbox(record: Mapping[str, Any]) -> bool:
    """SIGCONT what :func:`stop_sandbox` stopped; False when it is not alive."""
    below = processes.descendants(int(record["pid"]))
    if not process.send_signal(record, signal.SIGCONT):
        return False
    processes.send(below, signal.SIGCONT)
    return True


def _own_folder(record: Mapping[str, Any]) -> str | None:
    """The sandbox's folder, if it is one and says that it belongs to this sandbox."""
    home, sandbox_id = str(record.get("home", "")), record.get("sandbox_id")
    if not sandbox_id or os.path.basename(home) != sandbox_id or os.path.islink(home) or not os.path.isdir(home):
        return None
    said = _read(home, "sandbox.json") or _read(home, "provision.json") or {}
    return home if said.get("sandbox_id") == sandbox_id else None


def _read(home: str, name: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(home, name), encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def leftovers(lab: str) -> list[str]:
    """Folders of sandboxes of this host that are dead, or whose provisioner died before they came to life."""
    root = os.path.join(lab, "sandboxes")
    try:
        names = sorted(os.listdir(root))
    except FileNotFoundError:
        return []
    return [home for home in (os.path.join(root, name) for name in names) if _dead(home)]


def _dead(home: str) -> bool:
    record = _read(home, "sandbox.json") or _read(home, "provision.json")
    if record is not None:
        return process.liveness(record) == "dead"
    try:
        return os.path.isdir(home) and time.time() - os.stat(home).st_mtime > _ANONYMOUS_S
    except FileNotFoundError:
        return False


def reap(lab: str) -> int:
    """Remove the folders and strays of dead sandboxes; returns how many folders went."""
    count = 0
    for home in leftovers(lab):
        record = _read(home, "sandbox.json") or _read(home, "provision.json") or {}
        try:
            _kill_strays(os.path.basename(home), set())
            sockets.remove(str(record.get("socket", "")))
            trees.remove(home)
            count += 1
        except (OSError, SandboxError):
            continue  # the next one that provisions tries again
    _reap_sockets()
    return count


def _reap_sockets() -> None:
    """Remove sockets whose sandbox is dead for certain, of labs that may be gone as well.

    It is, when the process that was noted beside the socket is dead and the socket refuses. Where no note is, it is
    being made at this moment, or was made by an older version: then the refusal counts after an hour.
    """
    gone = 0
    for address, changed in sockets.addresses():
        record = sockets.noted(address)
        dead = time.time() - changed > _UNNOTED_S if record is None else process.liveness(record) == "dead"
        if dead and sockets.refuses(address):
            sockets.remove(address)
            gone += 1
        if gone >= _AT_ONCE:
            return
