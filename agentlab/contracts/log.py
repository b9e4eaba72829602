"""What every session log must do.

Subclass :class:`LogContract` in a test module and give it a fixture ``store`` (an empty
:class:`~agentlab.ports.LogStore`); override :meth:`LogContract.other` when another process would hold its own
handle on the same lab::

    class TestMyStore(LogContract):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import pytest

from agentlab.crashpoints import CrashPoint, When, arm
from agentlab.errors import BadSessionId, Conflict, LogCorrupt, UnknownName, UserError
from agentlab.events import GENESIS, Draft, Event, Head, canonical, seal, verify_chain
from agentlab.ports import Durability, Log, LogStore, Pointer

HOSTILE_IDS = (
    "/", "..", ".", "a/../b", "a\\b", "a\0b", "A", "a", "é", "e\u0301", "日本語の実験", "\ud800", "x\udfff", "\n",
    "session=1", "00123", "2024-01-01", "*", "a[1]b", "'; drop", "%41", "_41", "con", " ", "a ", "-rf", "x.tmp",
    "a.", "s-a", "b-a", "~",
)  # fmt: skip
"""Session ids that some file system, shell or reader of partitions takes for something else."""

_commits = count(1)


def events_after(head: Head, session_id: str, texts: Sequence[str], commit_id: str | None = None) -> tuple[Event, ...]:
    """One commit of remarks that follows ``head``."""
    drafts = [Draft("note_added", {"id": f"n{head.seq + i}", "text": text}) for i, text in enumerate(texts, 1)]
    commit_id = commit_id or f"c-{next(_commits):06d}"
    return seal(
        drafts, head, session_id=session_id, incarnation=1, commit_id=commit_id, now_us=1_700_000_000_000_000 + head.seq
    )


def write(log: Log, *texts: str, commit_id: str | None = None) -> tuple[Event, ...]:
    """Append remarks as one commit at the head of ``log``."""
    head = log.head()
    events = events_after(head, log.session_id, texts, commit_id)
    log.append(events, head.seq + 1)
    return events


@contextmanager
def interrupted(point: CrashPoint, when: When, action: object) -> Iterator[list[str]]:
    """Run the callable ``action`` once, the first time that ``point`` is reached; yields the details seen."""
    seen: list[str] = []

    def trigger(reached: CrashPoint, moment: When, detail: str) -> None:
        if reached is point and moment == when:
            arm(None)
            seen.append(detail)
            assert callable(action)
            action()

    arm(trigger)
    try:
        yield seen
    finally:
        arm(None)


class LogContract:
    """The tests. ``durability`` may be overridden to run them under another one."""

    durability: Durability = "disk"

    def other(self, store: LogStore) -> LogStore:
        """Another handle on the same lab, as another process would have it."""
        return store

    @pytest.fixture
    def log(self, store: LogStore) -> Log:
        """A fresh session."""
        return store.create("run/1", self.durability)

    # --- appending -------------------------------------------------------------------------------------------------

    def test_empty(self, log: Log) -> None:
        assert log.head() == Head(0, GENESIS)
        assert list(log.replay()) == []
        assert list(log.poll(0)) == []
        assert log.seal() == 0

    def test_what_went_in_comes_out(self, store: LogStore, log: Log) -> None:
        written = [*write(log, "one"), *write(log, "two", "three"), *write(log, "four")]
        assert list(log.replay()) == written
        assert list(self.other(store).open("run/1").replay()) == written
        assert verify_chain(written, Head(0, GENESIS)) == log.head() == Head(4, written[-1].hash)

    def test_replay_from_and_to_every_seq(self, store: LogStore, log: Log) -> None:
        written: list[Event] = []
        for size in (1, 3, 2, 1):
            written += write(log, *["x"] * size)
        for sealed in (False, True):
            if sealed:
                log.seal()
                written += write(log, "after", "sealing")
            total = len(written)
            for start in range(1, total + 2):
                fresh = self.other(store).open("run/1")
                assert list(fresh.replay(start)) == written[start - 1 :]
                assert list(log.replay(start, start + 2)) == written[start - 1 : start + 2]
                assert list(fresh.poll(start - 1)) == written[start - 1 :]

    def test_taken_seq_conflicts(self, store: LogStore, log: Log) -> None:
        mine, theirs = log, self.other(store).open("run/1")
        late = events_after(Head(0, GENESIS), "run/1", ["late"])
        won = write(theirs, "first", "second")
        with pytest.raises(Conflict) as caught:
            mine.append(late, 1)
        assert caught.value.seq == 1
        with pytest.raises(Conflict):  # seq 2 is inside a commit: its name alone would be free
            mine.append(events_after(Head(1, won[0].hash), "run/1", ["late"]), 2)
        assert list(mine.replay()) == list(won)
        write(mine, "third")
        assert [event.seq for event in theirs.poll(2)] == [3]

    def test_retry_of_the_same_commit_succeeds(self, store: LogStore, log: Log) -> None:
        events = write(log, "one", "two", commit_id="c-same")
        log.append(events, 1)
        self.other(store).open("run/1").append(events, 1)
        log.seal()
        self.other(store).open("run/1").append(events, 1)
        write(log, "three")
        log.append(events, 1)
        assert [event.seq for event in log.replay()] == [1, 2, 3]

    @pytest.mark.parametrize("point", [CrashPoint.LOG_LINK])
    @pytest.mark.parametrize("sealed", [False, True])
    def test_writer_that_slept_has_lost(self, store: LogStore, log: Log, point: CrashPoint, sealed: bool) -> None:
        write(log, "one")
        stopped, other = log, self.other(store).open("run/1")
        assert stopped.head().seq == 1
        late = events_after(stopped.head(), "run/1", ["late", "later", "latest"])

        def meanwhile() -> None:
            write(other, "two")
            write(other, "three")
            if sealed:
                assert other.seal() == 3

        with interrupted(point, "before", meanwhile) as seen, pytest.raises(Conflict):
            stopped.append(late, 2)
        assert seen
        for handle in (stopped, other, self.other(store).open("run/1")):
            assert [event.payload["text"] for event in handle.replay()] == ["one", "two", "three"]
            assert handle.head().seq == 3
        write(stopped, "four")
        assert other.head().seq == 4

    def test_refuses_what_is_no_commit(self, log: Log) -> None:
        first = events_after(Head(0, GENESIS), "run/1", ["a", "b"])
        other_id = events_after(Head(1, first[0].hash), "run/1", ["b"])
        for events, seq in (
            ((), 1),
            (first, 2),
            ((first[1], first[0]), 1),
            ((first[0], other_id[0]), 1),
            (events_after(Head(0, GENESIS), "somebody else", ["a"]), 1),
            (events_after(Head(4, GENESIS), "run/1", ["a"]), 5),
        ):
            with pytest.raises(ValueError):
                log.append(events, seq)
        assert log.head().seq == 0

    # --- following -------------------------------------------------------------------------------------------------

    def test_poll_sees_what_others_append(self, store: LogStore, log: Log) -> None:
        reader = self.other(store).open("run/1")
        head = 0
        for size in (1, 2, 1):
            written = write(log, *["x"] * size)
            assert list(reader.poll(head)) == list(written)
            head = written[-1].seq
            assert list(reader.poll(head)) == []
        log.seal()
        assert list(reader.poll(head)) == []
        written = write(log, "y")
        log.seal()
        assert list(reader.poll(head)) == list(written)

    def test_follow_until_stopped(self, store: LogStore, log: Log) -> None:
        reader = self.other(store).open("run/1")
        write(log, "one", "two")
        todo = ["three", "four", "five"]

        def stop() -> bool:  # called at a quiet moment: let something happen, stop when nothing is left
            if not todo:
                return True
            write(log, todo.pop(0))
            if len(todo) == 1:
                log.seal()
            return False

        seqs = [event.seq for event in reader.follow(2, stop, interval_s=0.0)]
        assert seqs == [2, 3, 4, 5]

    def test_follow_can_be_dropped(self, log: Log) -> None:
        write(log, "one", "two")
        stream = log.follow(1, lambda: False, interval_s=0.0)
        assert [next(stream).seq, next(stream).seq] == [1, 2]

    # --- sealing ---------------------------------------------------------------------------------------------------

    def test_sealing_is_invisible(self, store: LogStore, log: Log) -> None:
        written: list[Event] = []
        for round_ in range(3):
            for size in (1, 2):
                written += write(log, *[f"r{round_}"] * size)
            running = log.replay()
            assert next(running) == written[0]
            assert self.other(store).open("run/1").seal() == 2
            assert [written[0], *running] == written
        assert log.seal() == 0
        assert list(log.replay()) == written
        assert self.other(store).open("run/1").head() == Head(9, written[-1].hash)

    # --- pointers --------------------------------------------------------------------------------------------------

    def test_pointers_newest_first(self, store: LogStore, log: Log) -> None:
        assert list(log.pointers()) == []
        made = [Pointer(seq, seq - 1, "h" * 64, f"sha256:{seq}") for seq in (3, 20, 100)]
        for pointer in (made[1], made[0], made[2]):
            log.put_pointer(pointer)
        assert list(self.other(store).open("run/1").pointers()) == made[::-1]
        again = Pointer(100, 98, "g" * 64, "sha256:other")
        log.put_pointer(again)
        assert list(log.pointers()) == [again, made[1], made[0]]

    # --- sessions --------------------------------------------------------------------------------------------------

    def test_hostile_ids(self, store: LogStore) -> None:
        for session_id in HOSTILE_IDS:
            write(store.create(session_id, self.durability), f"I am {canonical(session_id)}")
        assert list(store.sessions()) == sorted(HOSTILE_IDS)
        other = self.other(store)
        for session_id in HOSTILE_IDS:
            log = other.open(session_id)
            log.seal()
            (event,) = log.replay()
            assert event.session_id == log.session_id == session_id
            assert event.payload["text"] == f"I am {canonical(session_id)}"
            verify_chain([event], Head(0, GENESIS))

    @pytest.mark.parametrize("bad", ["", "x" * 201, "\U0001f600" * 60])
    def test_impossible_ids(self, store: LogStore, bad: str) -> None:
        with pytest.raises(BadSessionId):
            store.create(bad)
        with pytest.raises(UnknownName):
            store.open(bad)

    def test_create_once_and_open_what_is_there(self, store: LogStore, log: Log) -> None:
        with pytest.raises(UserError, match="exists already"):
            self.other(store).create("run/1")
        with pytest.raises(UnknownName, match="run/1"):
            store.open("run/2")
        with pytest.raises(UserError):
            store.create("other", "eternal")  # type: ignore[arg-type]
        assert list(store.sessions()) == ["run/1"]

    # --- contents --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("sealed", [False, True])
    def test_exact_contents(self, store: LogStore, log: Log, sealed: bool) -> None:
        payload = {
            "id": "x", "text": "\ud800 \0 é 日本 \U0001f600 \x7f", "n": 2**63, "m": -(2**200), "f": 0.1, "e": [],
            "o": {}, "z": None,
        }  # fmt: skip
        draft = Draft(
            "note_added", payload, tool_name="tool", input_hash="sha256:0", error={"message": "\udfff"}, error_type="É",
            duration_ms=0.1, step=2**63 - 1, attempt=-(2**63), call_id="", effect_key="k\0", model="m", input_tokens=0,
            output_tokens=1, cache_read_tokens=2, cache_write_tokens=3, cost_microusd=1_234_567_890_123, parent_seq=7,
        )  # fmt: skip
        events = seal(
            [draft, Draft("note_added", {"id": "", "text": ""}), draft], log.head(),
            session_id="run/1", incarnation=3, commit_id="c-1", now_us=-1,
        )  # fmt: skip
        log.append(events, 1)
        if sealed:
            log.seal()
        back = list(self.other(store).open("run/1").replay())
        assert back == list(events)
        assert back[0].payload == payload
        verify_chain(back, Head(0, GENESIS))

    def test_large_payload(self, store: LogStore, log: Log) -> None:
        text = "é\0x" * (2 << 20)
        written = write(log, text)
        assert list(self.other(store).open("run/1").replay()) == list(written)
        log.seal()
        assert list(self.other(store).open("run/1").replay()) == list(written)

    def test_blobs(self, store: LogStore) -> None:
        blobs = store.blobs
        for data in (b"", b"x", bytes(range(256)) * 4096):
            digest = blobs.put(data)
            assert blobs.put(data) == digest and len(digest) == 64
            assert self.other(store).blobs.get(digest) == data and blobs.has(digest)
        assert not blobs.has("0" * 64)
        for missing in ("0" * 64, "../../etc/passwd"):
            assert not blobs.has(missing)
            with pytest.raises(LogCorrupt):
                blobs.get(missing)
