"""The rows of commits that no segment covers yet: read here, once each, and kept.

A running session lies in thousands of small files. DuckDB would open each of them for every question, and a file that
is sealed away between the listing and the opening would fail the whole question. Commits never change, so what was
read of them stays true until a segment takes their place.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from agentlab.errors import LogCorrupt
from agentlab.events import Event, readable
from agentlab.events.codec import decode
from agentlab.log.parquet import COMMITS
from agentlab.query.rows import arrow_rows

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 100
_CHUNKS = 16
Mark = tuple[str, int, int]
"""Session, first and last event of a stretch that a ``restored_to`` superseded."""


class Loose:
    """What is read so far of one session's loose commits; ``segments`` are the paths of its sealed files."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.identity = identity(log)
        self._forget(())

    def _forget(self, segments: tuple[str, ...]) -> None:
        self.segments = segments
        self.tables: list[pa.Table] = []
        self.marks: list[Mark] = []
        self._first = self._next = 0

    def look(self) -> None:
        """Read what has come since the last look.

        Raises:
            LogCorrupt: a commit that can not be read; the message names it.
        """
        for _ in range(_TRIES):
            files = self.log.commit_files()
            loose = [(path, start) for path, start in files if os.path.basename(os.path.dirname(path)) == COMMITS]
            segments = tuple(path for path, _ in files[: len(files) - len(loose)])
            if segments != self.segments or (loose[0][1] if loose else 0) != self._first:
                self._forget(segments)
            fresh: list[Event] = []
            try:
                for path, start in loose:
                    if start >= self._next:
                        fresh += decode(path)
            except FileNotFoundError:
                continue  # sealed since the listing: a segment has it
            if fresh:
                self._first, self._next = loose[0][1], fresh[-1].seq + 1
                self._keep(fresh)
            return
        raise LogCorrupt(f"{self.log.folder}: its files vanish as soon as they are listed")

    def _keep(self, fresh: list[Event]) -> None:
        import pyarrow as pa

        self.tables.append(arrow_rows(fresh))
        self.marks += marks_of(fresh)
        if len(self.tables) > _CHUNKS:
            self.tables = [pa.concat_tables(self.tables).combine_chunks()]


def marks_of(events: list[Event]) -> list[Mark]:
    """What the ``restored_to`` among ``events`` superseded."""
    return [
        (readable(event.session_id), int(event.payload["superseded_from"]), int(event.payload["superseded_to"]))
        for event in events
        if event.type == "restored_to"
    ]


def identity(log: Any) -> tuple[int, int] | None:
    """Tells a session's folder from one of the same name that took its place; None when it is gone."""
    try:
        stat = os.stat(log.folder)
        card = os.stat(os.path.join(log.folder, "session.json"))
    except OSError:
        return None
    return stat.st_ino, card.st_mtime_ns
