"""Snapshots: exact, incremental, and unimpressed by names, modes and clocks."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlab.log.blobs import BlobFolder as LogBlobs
from agentlab.sandbox import snapshot as packing
from agentlab.sandbox.durable import Batch, BlobFolder
from agentlab.sandbox.trees import remove

Tree = dict[str, tuple[str, int, object]]


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, BlobFolder]:
    (tmp_path / "work").mkdir()
    (tmp_path / "blobs").mkdir()
    return tmp_path / "work", BlobFolder(str(tmp_path / "blobs"))


def tree(root: Path) -> Tree:
    """All that a snapshot promises to bring back."""
    found: Tree = {}
    for folder, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(folder, name)
            about = os.lstat(path)
            mode = stat.S_IMODE(about.st_mode)
            if stat.S_ISLNK(about.st_mode):
                value: object = os.readlink(path)
                mode = 0
            elif stat.S_ISREG(about.st_mode):
                value = Path(path).read_bytes()
            else:
                value = None
            found[os.path.relpath(path, root)] = (stat.filemode(about.st_mode)[0], mode, value)
    return found


def take(root: Path, blobs: BlobFolder, cache: packing.Cache | None = None) -> packing.Taken:
    return packing.take(str(root), blobs, {} if cache is None else cache)


def hostile(root: Path) -> None:
    for name in ("a b", "-rf", "new\nline", '"quote"', "grüße", "..x", "*", "\\", "$HOME", "'", "x" * 255, " ", "~"):
        (root / name).write_bytes(name.encode())
    with open(os.fsencode(root) + b"/\xff\xfe not utf-8", "wb") as file:
        file.write(b"\x00\xff")
    (root / "empty" / "deeper").mkdir(parents=True)
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "private").write_text("p")
    (root / "private").chmod(0o400)
    (root / "shut").mkdir()
    (root / "shut" / "in").write_text("in")
    (root / "shut").chmod(0o500)
    os.symlink("grüße", root / "link")
    os.symlink("/nowhere/at/all", root / "dangling")
    os.symlink("..", root / "up")


def test_hostile_trees_come_back(place: tuple[Path, BlobFolder], tmp_path: Path) -> None:
    root, blobs = place
    if sys.platform == "darwin":
        pytest.skip("the file system refuses some of these names")
    hostile(root)
    before = tree(root)
    taken = take(root, blobs)
    assert tree(root) == before, "a snapshot changes nothing"
    packing.restore(str(tmp_path / "other"), taken.digest, blobs, {})
    assert tree(tmp_path / "other") == before
    assert take(tmp_path / "other", blobs)[:3] == taken[:3]
    remove(str(root))
    remove(str(tmp_path / "other"))
    assert not root.exists() and not (tmp_path / "other").exists()


def locked_away(base: Path) -> None:
    root, blobs = base / "work", BlobFolder(str(base / "blobs"))
    (root / "shut" / "in" / "er").mkdir(parents=True)
    (root / "shut" / "in" / "er" / "f").write_text("f")
    (root / "none").write_text("n")
    for path, mode in (("none", 0), ("shut/in/er/f", 0), ("shut/in/er", 0), ("shut/in", 0o500), ("shut", 0)):
        (root / path).chmod(mode)
    taken = take(root, blobs)
    assert (taken.files, stat.S_IMODE(os.stat(root / "shut").st_mode)) == (2, 0)
    for target in (base / "other", root):
        packing.restore(str(target), taken.digest, blobs, {})
        assert take(target, blobs).digest == taken.digest
        remove(str(target))
        assert not target.exists()


def test_what_its_owner_may_not_read() -> None:
    """Modes bind everybody but root, so root becomes somebody else for this."""
    base = Path(tempfile.mkdtemp())
    try:
        for name in ("work", "blobs"):
            (base / name).mkdir()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if os.getuid() == 0:
                    for path in (base, base / "work", base / "blobs"):
                        os.chown(path, 65534, 65534)
                    os.setgid(65534)
                    os.setuid(65534)
                locked_away(base)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        remove(str(base))


def test_pipes_and_sockets_are_left_out(place: tuple[Path, BlobFolder]) -> None:
    root, blobs = place
    os.mkfifo(root / "pipe")
    (root / "file").write_text("x")
    taken = take(root, blobs)
    assert taken.files == 1
    packing.restore(str(root), taken.digest, blobs, {})
    assert os.listdir(root) == ["file"]


def test_only_what_changed_is_new(place: tuple[Path, BlobFolder]) -> None:
    root, blobs = place
    for number in range(50):
        (root / f"f{number}").write_bytes(os.urandom(1000))
    cache: packing.Cache = {}
    first = take(root, blobs, cache)
    assert first.files == 50 and first.bytes == 50_000 and first.new_bytes > 50_000
    assert [take(root, blobs, cache) for _ in range(10)] == [first._replace(new_bytes=0)] * 10
    (root / "f7").write_bytes(b"changed")
    manifest = len(blobs.read(first.digest))
    second = take(root, blobs, cache)
    assert 7 < second.new_bytes <= 7 + manifest + 10
    (root / "copy").write_bytes((root / "f8").read_bytes())
    assert take(root, blobs, cache).new_bytes < manifest + 200


def test_unchanged_files_are_not_read(place: tuple[Path, BlobFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    root, blobs = place
    for number in range(20):
        (root / f"f{number}").write_text(str(number))
    cache: packing.Cache = {}
    monkeypatch.setattr(packing, "RACY_NS", -1)
    first = take(root, blobs, cache)
    assert len(cache) == 20
    monkeypatch.setattr(packing, "_pack", lambda *_: pytest.fail("read again"))
    assert take(root, blobs, cache).digest == first.digest


def test_an_edit_with_the_same_size_and_mtime_is_seen(place: tuple[Path, BlobFolder]) -> None:
    root, blobs = place
    cache: packing.Cache = {}
    (root / "f").write_text("one")
    about = os.stat(root / "f")
    first = take(root, blobs, cache)
    (root / "f").write_text("two")
    os.utime(root / "f", ns=(about.st_atime_ns, about.st_mtime_ns))
    assert take(root, blobs, cache).digest != first.digest


def test_a_collected_blob_is_written_again(place: tuple[Path, BlobFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache knows a digest whose blob somebody removed, or that a power loss tore."""
    root, blobs = place
    monkeypatch.setattr(packing, "RACY_NS", -1)
    (root / "f").write_text("content")
    cache: packing.Cache = {}
    taken = take(root, blobs, cache)
    path = Path(blobs.path(packing.digests(blobs.read(taken.digest))[0]))
    path.unlink()
    assert take(root, blobs, cache).new_bytes == 7
    path.write_text("con")
    assert take(root, blobs, cache).digest == taken.digest
    assert path.read_text() == "content"


