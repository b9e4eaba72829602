"""The durable primitives of the store: every system call that decides what survives, in one place.

:func:`publish` makes a file appear under its final name whole or not at all, and only if nobody took the name:
write ``*.tmp`` beside it, fsync, ``link`` (which fails where ``rename`` would overwrite silently), fsync the
folder, remove the ``*.tmp``. :class:`Disk` holds the calls themselves, so that a test can record or break them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import OutcomeUnknown, StorageFailed

TMP = ".tmp"
STALE_S = 3600.0
"""Seconds after which a ``*.tmp`` belongs to a writer that is gone."""


class Points(NamedTuple):
    """The crash points of one kind of file; None where there is none."""

    write: CrashPoint
    fsync: CrashPoint | None
    link: CrashPoint | None
    dirsync: CrashPoint | None
    unlink: CrashPoint | None


COMMIT_POINTS = Points(
    CrashPoint.LOG_WRITE, CrashPoint.LOG_FSYNC, CrashPoint.LOG_LINK, CrashPoint.LOG_DIRSYNC, CrashPoint.LOG_UNLINK
)
SEGMENT_POINTS = Points(
    CrashPoint.SEGMENT_WRITE, CrashPoint.SEGMENT_FSYNC, CrashPoint.SEGMENT_LINK, CrashPoint.SEGMENT_DIRSYNC,
    CrashPoint.SEGMENT_UNLINK,
)  # fmt: skip
BLOB_POINTS = Points(CrashPoint.BLOB_WRITE, CrashPoint.BLOB_FSYNC, CrashPoint.BLOB_LINK, CrashPoint.BLOB_DIRSYNC, None)
POINTER_POINTS = Points(CrashPoint.POINTER_WRITE, None, None, None, None)


class Disk:
    """The system calls of the store. Every method raises ``OSError`` as the system does."""

    def create(self, path: str) -> int:
        """Open a new file for writing; its descriptor is not inherited by children."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)

    def write(self, fd: int, data: bytes) -> None:
        """Write all of ``data``."""
        done = os.write(fd, data)
        while done < len(data):
            done += os.write(fd, memoryview(data)[done:])

    def fsync(self, fd: int) -> None:
        """Make a file's bytes survive power loss."""
        if sys.platform == "darwin":  # plain fsync leaves the bytes in the drive's own cache there
            import fcntl

            try:
                fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EINVAL):  # a volume that knows only the plain one
                    raise
                os.fsync(fd)
        else:
            os.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def link(self, source: str, target: str) -> None:
        """Give ``source`` the second name ``target``; ``FileExistsError`` when that is taken."""
        os.link(source, target)

    def replace(self, source: str, target: str) -> None:
        """Rename over whatever has the name ``target``."""
        os.replace(source, target)

    def rename_folder(self, source: str, target: str) -> None:
        """Rename a folder; fails when ``target`` is a folder with anything in it."""
        os.rename(source, target)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def fsync_folder(self, path: str) -> None:
        """Make the names in a folder survive power loss."""
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            self.fsync(fd)
        finally:
            os.close(fd)


DISK = Disk()


def temporary(path: str) -> str:
    """A name beside ``path`` that nobody else uses and that no ``*.parquet`` pattern matches."""
    return f"{path}.{os.urandom(8).hex()}{TMP}"


def publish(disk: Disk, path: str, data: bytes, points: Points, *, durable: bool, detail: str = "") -> str:
    """Make ``data`` appear at ``path`` if the name is free; return the temporary name, still there to be removed.

    The caller acknowledges first and calls :func:`discard` then: an unlink is no part of what was promised.

    Raises:
        FileExistsError: the name is taken; nothing was written.
        StorageFailed: the disk refused; nothing is at ``path`` and the temporary file is gone.
        OutcomeUnknown: the name may exist, whether it survives is not known.
    """
    tmp = write_beside(disk, path, data, points, durable=durable, detail=detail)
    _reach(points.link, "before", detail)
    try:
        disk.link(tmp, path)
    except FileExistsError:
        discard(disk, tmp)
        raise
    except OSError as error:
        discard(disk, tmp)
        if error.errno == errno.EIO:
            raise OutcomeUnknown(f"{path}: linking failed ({error.strerror}); the name may exist") from error
        raise refused(path, error) from error
    _reach(points.link, "after", detail)
    if durable:
        sync_folder(disk, os.path.dirname(path), points.dirsync, detail)
    return tmp


def write_beside(disk: Disk, path: str, data: bytes, points: Points, *, durable: bool, detail: str = "") -> str:
    """Write ``data`` to a temporary file beside ``path`` and return its name.

    Raises:
        StorageFailed: the disk refused; the temporary file is gone. A failed fsync is never tried again: the
            kernel may have dropped the pages, and the second call would lie.
    """
    tmp = temporary(path)
    try:
        _reach(points.write, "before", detail)
        fd = disk.create(tmp)
        try:
            disk.write(fd, data)
            _reach(points.write, "after", detail)
            if durable:
                _reach(points.fsync, "before", detail)
                disk.fsync(fd)
                _reach(points.fsync, "after", detail)
        finally:
            disk.close(fd)
    except OSError as error:
        discard(disk, tmp)
        raise refused(path, error) from error
    return tmp


def sync_folder(disk: Disk, folder: str, point: CrashPoint | None = None, detail: str = "") -> None:
    """Make a name that was just given in ``folder`` survive power loss.

    Raises:
        OutcomeUnknown: it failed; the name is there but may not survive.
    """
    _reach(point, "before", detail)
    try:
        disk.fsync_folder(folder)
    except OSError as error:
        raise OutcomeUnknown(f"{folder}: fsync failed ({error.strerror}); read again, then decide") from error
    _reach(point, "after", detail)


def discard(disk: Disk, path: str) -> None:
    """Remove a file that no longer matters; failing to is harmless."""
    with contextlib.suppress(OSError):
        disk.unlink(path)


def refused(path: str, error: OSError) -> StorageFailed:
    """What a failed system call means to somebody who wanted ``path`` written."""
    hint = {
        errno.ENOSPC: "the disk is full: free some space and append again",
        errno.EDQUOT: "the disk quota is used up: free some space and append again",
        errno.EFBIG: "the file is larger than this process may write: raise the limit (ulimit -f)",
        errno.EROFS: "the file system is read-only",
        errno.EMFILE: "this process has too many open files: close some or raise the limit (ulimit -n)",
        errno.EPERM: "not permitted; a file system without hard links can not hold a lab",
        errno.EOPNOTSUPP: "the file system has no hard links and can not hold a lab",
        errno.ENOENT: "its folder is gone",
    }.get(error.errno or 0, "the disk reported an error; nothing was acknowledged")
    return StorageFailed(f"{path}: {error.strerror or error}: {hint}")


def make_folders(disk: Disk, path: str) -> None:
    """Create ``path`` and whatever above it is missing, each name durable. Raises ``OSError`` as the system does."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    make_folders(disk, parent)
    with contextlib.suppress(FileExistsError):  # somebody else may be at it; both sync
        disk.mkdir(path)
    disk.fsync_folder(parent)


def sweep(folder: str, now_s: float | None = None, remove: Callable[[str], None] = os.unlink) -> int:
    """Remove temporary files of writers that are gone (older than :data:`STALE_S`); returns how many."""
    limit = (time.time() if now_s is None else now_s) - STALE_S
    count = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(TMP):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < limit:
                        remove(entry.path)
                        count += 1
    return count


def _reach(point: CrashPoint | None, when: str, detail: str) -> None:
    if point is not None:
        reach(point, "before" if when == "before" else "after", detail)
