"""Power loss: no state that a crash may leave shows a torn commit or lacks an acknowledged one.

Killing processes can not show this, because what was written survives them; here the disk itself is modelled.
The planted bugs prove that the suite would notice.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agentlab.contracts.log import events_after, interrupted, write
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.errors import Conflict, LogError
from agentlab.log import ParquetStore
from agentlab.ports import Durability, Pointer

from .crash_states import (
    InPlace,
    LinkBeforeSync,
    NoFileSync,
    NoFolderSync,
    Recorder,
    RenameForLink,
    check,
)


def append_and_seal(kind: type[Recorder], tmp: Path, durability: Durability = "disk") -> int:
    """Appends, a seal, appends, a pointer; then every crash state is opened, read and appended to."""
    lab = tmp / "lab"
    ParquetStore(lab).create("s", durability)
    recorder = kind(lab)
    log = ParquetStore(lab, disk=recorder).open("s")
    texts = ["one", "two", "three", "four"]
    for index, text in enumerate(texts):
        write(log, text)
        if durability == "group" and index != 2:
            log.flush()
        if durability == "disk" or index != 2:
            recorder.ack(index + 1)
        if index == 1:
            assert log.seal() == 2
    log.put_pointer(Pointer(4, 3, "h", "d"))
    recorder.ack(len(texts) + 1)

    def verdict(lab: Path, acked: int) -> None:
        log = ParquetStore(lab).open("s")
        try:
            found = [event.payload["text"] for event in log.replay()]
            assert found == texts[: len(found)], "what is read is no prefix of what was written"
            assert len(found) >= min(acked, len(texts)), f"{acked} were acknowledged, {len(found)} are left"
            write(log, "afterwards")
            assert [event.seq for event in log.replay()] == list(range(1, len(found) + 2))
            pointers = list(log.pointers())
            assert pointers == [Pointer(4, 3, "h", "d")] or (not pointers and acked <= len(texts)), "acknowledged"
        except LogError as error:
            raise AssertionError(f"a torn file is visible: {error}") from error

    return check(recorder, tmp / "states", verdict)


def seal_after_a_death(kind: type[Recorder], tmp: Path) -> int:
    """A compactor dies when its segment is visible and not yet durable; the next one removes the commits."""
    lab = tmp / "lab"
    log = ParquetStore(lab).create("s")
    write(log, "one")
    write(log, "two")
    recorder = kind(lab)
    recorder.ack(2)

    def die() -> None:
        raise SimulatedDeath

    with interrupted(CrashPoint.SEGMENT_LINK, "after", die), pytest.raises(SimulatedDeath):
        ParquetStore(lab, disk=recorder).open("s").seal()
    ParquetStore(lab, disk=recorder).open("s").seal()

    def verdict(lab: Path, acked: int) -> None:
        try:
            found = [event.payload["text"] for event in ParquetStore(lab).open("s").replay()]
        except LogError as error:
            raise AssertionError(f"a torn file is visible: {error}") from error
        assert found == ["one", "two"], "sealing lost what was acknowledged"

    return check(recorder, tmp / "states", verdict)


def two_writers(kind: type[Recorder], tmp: Path) -> None:
    """Two writers want the same seq: one conflicts, and the other's commit stays."""
    ParquetStore(tmp / "two").create("s")
    disk = kind(tmp / "two")
    first, second = (ParquetStore(tmp / "two", disk=disk).open("s") for _ in range(2))
    events = events_after(second.head(), "s", ["second"])
    write(first, "first")
    try:
        second.append(events, 1)
    except Conflict:
        pass
    else:
        raise AssertionError("two writers won the same seq")
    assert [event.payload["text"] for event in ParquetStore(tmp / "two").open("s").replay()] == ["first"]


