"""A disk that refuses: full, broken, read-only. Nothing half-done stays, and the log goes on when the disk does."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlab.contracts.log import events_after, write
from agentlab.errors import BadLab, OutcomeUnknown, StorageFailed
from agentlab.log import ParquetStore
from agentlab.log.files import Disk
from agentlab.ports import Pointer

from .test_sigkill import environment


class Faulty(Disk):
    """Fails one kind of call with one error while ``broken``; counts calls."""

    def __init__(self, call: str, error: int) -> None:
        self.call, self.error, self.broken, self.calls = call, error, True, 0

    def _maybe(self, call: str) -> None:
        if call == self.call and self.broken:
            self.calls += 1
            raise OSError(self.error, os.strerror(self.error))

    def create(self, path: str) -> int:
        self._maybe("create")
        return super().create(path)

    def write(self, fd: int, data: bytes) -> None:
        if self.call == "write" and self.broken:
            super().write(fd, data[: len(data) // 2])  # a torn file
        self._maybe("write")
        super().write(fd, data)

    def fsync(self, fd: int) -> None:
        self._maybe("fsync")
        super().fsync(fd)

    def link(self, source: str, target: str) -> None:
        self._maybe("link")
        super().link(source, target)

    def mkdir(self, path: str) -> None:
        self._maybe("mkdir")
        super().mkdir(path)

    def fsync_folder(self, path: str) -> None:
        self._maybe("fsync_folder")
        os.sync()


REFUSALS = [
    ("create", errno.ENOSPC), ("create", errno.EROFS), ("create", errno.EMFILE), ("write", errno.ENOSPC),
    ("write", errno.EIO), ("write", errno.EDQUOT), ("fsync", errno.EIO), ("fsync", errno.ENOSPC),
    ("link", errno.ENOSPC), ("link", errno.EPERM), ("link", errno.EROFS),
]  # fmt: skip


def leftovers(lab: Path) -> list[Path]:
    return list(lab.rglob("*.tmp"))


@pytest.mark.parametrize(("call", "error"), REFUSALS)
def test_refused_append_leaves_nothing(call: str, error: int, tmp_path: Path) -> None:
    write(ParquetStore(tmp_path).create("s"), "one")
    disk = Faulty(call, error)
    log = ParquetStore(tmp_path, disk=disk).open("s")
    events = events_after(log.head(), "s", ["two"])
    with pytest.raises(StorageFailed):
        log.append(events, 2)
    assert disk.calls == 1, "a failed call was tried again"
    assert not leftovers(tmp_path)
    assert ParquetStore(tmp_path).open("s").head().seq == 1 == log.head().seq
    disk.broken = False
    log.append(events, 2)
    assert [event.payload["text"] for event in log.replay()] == ["one", "two"]


@pytest.mark.parametrize(("call", "error"), [("fsync_folder", errno.EIO), ("link", errno.EIO)])
def test_failure_after_the_name_may_exist(call: str, error: int, tmp_path: Path) -> None:
    ParquetStore(tmp_path).create("s")
    disk = Faulty(call, error)
    log = ParquetStore(tmp_path, disk=disk).open("s")
    events = events_after(log.head(), "s", ["one"])
    with pytest.raises(OutcomeUnknown):
        log.append(events, 1)
    disk.broken = False
    landed = log.head().seq == 1
    assert landed is (call == "fsync_folder")
    log.append(events, 1)  # settles it, whichever it was
    assert [event.payload["text"] for event in ParquetStore(tmp_path).open("s").replay()] == ["one"]


@pytest.mark.parametrize(("call", "error"), [*REFUSALS, ("fsync_folder", errno.EIO)])
def test_refused_seal_removes_nothing(call: str, error: int, tmp_path: Path) -> None:
    log = ParquetStore(tmp_path).create("s")
    written = [*write(log, "one"), *write(log, "two")]
    disk = Faulty(call, error)
    with pytest.raises((StorageFailed, OutcomeUnknown)):
        ParquetStore(tmp_path, disk=disk).open("s").seal()
    assert list(ParquetStore(tmp_path).open("s").replay()) == written
    assert len(list(tmp_path.rglob("commits/*.parquet"))) == 2
    disk.broken = False
    ParquetStore(tmp_path, disk=disk).open("s").seal()
    assert not list(tmp_path.rglob("commits/*.parquet"))
    assert list(ParquetStore(tmp_path).open("s").replay()) == written


@pytest.mark.parametrize(("call", "error"), REFUSALS)
def test_refused_blob_and_pointer_leave_nothing(call: str, error: int, tmp_path: Path) -> None:
    ParquetStore(tmp_path).create("s")
    disk = Faulty(call, error)
    store = ParquetStore(tmp_path, disk=disk)
    with pytest.raises((StorageFailed, OutcomeUnknown)):
        store.blobs.put(b"data")
    if call != "link":
        with pytest.raises(StorageFailed):
            store.open("s").put_pointer(Pointer(1, 1, "h", "d"))
    assert not leftovers(tmp_path) and not store.open("s").pointers()
    disk.broken = False
    assert store.blobs.get(store.blobs.put(b"data")) == b"data"


@pytest.mark.parametrize(
    ("call", "error", "kind", "says"),
    [
        ("mkdir", errno.EROFS, BadLab, "read-only"),
        ("mkdir", errno.EACCES, BadLab, "permission"),
        ("write", errno.ENOSPC, BadLab, "disk is full"),
        ("fsync", errno.EIO, StorageFailed, "error"),
        ("create", errno.EMFILE, StorageFailed, "open files"),
    ],
)
def test_lab_that_can_not_take_a_session(
    call: str, error: int, kind: type[Exception], says: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=says):
        ParquetStore(tmp_path / "lab", disk=Faulty(call, error)).create("s")
    assert ParquetStore(tmp_path / "lab").sessions() in ((), [])
    assert not leftovers(tmp_path)
    ParquetStore(tmp_path / "lab").create("s")


# --- real refusals --------------------------------------------------------------------------------------------------

LIMITED = """
import resource, sys
from agentlab.contracts.log import events_after, write
from agentlab.errors import StorageFailed
from agentlab.log import ParquetStore

