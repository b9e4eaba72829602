"""The folders of one sandbox and what is done to them, apart from running commands. Standard library only."""

from __future__ import annotations

import binascii
import os
import stat

from agentlab.sandbox import snapshot, trees
from agentlab.sandbox.durable import BlobFolder, write_all
from agentlab.sandbox.results import name_of

READ_LIMIT = 32 << 20
"""Bytes that :meth:`Workplace.read_file` hands over at most."""


class Refused(Exception):
    """A request that is not granted; ``kind`` says why in one word."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Workplace:
    """``workspace/`` (the agent's), ``scratch/`` (one folder for each execution) and the blobs they are filled from."""

    def __init__(self, home: str, blobs: str) -> None:
        self.root = os.path.join(home, "workspace")
        self._scratch = os.path.join(home, "scratch")
        self._blobs = BlobFolder(blobs)
        self._cache: snapshot.Cache = {}
        self._held: dict[str, snapshot.Key] | None = None
        self.damaged = False

    def check(self) -> None:
        """Refuse to go on in a workspace that a restore left half done; bring back one that was deleted."""
        if self.damaged:
            raise Refused("damaged", "a restore failed half way: restore again or provision another sandbox")
        if os.path.islink(self.root) or (os.path.lexists(self.root) and not os.path.isdir(self.root)):
            raise Refused("damaged", "the workspace was replaced by something that is no folder")
        os.makedirs(self.root, exist_ok=True)

    def cwd(self, path: str) -> str:
        """The real folder in which a command starts."""
        self.check()
        try:
            return trees.inside(self.root, path)
        except trees.Escape as error:
            raise Refused("path", str(error)) from error

    def scratch(self, exec_id: str) -> str:
        """A fresh folder outside of the workspace that only this execution uses."""
        path = os.path.join(self._scratch, name_of(exec_id))
        trees.remove(path)
        os.makedirs(path)
        return path

    def drop_scratch(self, exec_id: str) -> None:
        """Remove an execution's folder; a leftover is no harm, the sandbox's folder goes as a whole."""
        try:
            trees.remove(os.path.join(self._scratch, name_of(exec_id)))
        except OSError:
            pass

    def put_files(self, files: dict[str, str], scratch: str | None = None) -> None:
        """Place blobs. ``@name`` goes to ``scratch``. All paths and blobs are checked before the first is written."""
        self.check()
        try:
            targets = [(self._target(path, scratch), digest) for path, digest in files.items()]
            for _, digest in targets:
                os.stat(self._blobs.path(digest))
            for target, digest in targets:
                self._blobs.copy_to(digest, target, _mode(target))
        except trees.Escape as error:
            raise Refused("path", str(error)) from error
        except FileNotFoundError as error:
            raise Refused("blob", f"a blob is not in the lab: {error.filename}") from error
        except ValueError as error:
            raise Refused("blob", str(error)) from error

    def _target(self, path: str, scratch: str | None) -> str:
        if path.startswith("@"):
            if scratch is None:
                raise trees.Escape(f"path {path!r} belongs to an execution")
            return trees.place(scratch, path[1:])
        return trees.place(self.root, path)

    def read_file(self, path: str) -> str:
        """A file's bytes in base64."""
        self.check()
        try:
            fd = trees.open_inside(self.root, path)
        except trees.Escape as error:
            raise Refused("path", str(error)) from error
        except FileNotFoundError as error:
            raise Refused("missing", f"no file {path!r} in the workspace") from error
        except OSError as error:
            raise Refused("path", f"{path!r}: {error.strerror}") from error
        with os.fdopen(fd, "rb") as file:
            data = file.read(READ_LIMIT + 1)
        if len(data) > READ_LIMIT:
            raise Refused("size", f"{path!r} has more than {READ_LIMIT} bytes: take it with a command, or a snapshot")
        return binascii.b2a_base64(data, newline=False).decode("ascii")

    def stdin(self, scratch: str, text: str) -> int:
        """A descriptor from which a command reads ``text``: an unlinked file, so nobody has to feed a pipe."""
        if not text:
            return os.open(os.devnull, os.O_RDONLY)
        path = os.path.join(scratch, ".stdin")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
        write_all(fd, text.encode("utf-8", "surrogatepass"))
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def changed_bytes(self) -> int:
        """Bytes of files that are not as the newest snapshot holds them; what can not be looked into does not count."""
        try:
            if self._held is None:
                self._held = {path: known[0] for path, known in self._cache.items()}
            return snapshot.changed_bytes(self.root, self._held)
        except OSError:
            return 0

    def snapshot(self) -> snapshot.Taken:
        """Pack the workspace; the caller sees to it that nothing runs."""
        self.check()
        try:
            taken = snapshot.take(self.root, self._blobs, self._cache)
        except ValueError as error:
            raise Refused("changed", str(error)) from error
        self._note_held()
        return taken

    def _note_held(self) -> None:
        """Remember what the newest snapshot holds, once somebody has asked; the cache leaves out what is too fresh."""
        if self._held is not None:
            self._held = snapshot.held(self.root)

    def restore(self, digest: str) -> None:
        """Make the workspace equal to a snapshot; after a failure on the way it is *damaged* until one succeeds."""
        if os.path.islink(self.root) or not os.path.isdir(self.root):
            trees.remove(self.root)
        before = self.damaged
        self.damaged = True
        try:
            snapshot.restore(self.root, digest, self._blobs, self._cache)
        except FileNotFoundError as error:
            # Nothing was touched: blobs are looked for first.
            self.damaged = before
            raise Refused("blob", f"a blob of snapshot {digest} is not in the lab: {error.filename}") from error
        except ValueError as error:
            raise Refused("blob", f"snapshot {digest}: {error}") from error
        self.damaged = False
        self._note_held()


def _mode(target: str) -> int:
    """The mode a placed file gets: that of the file it replaces, else readable by all."""
    try:
        about = os.lstat(target)
    except FileNotFoundError:
        return 0o644
    return about.st_mode & 0o777 if stat.S_ISREG(about.st_mode) else 0o644
