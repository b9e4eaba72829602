"""Large payloads and snapshot contents by the hash of what they hold."""

from __future__ import annotations

import hashlib
import os
import re

from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import LogCorrupt, OutcomeUnknown
from agentlab.log.files import BLOB_POINTS, DISK, Disk, discard, make_folders, publish, refused, sweep

_DIGEST = re.compile("[0-9a-f]{64}")


class BlobFolder:
    """``<root>/<first two digits>/<sha256>``: written once, verified at each read, shared by all sessions."""

    def __init__(self, root: str | os.PathLike[str], disk: Disk = DISK) -> None:
        self.root = os.path.abspath(os.fspath(root))
        self._disk = disk
        self._folders: set[str] = set()
        self._durable: set[str] = set()

    def path(self, digest: str) -> str:
        """Where the blob is.

        Raises:
            LogCorrupt: not a digest (it came from a log and would otherwise be a path of somebody's choice).
        """
        if not _DIGEST.fullmatch(digest):
            raise LogCorrupt(f"not a blob digest: {digest[:80]!r}")
        return os.path.join(self.root, digest[:2], digest)

    def put(self, data: bytes) -> str:
        """Store ``data`` durably and return its digest; storing it again refreshes its age.

        Raises:
            StorageFailed: the disk refused.
            OutcomeUnknown: it is there but may not survive; put it again.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        if self._refresh(path, len(data)):
            return digest
        folder = os.path.dirname(path)
        try:
            self._ready(folder)
            if os.path.exists(path):  # shorter than its content: a torn one, which nobody can have acknowledged
                self._disk.unlink(path)
            discard(self._disk, publish(self._disk, path, data, BLOB_POINTS, durable=True, detail=digest))
        except FileExistsError:
            if not self._refresh(path, len(data)):
                raise OutcomeUnknown(f"blob {digest}: somebody else is writing it; put it again") from None
        except OSError as error:
            raise refused(path, error) from error
        self._durable.add(digest)
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes of ``digest``, verified.

        Raises:
            LogCorrupt: missing, unreadable, or the content does not match.
        """
        path = self.path(digest)
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.readall()
        except OSError as error:
            raise LogCorrupt(f"blob {digest} can not be read: {error.strerror} ({path})") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise LogCorrupt(f"blob {digest}: its content does not match its name ({path})")
        return data

    def has(self, digest: str) -> bool:
        """Whether a blob of that name is there (its content is verified by :meth:`get`)."""
        return bool(_DIGEST.fullmatch(digest)) and os.path.exists(self.path(digest))

    def _refresh(self, path: str, size: int) -> bool:
        # Age is what protects a blob from garbage collection until the commit that refers to it lands. The name may
        # be another writer's whose folder is not synced yet, so we sync it before we promise, once per process.
        try:
            fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            return False
        try:
            if os.fstat(fd).st_size != size:
                return False
            os.utime(path)
            if os.path.basename(path) not in self._durable:
                folder = os.path.dirname(path)
                self._ready(folder)
                reach(CrashPoint.BLOB_DIRSYNC, "before", os.path.basename(path))
                self._disk.fsync_folder(folder)
                reach(CrashPoint.BLOB_DIRSYNC, "after", os.path.basename(path))
                self._durable.add(os.path.basename(path))
        except OSError as error:
            raise refused(path, error) from error
        finally:
            os.close(fd)
        return True

    def _ready(self, folder: str) -> None:
        if folder not in self._folders:
            reach(CrashPoint.BLOB_DIRSYNC, "before", folder)
            make_folders(self._disk, folder)
            for above in (os.path.dirname(self.root), self.root):  # what is there may be another's, not synced yet
                self._disk.fsync_folder(above)
            reach(CrashPoint.BLOB_DIRSYNC, "after", folder)
            self._folders.add(folder)

    def sweep(self) -> int:
        """Remove temporary files of writers that are gone; returns how many."""
        try:
            folders = [entry.path for entry in os.scandir(self.root) if entry.is_dir()]
        except OSError:
            return 0
        return sum(sweep(folder) for folder in folders)
