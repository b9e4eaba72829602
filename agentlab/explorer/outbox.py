"""An outside for examples, drills and tests: deliveries that somebody counts, and notes that outlive a crash.

A tool says ``deliver("the report is ready", key)`` as it would call a service. While the explorer runs, the delivery
lands in the simulated outside world; otherwise in a file of JSON lines, named by the task's parameter ``outbox``
(``outbox.jsonl`` in the current folder without it). Equal keys are one delivery; without a key each call is one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

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
    """The outbox as a file of JSON lines, each durable before the call returns; one writer at a time."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = Path(path or task_params().get("outbox") or "outbox.jsonl")

    def deliver(self, message: str, key: str) -> dict[str, Any]:
        with self._alone() as file:  # two who come with one key at once must not both be the first
            found = self.find(key) if key else None
            if found is not None:
                return {**found, "replayed": True}
            number = sum("message" in line for line in self._lines()) + 1
            self._write(file, {"message": message, "key": key, "id": number})
            return {"id": number, "replayed": False}

    def find(self, key: str) -> dict[str, Any] | None:
        for line in self._lines():
            if "message" in line and line["key"] == key:
                return {"id": line["id"]}
        return None

    def save(self, name: str, value: Any) -> None:
        with self._alone() as file:
            self._write(file, {"note": name, "value": value})

    def load(self, name: str) -> Any:
        found = [line["value"] for line in self._lines() if line.get("note") == name]
        return found[-1] if found else None

    def _lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        # An unfinished last line was never acknowledged.
        return [json.loads(line) for line in self._path.read_text().split("\n")[:-1]]

    @contextmanager
    def _alone(self) -> Iterator[IO[str]]:
        """The file, open for appending, locked: a lock that goes with its process."""
        with open(self._path, "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _write(self, file: IO[str], line: Mapping[str, Any]) -> None:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
