"""An outside for examples, drills and tests: deliveries that somebody counts, and notes that outlive a crash.

A tool says ``deliver("the report is ready", key)`` as it would call a service. While the explorer runs, the delivery
lands in the simulated outside world; otherwise in a file of JSON lines, named by the task's parameter ``outbox``
(``outbox.jsonl`` in the current folder without it). Equal keys are one delivery; without a key each call is one.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from agentlab.calling import task_params


class Outbox(Protocol):
    """What takes deliveries and keeps notes."""

    def deliver(self, message: str, key: str) -> dict[str, Any]: ...

    def find(self, key: str) -> dict[str, Any] | None: ...

    def save(self, name: str, value: Any) -> None: ...

    def load(self, name: str) -> Any: ...


_installed: Outbox | None = None


def install(outbox: Outbox | None) -> Outbox | None:
    """Send what is delivered to ``outbox`` from now on (None: to the file); returns what was installed before."""
    global _installed
    before, _installed = _installed, outbox
    return before


def deliver(message: str, key: str = "") -> dict[str, Any]:
    """Deliver ``message``; the answer has ``id`` and ``replayed`` (an equal key had been delivered before)."""
    return (_installed or FileOutbox()).deliver(message, key)


def find(key: str) -> dict[str, Any] | None:
    """The delivery with ``key``, None when there is none."""
    return (_installed or FileOutbox()).find(key)


def save(name: str, value: Any) -> None:
    """Keep a note (JSON) outside every process."""
    (_installed or FileOutbox()).save(name, value)


def load(name: str) -> Any:
    """The note of that name, None when there is none."""
    return (_installed or FileOutbox()).load(name)


class FileOutbox:
    """The outbox as a file of JSON lines, each durable before the call returns; one writer at a time.

    A line that a crash tore was never acknowledged: it counts for nothing, and what was delivered after it still counts.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = Path(path or task_params().get("outbox") or "outbox.jsonl")

    def deliver(self, message: str, key: str) -> dict[str, Any]:
        with self._alone() as fd:  # two who come with one key at once must not both be the first
            found = self.find(key) if key else None
            if found is not None:
                return {**found, "replayed": True}
            number = sum("message" in line for line in self._lines()) + 1
            self._write(fd, {"message": message, "key": key, "id": number})
            return {"id": number, "replayed": False}

    def find(self, key: str) -> dict[str, Any] | None:
        for line in self._lines():
            if "message" in line and line.get("key") == key:
                return {"id": line["id"]}
        return None

    def save(self, name: str, value: Any) -> None:
        with self._alone() as fd:
            self._write(fd, {"note": name, "value": value})

    def load(self, name: str) -> Any:
        found = [line["value"] for line in self._lines() if line.get("note") == name]
        return found[-1] if found else None

    def _lines(self) -> list[dict[str, Any]]:
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return []
        # An unfinished last line was never acknowledged.
        return [line for text in raw.split(b"\n")[:-1] if (line := _record(text)) is not None]

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """The file, open for appending, locked: a lock that goes with its process. What a dead writer left is cut off."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            raw = self._path.read_bytes()
            if not raw.endswith(b"\n"):
                os.ftruncate(fd, raw.rfind(b"\n") + 1)
            yield fd
        finally:
            os.close(fd)

    def _write(self, fd: int, line: Mapping[str, Any]) -> None:
        before, data = os.fstat(fd).st_size, json.dumps(line).encode() + b"\n"
        try:
            if os.write(fd, data) != len(data):
                raise OSError(errno.ENOSPC, "the disk took only a part of the line", str(self._path))
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, before)
            raise


_BEGINS = re.compile(rb'\{"(?:message|note)": ')


def _record(text: bytes) -> dict[str, Any] | None:
    """The record of a line. One that stands behind the piece of another (its writer died) counts, the piece does not."""
    for begin in [0, *(found.start() for found in _BEGINS.finditer(text, 1))]:
        try:
            record = json.loads(text[begin:])
        except ValueError:
            continue
        if isinstance(record, dict):
            return record
    return None
