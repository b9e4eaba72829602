"""A workspace as content-addressed blobs, and a workspace made equal to them again. Standard library only.

A snapshot is a *manifest*: JSON ``{"agentlab_snapshot": 1, "entries": [[path, kind, mode, size, ref], …]}``, sorted
by the bytes of the path. ``kind`` is ``file`` (``ref``: the blob's digest), ``link`` (``ref``: the target) or ``dir``
(``ref``: empty). Every folder is named, so empty ones come back. Names that are no UTF-8 travel as surrogate escapes.
Times, owners, set-id bits, hard links, pipes, sockets and devices are not kept. The manifest is written last, so
whoever holds its digest finds everything that it names.

A stat cache spares reading what did not change. An entry counts only when size, mtime, ctime and inode are the same
*and* the file was already older than :data:`RACY_NS` when it was hashed: an edit within the file system's clock tick
leaves the same mtime behind (the "racy git" problem), and only such young files are hashed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

from agentlab.sandbox.durable import PIECE, Batch, BlobFolder
from agentlab.sandbox.trees import make_writable, remove

RACY_NS = 2_000_000_000
"""Nanoseconds: the coarsest clock tick of the file systems in use (FAT's)."""
Key = tuple[int, int, int, int]
"""Size, times and inode of a file: what shows from outside whether it has changed."""
Cache = dict[str, tuple[Key, str]]


class Entry(NamedTuple):
    """One line of a manifest. ``mode`` has the permission bits only; ``size`` counts bytes, 0 but for files."""

    path: str
    kind: str
    mode: int
    size: int
    ref: str


class Taken(NamedTuple):
    """A snapshot that is durable: its manifest's digest, files, their bytes, and the bytes that were new."""

    digest: str
    files: int
    bytes: int
    new_bytes: int


def encode(entries: list[Entry]) -> bytes:
    """The manifest as bytes, the same for the same entries in whatever order."""
    ordered = sorted(entries, key=lambda entry: os.fsencode(entry.path))
    lines = ",\n".join(json.dumps(list(entry), separators=(",", ":")) for entry in ordered)
    return f'{{"agentlab_snapshot":1,"entries":[\n{lines}\n]}}\n'.encode("ascii")


def decode(data: bytes) -> list[Entry]:
    """The entries of a manifest.

    Raises:
        ValueError: no manifest, another version, or a path that leaves the workspace.
    """
    try:
        value = json.loads(data)
        if value["agentlab_snapshot"] != 1:
            raise ValueError(f"snapshot of version {value['agentlab_snapshot']!r}: this agentlab reads version 1")
        entries = [Entry(str(p), str(k), int(m), int(s), str(r)) for p, k, m, s, r in value["entries"]]
    except (TypeError, KeyError) as error:
        raise ValueError("not the manifest of a snapshot") from error
    # Every parent must be a folder of the manifest itself: a link in its place could lead the children anywhere.
    folders = {entry.path for entry in entries if entry.kind == "dir"} | {""}
    for entry in entries:
        parts = entry.path.split("/")
        bad = entry.kind not in ("file", "dir", "link") or "\0" in entry.path or {"", ".", ".."} & set(parts)
        if bad or entry.path.rpartition("/")[0] not in folders:
            raise ValueError(f"a manifest with a bad entry: {entry!r}")
    if len({entry.path for entry in entries}) != len(entries):
        raise ValueError("a manifest that names a path twice")
    return entries


def digests(manifest: bytes) -> list[str]:
    """Digests of the blobs that a manifest names: what a collection of garbage must keep beside it."""
    return [entry.ref for entry in decode(manifest) if entry.kind == "file"]


def _walk(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below ``root`` as (relative path, lstat), folders before what is in them. Links are not followed."""
    stack = [""]
    while stack:
        folder = stack.pop()
        with os.scandir(os.path.join(root, folder) if folder else root) as found:
            for item in found:
                path = f"{folder}/{item.name}" if folder else item.name
                about = item.stat(follow_symlinks=False)
                yield path, about
                if stat.S_ISDIR(about.st_mode):
                    stack.append(path)


def _open(path: str, mode: int) -> int:
    """Open for reading, even what its owner may not read."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except PermissionError:
        os.chmod(path, mode | 0o400)
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        finally:
            os.chmod(path, mode)


def _key(about: os.stat_result) -> Key:
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino


def _pack(path: str, about: os.stat_result, batch: Batch) -> tuple[str, int]:
    """Stage one file; its digest and the bytes read."""
    fd = _open(path, stat.S_IMODE(about.st_mode))
    try:
        if about.st_size <= PIECE:
            data = b"".join(iter(lambda: os.read(fd, PIECE), b""))
            digest = hashlib.sha256(data).hexdigest()
            batch.add(digest, data)
            return digest, len(data)
        digest, size = _hashed(fd)
        os.lseek(fd, 0, os.SEEK_SET)
        batch.add_file(digest, fd, size)
        return digest, size
    finally:
        os.close(fd)


def _hashed(fd: int) -> tuple[str, int]:
    seen, size = hashlib.sha256(), 0
    while piece := os.read(fd, PIECE):
        seen.update(piece)
        size += len(piece)
    return seen.hexdigest(), size


def held(root: str) -> dict[str, Key]:
    """How each regular file looks from outside, right after a snapshot: to see later which have changed."""
    return {path: _key(about) for path, about in _walk(root) if stat.S_ISREG(about.st_mode)}


def changed_bytes(root: str, known: dict[str, Key]) -> int:
    """Bytes of the regular files that do not look as they are ``known``; nothing is read."""
    return sum(
        about.st_size for path, about in _walk(root) if stat.S_ISREG(about.st_mode) and known.get(path) != _key(about)
    )


def take(root: str, blobs: BlobFolder, cache: Cache) -> Taken:
    """Pack ``root`` while nothing writes to it. ``cache`` is read, and replaced by what is true now.

    Raises:
        OSError: the disk is full or fails; nothing but unreferenced blobs is left behind.
        ValueError: a file changed meanwhile.
    """
    closed: list[tuple[str, int]] = []
    make_writable(root, closed)
    batch = Batch(blobs)
    fresh: Cache = {}
    try:
        modes = dict(closed)
        entries = [_entry(root, path, about, batch, cache, fresh, modes) for path, about in _walk(root)]
        kept = [entry for entry in entries if entry is not None]
        new = batch.commit()
    finally:
        batch.discard()
        for path, mode in reversed(closed):
            os.chmod(path, mode)
    cache.clear()
    cache.update(fresh)
    manifest = encode(kept)
    digest = hashlib.sha256(manifest).hexdigest()
    batch.add(digest, manifest)
    try:
        new += batch.commit()
    finally:
        batch.discard()
    files = [entry for entry in kept if entry.kind == "file"]
    return Taken(digest, len(files), sum(entry.size for entry in files), new)


def _entry(
    root: str,
    path: str,
    about: os.stat_result,
    batch: Batch,
    cache: Cache,
    fresh: Cache,
    modes: dict[str, int],
) -> Entry | None:
    full, mode = os.path.join(root, path), about.st_mode & 0o777
    if stat.S_ISDIR(about.st_mode):
        return Entry(path, "dir", modes.get(full, mode) & 0o777, 0, "")
    if stat.S_ISLNK(about.st_mode):
        return Entry(path, "link", 0o777, 0, os.readlink(full))
    if not stat.S_ISREG(about.st_mode):
        return None
    known = cache.get(path)
    if known is not None and known[0] == _key(about) and batch.reuse(known[1], about.st_size):
        fresh[path] = known
        return Entry(path, "file", mode, about.st_size, known[1])
    digest, size = _pack(full, about, batch)
    _remember(fresh, path, os.lstat(full), digest)
    return Entry(path, "file", mode, size, digest)


def _remember(cache: Cache, path: str, about: os.stat_result, digest: str) -> None:
    """Trust the stat of ``path`` from now on, unless the file is so young that an edit could leave the same one."""
    if time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) > RACY_NS:
        cache[path] = (_key(about), digest)


def restore(root: str, digest: str, blobs: BlobFolder, cache: Cache) -> None:
    """Make ``root`` equal to a snapshot: what differs is replaced, what is not in it is removed.

    All blobs are looked for before anything is touched. Files that are equal already stay; those with a second hard
    link are written anew, for a name outside of the manifest could change them later.

    Raises:
        FileNotFoundError: a blob is missing; nothing was changed.
        ValueError: the manifest or a blob is damaged; the workspace may be half restored in the latter case.
    """
    entries = decode(blobs.read(digest))
    for entry in entries:
        if entry.kind == "file":
            os.stat(blobs.path(entry.ref))
    wanted = {entry.path: entry for entry in entries}
    cache.clear()
    os.makedirs(root, exist_ok=True)
    make_writable(root, [])
    equal = _clear(root, wanted)
    for entry in sorted(entries, key=lambda e: e.path.count("/")):
        full = os.path.join(root, entry.path)
        if entry.kind == "dir":
            os.makedirs(full, exist_ok=True)
        elif entry.path in equal:
            if entry.kind == "file":
                os.chmod(full, entry.mode)
        elif entry.kind == "link":
            os.symlink(entry.ref, full)
        else:
            blobs.copy_to(entry.ref, full, entry.mode)
    # A folder that its owner may not write comes last, the deepest first.
    for entry in sorted(entries, key=lambda e: -e.path.count("/")):
        if entry.kind == "dir":
            os.chmod(os.path.join(root, entry.path), entry.mode)


def _clear(root: str, wanted: dict[str, Entry]) -> set[str]:
    """Remove what a snapshot does not have; the paths of files and links that are equal already."""
    equal: set[str] = set()
    for path, about in list(_walk(root)):
        full, entry = os.path.join(root, path), wanted.get(path)
        if entry is not None and _same(full, about, entry):
            equal.add(path)
        elif entry is None or entry.kind != "dir" or not stat.S_ISDIR(about.st_mode):
            remove(full)
    return equal


def _same(full: str, about: os.stat_result, entry: Entry) -> bool:
    if entry.kind == "link":
        return stat.S_ISLNK(about.st_mode) and os.readlink(full) == entry.ref
    if entry.kind != "file" or not stat.S_ISREG(about.st_mode):
        return False
    if about.st_nlink != 1 or about.st_size != entry.size:
        return False
    fd = _open(full, stat.S_IMODE(about.st_mode))
    try:
        return _hashed(fd)[0] == entry.ref
    finally:
        os.close(fd)