def test_the_log_reads_what_the_sandbox_writes(place: tuple[Path, BlobFolder]) -> None:
    root, blobs = place
    (root / "f").write_text("content")
    (root / "big").write_bytes(os.urandom(3 << 20))
    taken = take(root, blobs)
    log = LogBlobs(blobs.root)
    manifest = log.get(taken.digest)
    assert sorted(map(len, map(log.get, packing.digests(manifest)))) == [7, 3 << 20]
    assert blobs.read(log.put(b"from the log")) == b"from the log"
    assert not list(Path(blobs.root).rglob("*.tmp"))


def test_reused_blobs_get_young(place: tuple[Path, BlobFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    root, blobs = place
    monkeypatch.setattr(packing, "RACY_NS", -1)
    (root / "f").write_text("content")
    cache: packing.Cache = {}
    taken = take(root, blobs, cache)
    names = [taken.digest, *packing.digests(blobs.read(taken.digest))]
    for name in names:
        os.utime(blobs.path(name), (1, 1))
    take(root, blobs, cache)
    assert all(os.stat(blobs.path(name)).st_mtime > 1000 for name in names)


def test_a_failed_sync_leaves_no_name(place: tuple[Path, BlobFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    root, blobs = place
    (root / "f").write_text("content")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agentlab.sandbox.durable.sync_fd", full)
    with pytest.raises(OSError):
        take(root, blobs)
    assert [path for path in Path(blobs.root).rglob("*") if path.is_file()] == []


def test_the_manifest_gets_its_name_last(place: tuple[Path, BlobFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    root, blobs = place
    for number in range(3):
        (root / f"f{number}").write_text(str(number))
    linked: list[str] = []
    real = os.link

    def link(old: str, new: str) -> None:
        linked.append(os.path.basename(new))
        real(old, new)

    monkeypatch.setattr(os, "link", link)
    taken = take(root, blobs)
    assert len(linked) == 4 and linked[-1] == taken.digest


def test_a_restore_looks_before_it_touches(place: tuple[Path, BlobFolder]) -> None:
    root, blobs = place
    (root / "f").write_text("old")
    taken = take(root, blobs)
    (root / "f").write_text("newer")
    blob = Path(blobs.path(packing.digests(blobs.read(taken.digest))[0]))
    blob.rename(blob.with_suffix(".away"))
    with pytest.raises(FileNotFoundError):
        packing.restore(str(root), taken.digest, blobs, {})
    assert (root / "f").read_text() == "newer"
    blob.write_text("bad")
    with pytest.raises(ValueError):
        packing.restore(str(root), taken.digest, blobs, {})
    assert "bad" not in [path.read_text() for path in root.iterdir()]


def test_hard_links_are_cut(place: tuple[Path, BlobFolder], tmp_path: Path) -> None:
    root, blobs = place
    (root / "a").write_text("same")
    taken = take(root, blobs)
    os.link(root / "a", tmp_path / "outside")
    packing.restore(str(root), taken.digest, blobs, {})
    (tmp_path / "outside").write_text("changed")
    assert (root / "a").read_text() == "same"


@pytest.mark.parametrize(
    "entries",
    [
        [["../x", "file", 420, 1, "0" * 64]],
        [["/x", "file", 420, 1, "0" * 64]],
        [["a", "link", 511, 0, "/etc"], ["a/passwd", "file", 420, 1, "0" * 64]],
        [["a", "dir", 493, 0, ""], ["a", "link", 511, 0, "/etc"]],
        [["a", "device", 420, 0, ""]],
        [["a\0b", "dir", 493, 0, ""]],
        [["a"]],
    ],
)
def test_a_forged_manifest_is_refused(entries: list[list[object]]) -> None:
    with pytest.raises(ValueError):
        packing.decode(json.dumps({"agentlab_snapshot": 1, "entries": entries}).encode())
    with pytest.raises(ValueError):
        packing.decode(json.dumps({"agentlab_snapshot": 2, "entries": []}).encode())


NAMES = st.one_of(
    st.sampled_from(["a", "b", "c", "dir", "x.py"]),
    st.binary(min_size=1, max_size=12).filter(lambda b: b"/" not in b and b"\0" not in b).map(os.fsdecode),
).filter(lambda name: name not in (".", ".."))
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o400, 0o444])
NODES = st.recursive(
    st.one_of(
        st.tuples(st.just("file"), MODES, st.binary(max_size=40)),
        st.tuples(st.just("link"), st.just(0), st.sampled_from(["a", "../..", "/etc", "dir/b", "nowhere"])),
    ),
    lambda children: st.tuples(
        st.just("dir"), st.sampled_from([0o755, 0o700, 0o555]), st.dictionaries(NAMES, children, max_size=4)
    ),
    max_leaves=10,
)
FOLDERS = st.dictionaries(NAMES, NODES, max_size=5)


def build(root: Path, folder: dict[str, tuple[str, int, object]]) -> None:
    for name, (kind, mode, value) in folder.items():
        path = root / name
        if kind == "link":
            os.symlink(str(value), path)
            continue
        if kind == "file":
            assert isinstance(value, bytes)
            path.write_bytes(value)
        else:
            assert isinstance(value, dict)
            path.mkdir()
            build(path, value)
        path.chmod(mode)


@pytest.mark.skipif(sys.platform == "darwin", reason="names that are no UTF-8, and names that differ by case only")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(wanted=FOLDERS, present=FOLDERS)
def test_whatever_was_there_becomes_what_was_taken(wanted: object, present: object) -> None:
    assert isinstance(wanted, dict) and isinstance(present, dict)
    base = Path(tempfile.mkdtemp())
    try:
        for name in ("wanted", "present", "blobs"):
            (base / name).mkdir()
        blobs = BlobFolder(str(base / "blobs"))
        build(base / "wanted", wanted)
        build(base / "present", present)
        expected = tree(base / "wanted")
        cache: packing.Cache = {}
        digest = take(base / "wanted", blobs).digest
        back = take(base / "present", blobs, cache).digest
        packing.restore(str(base / "present"), digest, blobs, cache)
        assert tree(base / "present") == expected
        assert take(base / "present", blobs, cache).digest == digest
        packing.restore(str(base / "wanted"), back, blobs, {})
        assert take(base / "wanted", blobs).digest == back
    finally:
        remove(str(base))


def test_removing_a_very_deep_tree(tmp_path: Path) -> None:
    top = tmp_path / "deep"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    remove(str(top))
    assert not top.exists()


def test_many_small_files_share_their_sync(place: tuple[Path, BlobFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux has syncfs")
    _, blobs = place
    monkeypatch.setattr("agentlab.sandbox.durable._syncfs", lambda folder: True)
    opened: list[int] = []
    monkeypatch.setattr("agentlab.sandbox.durable.sync_fd", opened.append)
    batch = Batch(blobs)
    for number in range(100):
        data = str(number).encode()
        batch.add(hashlib.sha256(data).hexdigest(), data)
    assert batch.commit() == 190
    assert opened == [] and len(list(Path(blobs.root).rglob("?" * 64))) == 100
