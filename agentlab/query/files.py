"""Which files hold a lab's events now, each event in exactly one of them.

DuckDB gets a list, never a pattern: a pattern would match temporary and foreign files, and read what sealing is
about to remove twice. A file's footer is looked at once, so that junk is named before it spoils a whole query.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentlab.errors import LogCorrupt, UnknownName
from agentlab.events import Event
from agentlab.events.codec import decode
from agentlab.ports import LogStore


@dataclass(frozen=True, slots=True)
class Listing:
    """``files`` that DuckDB reads itself, and ``events`` that only this package's reader can bring it."""

    files: tuple[str, ...]
    events: tuple[Event, ...]


@dataclass
class Lister:
    """Lists a store's files; remembers open logs and the footers it has seen (files of a log never change)."""

    store: LogStore
    _logs: dict[str, Any] = field(default_factory=dict)
    _escaped: dict[str, bool] = field(default_factory=dict)

    def listing(self, sessions: Sequence[str] | None) -> Listing:
        """The files of ``sessions``, of all with None.

        Raises:
            FileNotFoundError: a file was sealed away meanwhile; ask again.
            LogCorrupt: a file that is none of a log; the message names it.
            UnknownName: a session that was named and is not there.
        """
        files: list[str] = []
        events: list[Event] = []
        for session_id in self.store.sessions() if sessions is None else sessions:
            log = self._log(session_id, named=sessions is not None)
            if log is None:
                continue
            if not hasattr(log, "commit_files"):  # a memory store
                events += log.replay(1)
                continue
            for path, _ in self._paths(session_id, log):
                if self._is_escaped(path):
                    events += decode(path)
                else:
                    files.append(path)
        return Listing(tuple(files), tuple(events))

    def forget(self) -> None:
        """Look at everything anew with the next listing."""
        self._logs.clear()
        self._escaped.clear()

    def _log(self, session_id: str, named: bool) -> Any:
        log = self._logs.get(session_id)
        if log is None:
            try:
                log = self._logs[session_id] = self.store.open(session_id)
            except UnknownName:
                if named:
                    raise
        return log

    def _paths(self, session_id: str, log: Any) -> list[tuple[str, int]]:
        try:
            found: list[tuple[str, int]] = log.commit_files()
            return found
        except LogCorrupt:
            if os.path.isdir(log.folder):
                raise
            self._logs.pop(session_id, None)  # the whole session was removed
            return []

    def _is_escaped(self, path: str) -> bool:
        found = self._escaped.get(path)
        if found is None:
            found = self._escaped[path] = b"agentlab.escaped" in footer(path)
        return found


def footer(path: str) -> bytes:
    """The footer of a log file, as bytes.

    Raises:
        FileNotFoundError: it is not there.
        LogCorrupt: it is no file of a session log, or cut short.
    """
    with open(path, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 16_384))
        tail = file.read(16_384)
        length = int.from_bytes(tail[-8:-4], "little")
        if tail[-4:] != b"PAR1" or length > size - 12:
            raise LogCorrupt(f"{path}: not a Parquet file, or cut short; move it away or restore it from a copy")
        if length + 8 > len(tail):
            file.seek(size - 8 - length)
            tail = file.read(length + 8)
    data = tail[-8 - length : -8]
    if b"agentlab.format" not in data:
        raise LogCorrupt(f"{path}: a Parquet file, but none of a session log; move it away")
    return data