log = ParquetStore(sys.argv[1]).open("s")
write(log, "small")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write(log, "large" * 100_000)
except StorageFailed as error:
    print(error)
write(log, "small again")
"""


def test_file_size_limit_of_the_process(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    ParquetStore(tmp_path).create("s")
    tests = Path(__file__).parent.parent
    argv = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, env=environment(tests))
    assert done.returncode == 0, done.stderr
    assert "ulimit -f" in done.stdout
    assert not leftovers(tmp_path)
    assert [event.payload["text"] for event in ParquetStore(tmp_path).open("s").replay()] == ["small", "small again"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    mount = tmp_path / "mount"
    mount.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0777", "tmpfs", str(mount)]
    try:
        subprocess.run(argv, check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"needs the right to mount a tmpfs ({type(error).__name__})")
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True, capture_output=True, timeout=120)


def test_full_disk(small_disk: Path) -> None:
    store = ParquetStore(small_disk / "lab")
    log = store.create("s")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(100_000))
    appended = 0
    with pytest.raises(StorageFailed, match="disk is full"):
        for _ in range(100):
            write(log, "x" * 10_000)
            appended += 1
    assert 0 < appended < 26
    with pytest.raises(StorageFailed, match="disk is full"):
        store.blobs.put(os.urandom(200_000))
    with pytest.raises(BadLab, match="disk is full"):
        while True:
            with contextlib.suppress(OSError):
                (small_disk / f"filler{len(list(small_disk.iterdir()))}").write_bytes(bytes(4096))
            store.create(f"s{len(store.sessions())}")
    assert not leftovers(small_disk)
    assert log.head().seq == appended == len(list(ParquetStore(small_disk / "lab").open("s").replay()))
    ballast.unlink()
    write(log, "room again")
    assert len(list(log.replay())) == appended + 1


def test_read_only_file_system(small_disk: Path) -> None:
    write(ParquetStore(small_disk / "lab").create("s"), "one")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, capture_output=True, timeout=120)
    store = ParquetStore(small_disk / "lab")
    log = store.open("s")
    assert [event.payload["text"] for event in log.replay()] == ["one"]
    with pytest.raises(StorageFailed, match="read-only"):
        write(log, "two")
    with pytest.raises(BadLab, match="read-only"):
        store.create("t")