def put_blob(kind: type[Recorder], tmp: Path, dying: str = "") -> int:
    """A blob that is there is whole; one that was acknowledged is there."""
    lab = tmp / "lab"
    lab.mkdir()
    recorder = kind(lab)
    data = b"0123456789" * 30
    digest = hashlib.sha256(data).hexdigest()

    def die() -> None:
        raise SimulatedDeath

    if dying == "early":  # another writer made the folders and died before it synced them
        recorder.mkdir(str(lab / "blobs"))
        recorder.mkdir(str(lab / "blobs" / digest[:2]))
    elif dying == "late":  # another writer linked the blob and died before it synced the folder
        with interrupted(CrashPoint.BLOB_LINK, "after", die), pytest.raises(SimulatedDeath):
            ParquetStore(lab, disk=recorder).blobs.put(data)
    assert ParquetStore(lab, disk=recorder).blobs.put(data) == digest
    recorder.ack(1)
    ParquetStore(lab, disk=recorder).blobs.put(data)

    def verdict(lab: Path, acked: int) -> None:
        blobs = ParquetStore(lab).blobs
        assert blobs.has(digest) or not acked
        try:
            assert not blobs.has(digest) or blobs.get(digest) == data
        except LogError as error:
            raise AssertionError(f"a torn blob is visible: {error}") from error

    return check(recorder, tmp / "states", verdict)


def create_session(kind: type[Recorder], tmp: Path) -> int:
    """A session is there whole or not at all."""
    lab = tmp / "lab"
    lab.mkdir()
    recorder = kind(lab)
    recorder.mkdir(str(lab / "sessions"))  # as another that died before it synced it
    ParquetStore(lab, disk=recorder).create("s")
    recorder.ack(1)

    def verdict(lab: Path, acked: int) -> None:
        store = ParquetStore(lab)
        assert len(store.sessions()) >= acked
        for session_id in store.sessions():
            try:
                write(store.open(session_id), "usable")
            except LogError as error:
                raise AssertionError(f"half a session is visible: {error}") from error

    return check(recorder, tmp / "states", verdict)


def whole_suite(kind: type[Recorder], tmp: Path) -> int:
    """Everything above for one kind of disk."""
    two_writers(kind, tmp / "writers")
    log = append_and_seal(kind, tmp / "log") + seal_after_a_death(kind, tmp / "sealed")
    blobs = sum(put_blob(kind, tmp / f"blob{dying}", dying) for dying in ("", "early", "late"))
    return log + blobs + create_session(kind, tmp / "session")


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    for name in ("writers", "log", "blob", "blobearly", "bloblate", "session", "group", "sealed"):
        (tmp_path / name).mkdir()


def test_no_crash_state_is_torn_or_lacks_what_was_acknowledged(tmp_path: Path) -> None:
    assert whole_suite(Recorder, tmp_path) > 100


def test_group_is_durable_after_each_flush(tmp_path: Path) -> None:
    """Unflushed commits may be lost or torn after power loss; a torn one is loud and what was flushed is there."""
    lab = tmp_path / "group" / "lab"
    ParquetStore(lab).create("s", "group")
    recorder = Recorder(lab)
    log = ParquetStore(lab, disk=recorder).open("s")
    for index in range(4):
        write(log, str(index))
        if index % 2:
            log.flush()
            recorder.ack(index + 1)

    def verdict(lab: Path, acked: int) -> None:
        found = []
        try:
            for event in ParquetStore(lab).open("s").replay():
                found.append(event.payload["text"])
        except LogError:
            pass
        assert found == [str(index) for index in range(len(found))]
        assert len(found) >= acked

    assert check(recorder, tmp_path / "states", verdict) > 20


@pytest.mark.parametrize("bug", [NoFileSync, NoFolderSync, InPlace, RenameForLink, LinkBeforeSync])
def test_planted_bugs_are_noticed(bug: type[Recorder], tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        whole_suite(bug, tmp_path)


@pytest.mark.parametrize("bug", [NoFileSync, NoFolderSync, InPlace, LinkBeforeSync])
def test_planted_bugs_are_noticed_in_the_log_alone(bug: type[Recorder], tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="torn|acknowledged"):
        append_and_seal(bug, tmp_path / "log")
