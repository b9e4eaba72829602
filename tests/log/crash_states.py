"""What a power loss may leave: records the store's system calls and enumerates the states of the disk after a crash.

Two models. *weak*: whatever is not synced may be there or not, every change of a folder and every third of a
write by itself. *ext4*: changes of names are kept in order, any fsync makes all earlier ones durable, but data
without its own fsync may be missing under a durable name.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agentlab.log.files import TMP, Disk

Model = Literal["weak", "ext4"]
MODELS: tuple[Model, ...] = ("weak", "ext4")
_EXHAUSTIVE = 10  # unsynced things up to which every subset is tried; beyond that a fixed sample
_SAMPLE = 300


@dataclass
class Op:
    """``name``: a folder (inode) maps a name to an inode or to None; ``data``: bytes of an inode; ``sync``; ``ack``."""

    kind: Literal["name", "data", "sync", "ack"]
    inode: int = 0
    names: tuple[tuple[str, int | None], ...] = ()
    offset: int = 0
    data: bytes = b""
    ack: int = 0


@dataclass
class Recorder(Disk):
    """Does the calls and remembers them. Folders and files present at the start count as durable."""

    root: Path
    ops: list[Op] = field(default_factory=list)
    inodes: dict[str, int] = field(default_factory=dict)
    folders: set[int] = field(default_factory=lambda: {0})
    base: dict[int, dict[str, int]] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    _next: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _open: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inodes[str(self.root)] = 0
        for folder, folders, files in os.walk(self.root):
            here = self.inodes[folder]
            for name in folders + files:
                inode = self.inodes[os.path.join(folder, name)] = next(self._next)
                self.base.setdefault(here, {})[name] = inode
                if name in folders:
                    self.folders.add(inode)
                else:
                    self.contents[inode] = Path(folder, name).read_bytes()

    def ack(self, count: int) -> None:
        """From here on ``count`` things are promised to survive."""
        self.ops.append(Op("ack", ack=count))

    def _name(self, *changes: tuple[str, int | None]) -> None:
        folder = self.inodes[os.path.dirname(changes[0][0])]
        self.ops.append(Op("name", folder, tuple((os.path.basename(path), inode) for path, inode in changes)))
        for path, inode in changes:
            if inode is None:
                self.inodes.pop(path, None)
            else:
                self.inodes[path] = inode

    def create(self, path: str) -> int:
        fd = super().create(path)
        self._open[fd] = next(self._next)
        self._name((path, self._open[fd]))
        return fd

    def write(self, fd: int, data: bytes) -> None:
        super().write(fd, data)
        third = max(1, len(data) // 3)
        for offset in (0, third, 2 * third):
            end = len(data) if offset == 2 * third else offset + third
            self.ops.append(Op("data", self._open[fd], offset=offset, data=data[offset:end]))

    def fsync(self, fd: int) -> None:
        inode = self._open.get(fd)
        if inode is None:  # opened by path, as flush does
            inode = self.inodes[os.readlink(f"/proc/self/fd/{fd}")]
        self.ops.append(Op("sync", inode))

    def close(self, fd: int) -> None:
        super().close(fd)
        self._open.pop(fd, None)

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self._name((target, self.inodes[source]))

    def replace(self, source: str, target: str) -> None:
        super().replace(source, target)
        self._name((target, self.inodes[source]), (source, None))

    def rename_folder(self, source: str, target: str) -> None:
        super().rename_folder(source, target)
        moved = {p: i for p, i in self.inodes.items() if p.startswith(source + os.sep)}
        self._name((target, self.inodes[source]), (source, None))
        self.inodes.update({target + path[len(source) :]: inode for path, inode in moved.items()})

    def mkdir(self, path: str) -> None:
        super().mkdir(path)
        inode = next(self._next)
        self.folders.add(inode)
        self._name((path, inode))

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self._name((path, None))

    def fsync_folder(self, path: str) -> None:
        self.ops.append(Op("sync", self.inodes[path]))

    # --- states ----------------------------------------------------------------------------------------------------

    def states(self, model: Model) -> Iterator[tuple[dict[str, bytes | None], int]]:
        """Every distinct disk after a crash (path to bytes, None for a folder) with what had been acknowledged."""
        seen: set[tuple[int, tuple[tuple[str, bytes | None], ...]]] = set()
        for length in range(len(self.ops) + 1):
            done = self.ops[:length]
            acked = max((op.ack for op in done if op.kind == "ack"), default=0)
            for lost in _losses(done, model):
                tree = dict(self._build(done, lost))
                key = (acked, tuple(sorted(tree.items())))
                if key not in seen:
                    seen.add(key)
                    yield tree, acked

    def _build(self, done: list[Op], lost: frozenset[int]) -> Iterator[tuple[str, bytes | None]]:
        names = {folder: dict(entries) for folder, entries in self.base.items()}
        contents = {inode: bytearray(data) for inode, data in self.contents.items()}
        for index, op in enumerate(done):
            if index in lost:
                continue
            if op.kind == "name":
                for name, inode in op.names:
                    if inode is None:
                        names.setdefault(op.inode, {}).pop(name, None)
                    else:
                        names.setdefault(op.inode, {})[name] = inode
            elif op.kind == "data":
                data = contents.setdefault(op.inode, bytearray())
                data.extend(bytes(max(0, op.offset - len(data))))
                data[op.offset : op.offset + len(op.data)] = op.data
        yield from self._walk(0, "", names, contents)

    def _walk(
        self, folder: int, at: str, names: dict[int, dict[str, int]], contents: dict[int, bytearray]
    ) -> Iterator[tuple[str, bytes | None]]:
        for name, inode in names.get(folder, {}).items():
            path = f"{at}/{name}" if at else name
            if inode in self.folders:
                yield path, None
                yield from self._walk(inode, path, names, contents)
            else:
                yield path, bytes(contents.get(inode, b""))


def _losses(done: list[Op], model: Model) -> Iterator[frozenset[int]]:
    """Which operations may be missing after a crash at this point, as sets of their indices."""
    synced = {op.inode: index for index, op in enumerate(done) if op.kind == "sync"}
    last = max(synced.values(), default=-1)
    data = [i for i, op in enumerate(done) if op.kind == "data" and i > synced.get(op.inode, -1)]
    if model == "weak":
        names = [i for i, op in enumerate(done) if op.kind == "name" and i > synced.get(op.inode, -1)]
        for lost in _subsets(data + names):
            yield frozenset(lost)
        return
    names = [i for i, op in enumerate(done) if op.kind == "name" and i > last]
    for kept in range(len(names) + 1):
        for lost in _subsets(data):
            yield frozenset((*lost, *names[kept:]))


def _subsets(items: list[int]) -> Iterator[tuple[int, ...]]:
    if len(items) <= _EXHAUSTIVE:
        for size in range(len(items) + 1):
            yield from itertools.combinations(items, size)
        return
    chance = random.Random(len(items))
    yield ()
    yield tuple(items)
    for _ in range(_SAMPLE):
        yield tuple(item for item in items if chance.random() < 0.5)


def check(recorder: Recorder, scratch: Path, verdict: Callable[[Path, int], None]) -> int:
    """Lay out every crash state in ``scratch`` and ask ``verdict(lab, acknowledged)``; returns how many there were.

    A state that may follow is only laid out if none before it failed: ``verdict`` raises AssertionError.
    """
    count = 0
    for model in MODELS:
        for tree, acked in recorder.states(model):
            lab = scratch / f"{model}-{count}"
            lab.mkdir(parents=True)
            for path, content in tree.items():
                if content is None:
                    (lab / path).mkdir()
                else:
                    (lab / path).write_bytes(content)
            verdict(lab, acked)
            count += 1
    return count


# --- planted bugs ----------------------------------------------------------------------------------------------------


class NoFileSync(Recorder):
    """Forgets to sync files."""

    def fsync(self, fd: int) -> None:
        return None


class NoFolderSync(Recorder):
    """Forgets to sync folders."""

    def fsync_folder(self, path: str) -> None:
        return None


class InPlace(Recorder):
    """Writes under the final name at once."""

    def create(self, path: str) -> int:
        final = path[: -len(TMP)].rpartition(".")[0] if path.endswith(TMP) else path
        fd = os.open(final, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._open[fd] = next(self._next)
        self._name((final, self._open[fd]))
        return fd

    def link(self, source: str, target: str) -> None:
        return None

    def replace(self, source: str, target: str) -> None:
        return None

    def unlink(self, path: str) -> None:
        if not path.endswith(TMP):
            super().unlink(path)


class RenameForLink(Recorder):
    """Renames, which overwrites silently."""

    def link(self, source: str, target: str) -> None:
        self.replace(source, target)

    def unlink(self, path: str) -> None:
        if os.path.exists(path):
            super().unlink(path)


class LinkBeforeSync(Recorder):
    """Gives the name first and syncs the file afterwards."""

    def fsync(self, fd: int) -> None:
        return None

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self.ops.append(Op("sync", self.inodes[target]))
