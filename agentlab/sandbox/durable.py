"""Bytes that survive a power loss, and the blobs folder as the sandbox process uses it. Standard library only.

The layout is the lab's: ``<blobs>/<first two digits>/<64 digits of SHA-256>``. A blob is written to a ``*.tmp`` beside
its target, fsynced, linked to its final name (a name that is taken holds the same bytes), and its folder is fsynced
before anybody hears of it. After a failed fsync the file is given up, never fsynced again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys

PIECE = 1 << 20
_MANY = 8  # from this many new files on, one syncfs is cheaper than an fsync for each (4 ms apiece, measured)


def sync_fd(fd: int) -> None:
    """fsync; on macOS the stronger F_FULLFSYNC, where fsync leaves bytes in the drive's cache."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
    os.fsync(fd)


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_fd(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write everything, however short the single writes are."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_durably(path: str, data: bytes) -> None:
    """Replace ``path`` by ``data``: temporary file, fsync, rename, fsync of the folder.

    Raises:
        OSError: nothing is to be found under ``path`` that was not there before.
    """
    tmp = f"{path}.{os.urandom(4).hex()}.tmp"
    fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            write_all(fd, data)
            sync_fd(fd)
        finally:
            os.close(fd)
        os.rename(tmp, path)
    except OSError:
        _forget(tmp)
        raise
    sync_folder(os.path.dirname(path))


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _syncfs(folder: str) -> bool:
    """Flush the whole file system of ``folder``; False where that is not to be had (only Linux has it)."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return False
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if call(fd) != 0:
            code = ctypes.get_errno()
            if code == errno.ENOSYS:
                return False
            raise OSError(code, os.strerror(code), folder)
    finally:
        os.close(fd)
    return True


class BlobFolder:
    """The blobs of a lab, read and written without any of agentlab's code."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.durable: set[str] = set()

    def path(self, digest: str) -> str:
        """Where ``digest`` lies.

        Raises:
            ValueError: no digest (a path could hide in it).
        """
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ValueError(f"not a digest: {digest[:80]!r}")
        return os.path.join(self.root, digest[:2], digest)

    def refresh(self, digest: str, size: int) -> bool:
        """Make a blob young, lest a collection takes it before the log names it; False when not there whole."""
        path = self.path(digest)
        try:
            if os.stat(path).st_size != size:
                return False
            os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def read(self, digest: str) -> bytes:
        """A blob's bytes, verified.

        Raises:
            FileNotFoundError: not there.
            ValueError: damaged.
        """
        with open(self.path(digest), "rb") as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"blob {digest} is damaged")
        return data

    def copy_to(self, digest: str, target: str, mode: int) -> None:
        """Copy a blob over ``target`` by way of a temporary file beside it; nothing damaged ever gets that name.

        Raises:
            FileNotFoundError: not there.
            ValueError: damaged.
        """
        tmp = os.path.join(os.path.dirname(target), f".{os.urandom(6).hex()}.tmp")
        seen = hashlib.sha256()
        with open(self.path(digest), "rb") as source:
            fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                try:
                    while piece := source.read(PIECE):
                        seen.update(piece)
                        write_all(fd, piece)
                    os.fchmod(fd, mode)
                finally:
                    os.close(fd)
                if seen.hexdigest() != digest:
                    raise ValueError(f"blob {digest} is damaged")
                os.rename(tmp, target)
            except BaseException:
                _forget(tmp)
                raise


class Batch:
    """Blobs that become durable together: each is on the disk before any of them has its name."""

    def __init__(self, blobs: BlobFolder) -> None:
        self._blobs = blobs
        self._staged: dict[str, tuple[str, int]] = {}
        self._found: set[str] = set()

    def reuse(self, digest: str, size: int) -> bool:
        """Count on a blob of ``size`` bytes that lies there already; False when it does not, or not whole."""
        if digest in self._staged:
            return True
        if not self._blobs.refresh(digest, size):
            return False
        # Whoever linked it may have died before the name was durable: seeing it is no proof.
        if digest not in self._blobs.durable:
            self._found.add(digest)
        return True

    def add(self, digest: str, data: bytes) -> None:
        """Stage bytes whose digest is known."""
        if self.reuse(digest, len(data)):
            return
        fd = self._temporary(digest, len(data))
        try:
            write_all(fd, data)
        finally:
            os.close(fd)

    def add_file(self, digest: str, source: int, size: int) -> None:
        """Stage an open file of ``size`` bytes that hashes to ``digest``, in pieces.

        Raises:
            ValueError: it changed since it was hashed.
        """
        if self.reuse(digest, size):
            return
        seen = hashlib.sha256()
        fd = self._temporary(digest, size)
        try:
            while piece := os.read(source, PIECE):
                seen.update(piece)
                write_all(fd, piece)
        finally:
            os.close(fd)
        if seen.hexdigest() != digest:
            raise ValueError("a file changed while it was packed")

    def _temporary(self, digest: str, size: int) -> int:
        final = self._blobs.path(digest)
        os.makedirs(os.path.dirname(final), exist_ok=True)
        tmp = f"{final}.{os.urandom(4).hex()}.tmp"
        self._staged[digest] = tmp, size
        return os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def commit(self) -> int:
        """Make all durable and visible; returns the bytes that were not there before."""
        if not self._staged and not self._found:
            return 0
        self._sync([tmp for tmp, _ in self._staged.values()] + [self._blobs.path(digest) for digest in self._found])
        written = sum(size for digest, (tmp, size) in self._staged.items() if self._link(digest, tmp, size))
        folders = {os.path.dirname(self._blobs.path(digest)) for digest in (*self._staged, *self._found)}
        if len(folders) < _MANY or not _syncfs(self._blobs.root):
            for folder in (*folders, self._blobs.root):
                sync_folder(folder)
        self._blobs.durable.update(self._staged, self._found)
        self.discard()
        return written

    def _sync(self, paths: list[str]) -> None:
        if len(paths) >= _MANY and _syncfs(self._blobs.root):
            return
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            try:
                sync_fd(fd)
            finally:
                os.close(fd)

    def _link(self, digest: str, tmp: str, size: int) -> bool:
        """Give a staged blob its name; False when somebody else was first with the same bytes."""
        final = self._blobs.path(digest)
        try:
            os.link(tmp, final)
        except FileExistsError:
            if self._blobs.refresh(digest, size):
                return False
            # Torn by a power loss, so nobody was ever told of it; ours is whole.
            os.rename(tmp, final)
        return True

    def discard(self) -> None:
        """Remove the temporary files."""
        for tmp, _ in self._staged.values():
            _forget(tmp)
        self._staged.clear()
        self._found.clear()
