"""Folders that resist being removed, and paths that may not leave a workspace. Standard library only."""

from __future__ import annotations

import os
import stat
import subprocess


class Escape(ValueError):
    """A path that leaves the workspace, or could."""


def make_writable(root: str, changed: list[tuple[str, int]]) -> None:
    """Give the owner all rights on every folder below ``root``; what was changed is noted as (path, old mode)."""
    stack = [root]
    while stack:
        folder = stack.pop()
        mode = stat.S_IMODE(os.lstat(folder).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(folder, mode | 0o700)
            changed.append((folder, mode))
        with os.scandir(folder) as found:
            stack.extend(item.path for item in found if item.is_dir(follow_symlinks=False))


def remove(path: str) -> None:
    """Delete a file, a link or a whole folder; nothing is followed, and what is gone already is no error.

    Raises:
        OSError: something could not be deleted.
    """
    import shutil

    try:
        about = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(about.st_mode):
        os.unlink(path)
        return

    try:
        try:
            shutil.rmtree(path)
        except PermissionError:
            make_writable(path, [])
            shutil.rmtree(path)
    except FileNotFoundError:
        remove(path)  # somebody else deletes in the same tree; what is left is ours to delete
    except (RecursionError, OSError):
        # Trees deeper than Python's stack or the longest path: rm walks them step by step.
        subprocess.run(["rm", "-rf", "--", path], check=False, stderr=subprocess.DEVNULL)
        if os.path.lexists(path):
            raise


def inside(root: str, path: str) -> str:
    """The real place of ``path`` (relative to ``root``), with every link in it followed.

    The last name need not exist. Callers open the result without following links, so a link that is put there
    meanwhile is refused rather than followed.

    Raises:
        Escape: absolute, with a ``..`` that leads out, through a link that leads out, or not a path at all.
    """
    if not path or "\0" in path or os.path.isabs(path):
        raise Escape(f"path {path!r} is not relative to the workspace")
    top = os.path.realpath(root)
    if os.path.islink(root):
        raise Escape("the workspace itself was replaced by a link")
    # Against the text first: "a/../../x" may come back inside by way of a link, and still means harm.
    if os.path.normpath(path).split("/")[0] == "..":
        raise Escape(f"path {path!r} leaves the workspace")
    real = os.path.realpath(os.path.join(top, path))
    if real != top and not real.startswith(top + "/"):
        raise Escape(f"path {path!r} leaves the workspace")
    return real


def open_inside(root: str, path: str) -> int:
    """A file descriptor to read a regular file of the workspace.

    Raises:
        Escape: the path leaves the workspace, or is no regular file.
        FileNotFoundError: it is not there.
    """
    real = inside(root, path)
    top = os.path.realpath(root)
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    parts = os.path.relpath(real, top).split("/")
    try:
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            # O_NONBLOCK: a named pipe would else hold the sandbox up for ever.
            flags = os.O_RDONLY | os.O_NOFOLLOW | (os.O_NONBLOCK if last else os.O_DIRECTORY)
            deeper = os.open(part, flags, dir_fd=fd)
            os.close(fd)
            fd = deeper
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Escape(f"{path!r} is no regular file")
    except BaseException as error:
        os.close(fd)
        if isinstance(error, NotADirectoryError):
            raise FileNotFoundError(error.errno, "no such file", path) from error
        raise
    return fd


def place(root: str, path: str) -> str:
    """Where a new file ``path`` goes: its folder is made, links in it stay inside, the last name is not followed.

    Raises:
        Escape: the path leaves the workspace or names a folder.
    """
    parent, name = os.path.split(os.path.normpath(path))
    if not name or name in (".", ".."):
        raise Escape(f"path {path!r} names no file")
    inside(root, path if not os.path.islink(os.path.join(root, path)) else (parent or "."))
    folder = inside(root, parent or ".")
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, name)
    if os.path.isdir(target) and not os.path.islink(target):
        raise Escape(f"path {path!r} is a folder")
    return target
