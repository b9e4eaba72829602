"""Looking at a lab and at the machine from outside: bytes of files, processes of a lab."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agentlab.lab import Lab


def files_with(folder: Path, *needles: str) -> list[str]:
    """What holds any of ``needles``: every file below ``folder`` as bytes, and every event as text (rows may be compressed)."""
    wanted = [needle.encode() for needle in needles]
    found = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # a keeper removes the records of its dead, a writer its temporary files
            continue
        found += [str(path) for needle in wanted if needle in data]
    lab = Lab(folder)
    for session in lab.sessions():
        for event in session.replay():
            text = repr(event) + event.payload_text + repr(session.content(event))
            found += [f"event {event.seq} of {session.id}" for needle in needles if needle in text]
    return found


def processes_of(*marks: str) -> dict[int, str]:
    """Processes (this one and its threads apart) whose command line or environment names one of ``marks``."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            command = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ")
            environment = Path("/proc", name, "environ").read_bytes()
        except OSError:
            continue
        if any(mark.encode() in command + environment for mark in marks):
            found[int(name)] = command.decode("utf-8", "replace")
    return found


def zombies() -> list[int]:
    """Dead children of this process that nobody has waited for."""
    out = []
    for name in os.listdir("/proc"):
        try:
            fields: Any = (
                Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split() if name.isdigit() else None
            )
        except OSError:
            continue
        if fields and fields[0] == b"Z" and int(fields[1]) == os.getpid():
            out.append(int(name))
    return out
