"""The folder of plain commits: one file for each append, named by the seq of its first event."""

from __future__ import annotations

import errno
import os

from agentlab.errors import LogCorrupt, StorageFailed
from agentlab.events import Event
from agentlab.events.codec import decode
from agentlab.log.paths import file_name, start_of


class CommitFolder:
    """Reads commits; what is there changes under it, because other processes append and seal."""

    def __init__(self, folder: str, session_id: str) -> None:
        self.folder, self.session_id = folder, session_id

    def path(self, start: int) -> str:
        """Where the commit that begins at ``start`` is or would be."""
        return os.path.join(self.folder, file_name(start))

    def starts(self) -> list[int]:
        """The seqs at which commits begin, ascending. This lists the folder: not for the write path."""
        return starts(self.folder)

    def load(self, start: int, previous: str | None = None) -> list[Event] | None:
        """The events of the commit that begins at ``start``; None when there is none (no listing, one open).

        Raises:
            LogCorrupt, SchemaTooNew, StorageFailed: as :func:`read_events` does.
        """
        path = self.path(start)
        try:
            events = read_events(path, self.session_id, previous=previous)
        except FileNotFoundError:
            return None
        if events[0].seq != start:
            raise LogCorrupt(f"{path}: begins with event {events[0].seq}, its name says {start}")
        return events


def starts(folder: str) -> list[int]:
    """The seqs at which the files of ``folder`` begin, ascending; temporary files are passed over."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        raise LogCorrupt(f"{folder}: the folder is gone") from None
    return sorted(start for name in names if (start := start_of(name)) is not None)


def read_events(path: str, session_id: str, *, from_seq: int = 1, previous: str | None = None) -> list[Event]:
    """The verified events of a log file of ``session_id``.

    Raises:
        FileNotFoundError: it is not (or no longer) there.
        LogCorrupt: it does not verify, can not be read, or belongs to another session.
        SchemaTooNew: written by a newer agentlab.
        StorageFailed: this process can not open it (too many open files, no permission).
    """
    try:
        events = decode(path, from_seq=from_seq, previous=previous)
    except FileNotFoundError:
        raise
    except (PermissionError, BlockingIOError) as error:
        raise StorageFailed(f"{path}: can not be opened ({error.strerror})") from error
    except OSError as error:
        # Out of descriptors or memory says nothing about the file.
        ours = error.errno in (errno.ENFILE, errno.EMFILE, errno.ENOMEM)
        kind = StorageFailed if ours else LogCorrupt
        raise kind(f"{path}: can not be read ({error.strerror})") from error
    if events and events[0].session_id != session_id:
        raise LogCorrupt(f"{path}: holds events of session {events[0].session_id!r}, not of {session_id!r}")
    return events
