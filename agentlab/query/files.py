"""Which files hold a lab's events now, each event in exactly one of them.

DuckDB gets a list of segments, never a pattern: a pattern would match temporary and foreign files. Commits that are
in no segment yet are read by :mod:`agentlab.query.loose`. A segment's footer is looked at once, so that junk is named
before it spoils a whole query.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentlab.errors import LogCorrupt, UnknownName
from agentlab.events import readable
from agentlab.events.codec import decode
from agentlab.ports import LogStore
from agentlab.query.loose import Loose, Mark, identity, marks_of
from agentlab.query.rows import arrow_rows

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Listing:
    """``files`` that DuckDB reads itself, ``tables`` of rows that were read for it, ``marks`` found in those."""

    files: tuple[str, ...]
    tables: tuple[pa.Table, ...]
    marks: tuple[Mark, ...]
    generation: int
    """Another number when a session was removed and begun anew: what was known of its paths is no longer true."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Sessions that are left out because a file of theirs can not be read, and why."""


@dataclass(frozen=True, slots=True)
class _Part:
    files: tuple[str, ...]
    tables: tuple[pa.Table, ...]
    marks: tuple[Mark, ...]


@dataclass
class Lister:
    """Lists a store's files; remembers open logs and what it has read (files of a log never change)."""

    store: LogStore
    _loose: dict[str, Loose] = field(default_factory=dict)
    _escaped: dict[str, bool] = field(default_factory=dict)
    _generation: int = 0
    _unreadable: dict[str, tuple[str, tuple[int, int, int], str]] = field(default_factory=dict)

    def listing(self, sessions: Sequence[str] | None) -> Listing:
        """The files of ``sessions``, of all with None. What is damaged is left out, unless nothing else is left.

        Raises:
            FileNotFoundError: a segment was removed meanwhile; ask again.
            LogCorrupt: a file that is none of a log, and no session can be read; the message names it.
            UnknownName: a session that was named and is not there.
        """
        parts: list[_Part] = []
        damaged: dict[str, str] = {}
        first: LogCorrupt | None = None
        for session_id in self.store.sessions() if sessions is None else sessions:
            try:
                self._refuse_unreadable(session_id)
                part = self._part(session_id, named=sessions is not None)
            except LogCorrupt as error:
                damaged[readable(session_id)] = str(error)
                first = first or error
                continue
            if part is not None:
                parts.append(part)
        if first is not None and not parts:
            raise first
        return Listing(
            tuple(path for part in parts for path in part.files),
            tuple(table for part in parts for table in part.tables),
            tuple(mark for part in parts for mark in part.marks),
            self._generation,
            damaged,
        )

    def leave_out(self, path: str, reason: str) -> bool:
        """Leave the session of ``path`` out of the listings as long as that file stays as it is; False: it has none."""
        for session_id, known in self._loose.items():
            if path in known.segments:
                self._unreadable[session_id] = path, _stamp(path), reason
                return True
        return False

    def _refuse_unreadable(self, session_id: str) -> None:
        if session_id in self._unreadable:
            path, stamp, reason = self._unreadable[session_id]
            if _stamp(path) == stamp:
                raise LogCorrupt(reason)
            del self._unreadable[session_id]  # restored from a copy, or gone

    def _part(self, session_id: str, named: bool) -> _Part | None:
        """What one session adds to a listing; None when it is gone."""
        found = self._look(session_id, named)
        if found is None:
            return None
        if not isinstance(found, Loose):  # a memory store
            events = list(found.replay(1))
            return _Part((), (arrow_rows(events),), tuple(marks_of(events)))
        files: list[str] = []
        tables, marks = list(found.tables), list(found.marks)
        for path in found.segments:
            if self._is_escaped(path):
                events = decode(path)
                tables.append(arrow_rows(events))
                marks += marks_of(events)
            else:
                files.append(path)
        return _Part(tuple(files), tuple(tables), tuple(marks))

    def forget(self) -> None:
        """Look at everything anew with the next listing."""
        self._loose.clear()
        self._escaped.clear()

    def _look(self, session_id: str, named: bool) -> Any:
        """The session's files, looked at now; its log where it has none; None when it is gone."""
        known = self._loose.get(session_id)
        if known is not None and identity(known.log) != known.identity:
            del self._loose[session_id]  # removed, perhaps begun anew
            self._escaped.clear()
            self._generation += 1
            known = None
        try:
            if known is None:
                log: Any = self.store.open(session_id)
                log = getattr(log, "own", log)  # of a fork what is its own: each event is a row of one session
                if not hasattr(log, "commit_files"):
                    return log
                known = self._loose[session_id] = Loose(log)
            known.look()
        except UnknownName:
            if named:
                raise
            return None
        except LogCorrupt:
            self._loose.pop(session_id, None)
            if known is None or os.path.isdir(known.log.folder):
                raise
            return None
        return known

    def _is_escaped(self, path: str) -> bool:
        found = self._escaped.get(path)
        if found is None:
            found = self._escaped[path] = b"agentlab.escaped" in footer(path)
        return found


def _stamp(path: str) -> tuple[int, int, int]:
    """Tells a file from what took its place; zeros when there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return 0, 0, 0
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


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
