"""A lab's sessions on disk.

A session is a folder that appears whole: it is built under a temporary name and renamed, which fails when the
session exists, so nobody ever sees half of one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, get_args

from agentlab.clock import Clock
from agentlab.errors import BadLab, BadSessionId, LogCorrupt, SchemaTooNew, StorageFailed, UnknownName, UserError
from agentlab.events import GENESIS, Head
from agentlab.log.batch import known_durability
from agentlab.log.blobs import BlobFolder
from agentlab.log.files import DISK, TMP, Disk, make_folders, refused, sweep, sync_folder
from agentlab.log.forked import ForkedLog, lineage
from agentlab.log.parquet import CHECKPOINTS, COMMITS, SEGMENTS, ParquetLog
from agentlab.log.paths import folder_name, session_id_of
from agentlab.ports import Durability, Parent

_FORMAT = 2
_FORMAT_OF_PLAIN = 1
"""Sessions that are no forks are readable for those who know no forks."""
_CARD = "session.json"
_LAB_REFUSES = {
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EEXIST: "it is a file",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
}


class ParquetStore:
    """All sessions of the lab at ``lab``; implements :class:`agentlab.ports.LogStore`. Creates nothing by itself.

    ``folder`` is where the logs are: what is no session (a pool) has another one.

    Raises:
        BadLab: ``lab`` is a file.
    """

    def __init__(
        self,
        lab: str | os.PathLike[str],
        *,
        disk: Disk = DISK,
        clock: Clock | None = None,
        folder: str = "sessions",
    ) -> None:
        self.lab = os.path.abspath(os.fspath(lab))
        if os.path.exists(self.lab) and not os.path.isdir(self.lab):
            raise BadLab(f"{self.lab} is a file; a lab is a folder: choose another path")
        self._disk, self._clock = disk, clock
        self._sessions = os.path.join(self.lab, folder)
        self._blobs = BlobFolder(os.path.join(self.lab, "blobs"), disk)

    @property
    def blobs(self) -> BlobFolder:
        return self._blobs

    def put_blob(self, data: bytes) -> str:
        """Store ``data`` as a blob; where the lab as a whole can not take it, the error says so.

        Raises:
            BadLab: read-only, full, or no folder.
            StorageFailed, OutcomeUnknown: as :meth:`BlobFolder.put`.
        """
        try:
            return self._blobs.put(data)
        except StorageFailed as error:
            reason = _LAB_REFUSES.get(getattr(error.__cause__, "errno", None) or 0)
            if reason is None:
                raise
            raise BadLab(f"{self.lab} can not take a session: {reason}") from error

    def folder(self, session_id: str) -> str:
        """Where a session is or would be.

        Raises:
            BadSessionId: the id can not be a folder name.
        """
        return os.path.join(self._sessions, folder_name(session_id))

    def create(
        self, session_id: str, durability: Durability = "disk", parent: Parent | None = None
    ) -> ParquetLog | ForkedLog:
        """A log for a new session; see :meth:`agentlab.ports.LogStore.create`."""
        known_durability(durability)
        final = self.folder(session_id)
        if os.path.lexists(final):
            raise _exists(session_id)
        try:
            make_folders(self._disk, self._sessions)
            sweep(self._sessions, remove=_remove_folder)
            self._build(final, session_id, durability, parent)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and os.path.isdir(final):
                raise _exists(session_id) from None
            reason = _LAB_REFUSES.get(error.errno or 0)
            if reason is None:
                raise refused(final, error) from error
            raise BadLab(f"{self.lab} can not take a session: {reason}") from error
        if durability != "process":
            for folder in (self.lab, self._sessions):  # the latter may be another's and not synced yet
                sync_folder(self._disk, folder)
        return self.open(session_id) if parent is not None else self._log(session_id, final, durability)

    def open(self, session_id: str) -> ParquetLog | ForkedLog:
        """The log of an existing session; see :meth:`agentlab.ports.LogStore.open`.

        Raises:
            LogCorrupt: its ``session.json`` can not be read.
            SchemaTooNew: a newer agentlab made it.
        """
        log, parent = self._own(session_id)
        return log if parent is None else ForkedLog(log, lineage(log.base, parent, self._own), self._clock)

    def _own(self, session_id: str) -> tuple[ParquetLog, str | None]:
        """The log of a session's own rows, and the id of the session that it was forked from."""
        try:
            folder = self.folder(session_id)
        except BadSessionId:
            raise UnknownName("session", str(session_id), self.sessions()) from None
        try:
            with open(os.path.join(folder, _CARD), "rb") as file:
                card: dict[str, Any] = json.loads(file.read())
            if card["format"] > _FORMAT:
                raise SchemaTooNew(f"{folder}: made by a newer agentlab (format {card['format']}): install that one")
            if card["session_id"] != session_id or card["durability"] not in get_args(Durability):
                raise LogCorrupt(f"{folder}: {_CARD} belongs to session {card['session_id']!r}")
            parent = Parent(**card["parent"]) if "parent" in card else None
        except (FileNotFoundError, NotADirectoryError):
            raise UnknownName("session", session_id, self.sessions()) from None
        except OSError as error:
            raise StorageFailed(f"{folder}: {_CARD} can not be opened ({error.strerror})") from error
        except (ValueError, KeyError, TypeError) as error:
            raise LogCorrupt(f"{folder}: {_CARD} can not be read ({error})") from None
        log = self._log(session_id, folder, card["durability"], parent)
        return log, None if parent is None else parent.session

    def sessions(self) -> Sequence[str]:
        """Ids of all sessions, sorted; none when there is no lab yet."""
        try:
            names = os.listdir(self._sessions)
        except OSError:
            return ()
        return sorted(session_id for name in names if (session_id := session_id_of(name)) is not None)

    def _log(self, session_id: str, folder: str, durability: Durability, parent: Parent | None = None) -> ParquetLog:
        base = Head(0, GENESIS) if parent is None else Head(parent.seq, parent.hash)
        return ParquetLog(folder, session_id, durability, disk=self._disk, clock=self._clock, base=base)

    def _build(self, final: str, session_id: str, durability: Durability, parent: Parent | None) -> None:
        disk, durable = self._disk, durability != "process"
        draft = os.path.join(self._sessions, f"new-{os.urandom(8).hex()}{TMP}")
        try:
            disk.mkdir(draft)
            for name in (COMMITS, SEGMENTS, CHECKPOINTS):
                disk.mkdir(os.path.join(draft, name))
            card: dict[str, Any] = {"format": _FORMAT_OF_PLAIN, "session_id": session_id, "durability": durability}
            if parent is not None:
                card.update(format=_FORMAT, parent=asdict(parent))
            fd = disk.create(os.path.join(draft, _CARD))
            try:
                disk.write(fd, json.dumps(card).encode())
                if durable:
                    disk.fsync(fd)
            finally:
                disk.close(fd)
            if durable:
                disk.fsync_folder(draft)
            disk.rename_folder(draft, final)
        except OSError:
            with contextlib.suppress(OSError):
                _remove_folder(draft)
            raise


def _remove_folder(path: str) -> None:
    import shutil  # imports every compression module; no start needs it

    shutil.rmtree(path)


def _exists(session_id: str) -> UserError:
    return UserError(f"session {session_id!r} exists already: open it, or choose another id")
