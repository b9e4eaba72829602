"""The store's own promises: what is a session, what is a lab, which files count, what damage is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentlab.clock import ManualClock
from agentlab.contracts.log import events_after, interrupted, write
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.errors import BadLab, Conflict, LogCorrupt, SchemaTooNew, UnknownName, UserError
from agentlab.log import MemoryStore, ParquetLog, ParquetStore
from agentlab.log.files import STALE_S
from agentlab.log.repair import set_aside_torn_tail

from .costs import calls_of
from .test_sigkill import environment


def session(tmp_path: Path, *texts: str) -> ParquetLog:
    log = ParquetStore(tmp_path).create("s")
    for text in texts:
        write(log, text)
    return log


def texts(tmp_path: Path) -> list[str]:
    return [event.payload["text"] for event in ParquetStore(tmp_path).open("s").replay()]


# --- labs and sessions ----------------------------------------------------------------------------------------------


def test_lab_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadLab, match="is a file"):
        ParquetStore(tmp_path / "file")
    with pytest.raises(BadLab, match="file"):
        ParquetStore(tmp_path / "file" / "lab").create("s")
    (tmp_path / "sessions").write_text("x")
    with pytest.raises(BadLab, match="file"):
        ParquetStore(tmp_path).create("s")


def test_looking_creates_nothing(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path / "lab")
    assert list(store.sessions()) == []
    with pytest.raises(UnknownName, match="there is no session yet"):
        store.open("s")
    assert not store.blobs.has("0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_half_made_session_is_never_seen(tmp_path: Path) -> None:
    class Dies(ParquetStore):
        def _build(self, final: str, *rest: object) -> None:
            os.makedirs(os.path.join(self.lab, "sessions", "new-00.tmp", "commits"))
            raise SimulatedDeath

    with pytest.raises(SimulatedDeath):
        Dies(tmp_path).create("s")
    assert list(ParquetStore(tmp_path).sessions()) == []
    long_ago = time.time() - STALE_S - 10
    os.utime(tmp_path / "sessions" / "new-00.tmp", (long_ago, long_ago))
    ParquetStore(tmp_path).create("s")
    assert os.listdir(tmp_path / "sessions") == ["s-s"]


def test_creation_is_a_race_with_one_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ParquetStore(tmp_path).create("s")
    monkeypatch.setattr(os.path, "lexists", lambda path: False)  # as if the other came a moment later
    with pytest.raises(UserError, match="exists already"):
        ParquetStore(tmp_path).create("s")
    assert os.listdir(tmp_path / "sessions") == ["s-s"]


def test_durability_belongs_to_the_session(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    for durability in ("disk", "group", "process"):
        store.create(durability, durability)
        assert ParquetStore(tmp_path).open(durability).durability == durability


@pytest.mark.parametrize(
    ("card", "error"),
    [
        ("", LogCorrupt), ("[]", LogCorrupt), ("{}", LogCorrupt),
        ('{"format": 1, "session_id": "t", "durability": "disk"}', LogCorrupt),
        ('{"format": 3, "session_id": "s", "durability": "disk"}', SchemaTooNew),
    ],
)  # fmt: skip
def test_damaged_session_card(card: str, error: type[Exception], tmp_path: Path) -> None:
    session(tmp_path)
    (tmp_path / "sessions/s-s/session.json").write_text(card)
    with pytest.raises(error):
        ParquetStore(tmp_path).open("s")


# --- damage ---------------------------------------------------------------------------------------------------------


def commit(tmp_path: Path, seq: int) -> Path:
    return tmp_path / f"sessions/s-s/commits/{seq:012d}.parquet"


@pytest.mark.parametrize("sealed", [False, True])
def test_torn_tail_is_set_aside(sealed: bool, tmp_path: Path) -> None:
    log = ParquetStore(tmp_path).create("s", "process")
    for text in ("one", "two", "three", "four"):
        write(log, text)
        if sealed and text == "two":
            log.seal()
    commit(tmp_path, 3).write_bytes(bytes(500))
    with pytest.raises(LogCorrupt):
        texts(tmp_path)
    assert set_aside_torn_tail(ParquetStore(tmp_path).open("s")) == [3, 4]
    assert texts(tmp_path) == ["one", "two"]
    assert set_aside_torn_tail(ParquetStore(tmp_path).open("s")) == []
    write(ParquetStore(tmp_path).open("s"), "three again")
    assert texts(tmp_path) == ["one", "two", "three again"]
    with pytest.raises(UserError, match="damaged"):
        set_aside_torn_tail(session(tmp_path / "other", "one"))


@pytest.mark.parametrize("gone", [1, 2])
def test_missing_commit_is_noticed(gone: int, tmp_path: Path) -> None:
    session(tmp_path, "one", "two", "three")
    commit(tmp_path, gone).unlink()
    with pytest.raises(LogCorrupt, match=f"event {gone} is missing"):
        texts(tmp_path)
    assert ParquetStore(tmp_path).open("s").seal() == gone - 1  # up to the hole and no further
    with pytest.raises(LogCorrupt, match=f"event {gone} is missing"):
        texts(tmp_path)
    assert commit(tmp_path, 3).exists()


def test_missing_segment_is_noticed(tmp_path: Path) -> None:
    log = session(tmp_path, "one", "two")
    log.seal()
    write(log, "three")
    (tmp_path / "sessions/s-s/segments/000000000001.parquet").unlink()
    with pytest.raises(LogCorrupt, match="missing"):
        texts(tmp_path)


def test_commit_of_another_place_or_session_is_noticed(tmp_path: Path) -> None:
    session(tmp_path, "one", "two", "three")
    other = ParquetStore(tmp_path).create("t")
    write(other, "other")
    commit(tmp_path, 2).write_bytes(commit(tmp_path, 3).read_bytes())
    with pytest.raises(LogCorrupt, match="its name says 2"):
        list(ParquetStore(tmp_path).open("s").replay(2))
    with pytest.raises(LogCorrupt, match="event 3 does not match"):
        texts(tmp_path)
    commit(tmp_path, 2).unlink()
    commit(tmp_path, 1).write_bytes(Path(other.commit_files()[0][0]).read_bytes())
    with pytest.raises(LogCorrupt, match="session 't'"):
        texts(tmp_path)


def test_exchanged_commit_breaks_the_chain(tmp_path: Path) -> None:
    session(tmp_path / "a", "one", "two")
    session(tmp_path / "b", "eins", "zwei")
    commit(tmp_path / "a", 2).write_bytes(commit(tmp_path / "b", 2).read_bytes())
    with pytest.raises(LogCorrupt, match="event 2 does not match its hash"):
        texts(tmp_path / "a")


def test_damaged_segment_is_noticed(tmp_path: Path) -> None:
    session(tmp_path, "one", "two").seal()
    path = tmp_path / "sessions/s-s/segments/000000000001.parquet"
    whole = path.read_bytes()
    for damaged in (whole[:100], whole[:-1], whole[:50] + bytes(50) + whole[100:]):
        path.write_bytes(damaged)
        with pytest.raises(LogCorrupt):
            texts(tmp_path)
    path.write_bytes(whole)
    assert texts(tmp_path) == ["one", "two"]


# --- which files count ----------------------------------------------------------------------------------------------


def test_files_of_a_session(tmp_path: Path) -> None:
    log = session(tmp_path, "one", "two")
    assert [start for _, start in log.commit_files()] == [1, 2]
    log.seal()
    write(log, "three", "four")
    write(log, "five")
    files = log.commit_files()
    assert [start for _, start in files] == [1, 3, 5]
    assert [Path(path).parent.name for path, _ in files] == ["segments", "commits", "commits"]


def test_covered_commits_do_not_count_and_go_at_the_next_seal(tmp_path: Path) -> None:
    log = session(tmp_path, "one", "two", "three")

    def die() -> None:
        raise SimulatedDeath

    with interrupted(CrashPoint.SEGMENT_CLEAN, "after", die), pytest.raises(SimulatedDeath):
        log.seal()
    assert [p.name for p in sorted(commit(tmp_path, 1).parent.iterdir())] == [
        "000000000002.parquet", "000000000003.parquet",
    ]  # fmt: skip
    again = ParquetStore(tmp_path).open("s")
    assert [start for _, start in again.commit_files()] == [1]
    assert texts(tmp_path) == ["one", "two", "three"]
    assert again.seal() == 0
    assert list(commit(tmp_path, 1).parent.iterdir()) == []


def test_zombie_commit_under_a_segment_is_passed_over(tmp_path: Path) -> None:
    """A writer that won the name of a sealed commit and died before it looked: nobody reads what it left."""
    log = session(tmp_path, "one")
    zombie = ParquetStore(tmp_path).open("s")
    late = events_after(zombie.head(), "s", ["late", "later", "latest"])

    def meanwhile() -> None:
        write(log, "two")
        log.seal()

    def die() -> None:
        raise SimulatedDeath

    with interrupted(CrashPoint.LOG_LINK, "before", meanwhile), pytest.raises(Conflict):
        zombie.append(late, 2)
    assert not commit(tmp_path, 2).exists()
    commit(tmp_path, 2).write_bytes((tmp_path / "sessions/s-s/segments/000000000001.parquet").read_bytes())
    write(log, "three")
    assert texts(tmp_path) == ["one", "two", "three"]
    assert [event.payload["text"] for event in ParquetStore(tmp_path).open("s").poll(1)] == ["two", "three"]
    assert [start for _, start in log.commit_files()] == [1, 3]
    log.seal()
    assert not commit(tmp_path, 2).exists() and texts(tmp_path) == ["one", "two", "three"]


def test_two_compactors(tmp_path: Path) -> None:
    log = session(tmp_path, "one", "two")
    other = ParquetStore(tmp_path).open("s")

    def meanwhile() -> None:
        write(other, "three")
        assert other.seal() == 3

    with interrupted(CrashPoint.SEGMENT_LINK, "before", meanwhile) as seen:
        assert log.seal() == 0
    assert seen
    assert texts(tmp_path) == ["one", "two", "three"]
    assert [start for _, start in log.commit_files()] == [1]


def test_long_logs_are_sealed_into_several_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentlab.log.segments.MAX_EVENTS", 3)
    log = session(tmp_path, *"abcdefgh")
    assert log.seal() == 8
    assert [start for _, start in log.commit_files()] == [1, 4, 7]
    for start in range(1, 9):
        fresh = ParquetStore(tmp_path).open("s")
        assert "".join(event.payload["text"] for event in fresh.replay(start)) == "abcdefgh"[start - 1 :]


def test_temporary_files_of_the_dead_are_removed(tmp_path: Path) -> None:
    log = session(tmp_path, "one")
    old, young = (commit(tmp_path, 2).with_name(f"000000000002.parquet.{name}.tmp") for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    long_ago = time.time() - STALE_S - 10
    os.utime(old, (long_ago, long_ago))
    assert [start for _, start in log.commit_files()] == [1]
    write(ParquetStore(tmp_path).open("s"), "two")
    assert not old.exists() and young.exists()


def test_blob_with_other_content_is_noticed(tmp_path: Path) -> None:
    blobs = ParquetStore(tmp_path).blobs
    digest = blobs.put(b"content")
    path = tmp_path / "blobs" / digest[:2] / digest
    path.write_bytes(b"c0ntent")
    with pytest.raises(LogCorrupt, match="does not match"):
        blobs.get(digest)
    path.write_bytes(b"short")
    assert blobs.get(blobs.put(b"content")) == b"content"


def test_putting_a_blob_again_refreshes_its_age(tmp_path: Path) -> None:
    blobs = ParquetStore(tmp_path).blobs
    digest = blobs.put(b"content")
    path = tmp_path / "blobs" / digest[:2] / digest
    os.utime(path, (1, 1))
    blobs.put(b"content")
    assert path.stat().st_mtime > 1_000_000


# --- costs ----------------------------------------------------------------------------------------------------------


def test_appending_and_polling_list_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = session(tmp_path, "one")
    reader = ParquetStore(tmp_path).open("s")
    assert len(reader.poll(0)) == 1
    write(reader, "the first append of a handle looks for leftovers")

    def listing(*_: object) -> None:
        raise AssertionError("a folder was listed")

    monkeypatch.setattr(os, "listdir", listing)
    monkeypatch.setattr(os, "scandir", listing)
    write(log, "three")
    assert [event.seq for event in reader.poll(2)] == [3]
    assert list(reader.poll(3)) == []
    write(reader, "four")
    assert [event.seq for event in log.poll(3)] == [4]


def test_replay_reads_no_commit_before_its_start(tmp_path: Path) -> None:
    session(tmp_path, *"abcdef")
    for seq in (1, 2, 3):
        commit(tmp_path, seq).write_bytes(b"rubbish")
    assert [event.seq for event in ParquetStore(tmp_path).open("s").replay(4)] == [4, 5, 6]


START = """
import sys
from agentlab.contracts.log import events_after
from agentlab.events import GENESIS, Head
from agentlab.log import ParquetStore
FLOOR = {"pandas", "pyarrow", "numpy", "duckdb", "IPython", "matplotlib", "ipywidgets"}
log = ParquetStore(sys.argv[1]).create("s")
log.append(events_after(Head(0, GENESIS), "s", ["one"]), 1)
assert len(list(log.replay())) == 1
print(sorted(FLOOR & set(sys.modules)))
log.seal()
assert len(list(ParquetStore(sys.argv[1]).open("s").replay())) == 1
print(sorted(FLOOR & set(sys.modules) - {"numpy"}))
"""


def test_what_an_append_imports(tmp_path: Path) -> None:
    """Start-up time is recovery time: no Arrow until something is sealed or read from a segment, pandas never."""
    pure = START.replace("from agentlab.contracts.log import events_after\n", "").replace(
        'events_after(Head(0, GENESIS), "s", ["one"])',
        'seal([Draft("note_added", {"id": "1", "text": "t"})], Head(0, GENESIS), session_id="s", incarnation=1,'
        ' commit_id="c", now_us=1)',
    )
    pure = pure.replace("import GENESIS, Head", "import GENESIS, Draft, Head, seal")
    env = environment(Path(__file__).parent.parent)
    argv = [sys.executable, "-c", pure, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, env=env)
    assert done.stdout.splitlines() == ["[]", "['pyarrow']"], done.stderr


# --- memory ---------------------------------------------------------------------------------------------------------


def test_copied_worlds_are_independent() -> None:
    store = MemoryStore()
    log = store.create("s")
    write(log, "one")
    other = store.copy()
    write(other.open("s"), "theirs")
    write(log, "ours")
    third = other.copy()
    write(third.open("s"), "third")
    digest = other.blobs.put(b"x")
    assert [[e.payload["text"] for e in s.open("s").replay()] for s in (store, other, third)] == [
        ["one", "ours"], ["one", "theirs"], ["one", "theirs", "third"],
    ]  # fmt: skip
    assert other.blobs.has(digest) and not store.blobs.has(digest)


def test_power_loss_in_memory() -> None:
    store = MemoryStore()
    for durability in ("disk", "group", "process"):
        log = store.create(durability, durability)
        write(log, "one")
        log.flush()
        write(log, "two", "three")
    branch = store.copy()
    assert store.forget_unsynced() == 4
    assert [store.open(d).head().seq for d in ("disk", "group", "process")] == [3, 1, 1]
    assert branch.open("group").head().seq == 3
    write(store.open("group"), "instead")
    assert [e.payload["text"] for e in store.open("group").replay()] == ["one", "instead"]
    assert [e.payload["text"] for e in branch.open("group").replay()] == ["one", "two", "three"]


def test_following_sleeps_on_the_clock_it_was_given(tmp_path: Path) -> None:
    for store in (MemoryStore(clock := ManualClock()), ParquetStore(tmp_path, clock=clock)):
        begun = clock.monotonic()
        log = store.create("s")
        assert list(log.follow(1, iter([False, False, True]).__next__, interval_s=60.0)) == []
        assert clock.monotonic() - begun == 120.0


def test_a_memory_append_costs_a_few_calls_however_long_the_log_is() -> None:
    log = MemoryStore().create("s")
    costs = []
    for _ in range(500):
        events = events_after(log.head(), "s", ["x"])
        costs.append(calls_of(lambda events=events: log.append(events, events[0].seq)))
        assert next(iter(log.replay(events[0].seq))) is events[0], "kept as it is: nothing is encoded"
    assert max(costs) < 60
