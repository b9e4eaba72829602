"""Logs of forks: shared rows stay where they are, own rows chain to them, however deep, sealed or not."""

from __future__ import annotations

import json
import shutil

import pytest

from agentlab.errors import Conflict, LogCorrupt, SchemaTooNew
from agentlab.events import GENESIS, Draft, Head, seal, verify_chain
from agentlab.log.memory import MemoryStore
from agentlab.log.store import ParquetStore
from agentlab.ports import Parent, Pointer

ROOT = Head(0, GENESIS)


@pytest.fixture(params=["memory", "parquet"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else ParquetStore(tmp_path / "lab")


def add(log, count=1, at=None):
    """Append ``count`` notes as one commit after ``at`` (the head)."""
    head = at or log.head()
    drafts = [Draft("note_added", {"id": f"{log.session_id}{head.seq + n}", "text": "x" * n}) for n in range(count)]
    events = seal(drafts, head, session_id=log.session_id, incarnation=0, commit_id=f"{log.session_id}-{head.seq}",
                  now_us=1_000_000 + head.seq)  # fmt: skip
    log.append(events, head.seq + 1)
    return events


def forked(store, parent, seq, name):
    row = next(iter(parent.replay(seq, seq)))
    return store.create(name, "process", Parent(parent.session_id, seq, row.hash))


def test_a_fork_shares_its_past_and_goes_its_own_way(store):
    parent = store.create("p")
    shared = [*add(parent, 3), *add(parent, 2)]
    fork = forked(store, parent, 4, "f")
    assert fork.head() == fork.base == Head(4, shared[3].hash)
    assert list(fork.replay()) == shared[:4] and fork.poll(4) == [] or not fork.poll(4)
    own = add(fork, 2)
    later = add(parent, 1)
    assert [e.seq for e in fork.replay()] == [1, 2, 3, 4, 5, 6]
    assert list(fork.replay(5)) == list(own) and list(fork.replay(2, 5)) == [*shared[1:4], own[0]]
    assert list(parent.replay(5)) == [shared[4], *later]
    assert list(fork.poll(2)) == [*shared[2:4], *own] and list(fork.poll(5)) == [own[1]]
    seen = list(fork.follow(3, lambda: True))
    assert seen == [*shared[2:4], *own]
    for log in (parent, fork, store.open("f")):
        assert verify_chain(log.replay(), ROOT) == log.head()


def test_two_writers_of_a_fork_can_not_both_win_and_shared_rows_are_not_written_to(store):
    parent = store.create("p")
    add(parent, 4)
    fork = forked(store, parent, 3, "f")
    base = fork.base
    add(fork, 1)
    other = seal([Draft("note_added", {"id": "o", "text": ""})], base, session_id="f", incarnation=0, commit_id="o",
                 now_us=5)  # fmt: skip
    with pytest.raises(Conflict):
        store.open("f").append(other, 4)
    early = seal([Draft("note_added", {"id": "e", "text": ""})], Head(1, GENESIS), session_id="f", incarnation=0,
                 commit_id="e", now_us=5)  # fmt: skip
    with pytest.raises(Conflict):
        store.open("f").append(early, 2)
    with pytest.raises(ValueError, match="hole"):
        add(fork, 1, at=Head(9, GENESIS))


def test_forks_of_forks_thirty_deep_and_back_into_the_shared_past(store):
    log = store.create("s0")
    add(log, 2)
    for depth in range(1, 31):
        log = forked(store, log, log.head().seq, f"s{depth}")
        add(log, 1)
    assert [e.seq for e in log.replay()] == list(range(1, 33))
    assert [e.session_id for e in log.replay(1, 4)] == ["s0", "s0", "s1", "s2"]
    assert verify_chain(log.replay(), ROOT) == log.head()
    back = forked(store, log, 3, "back")  # before s30's own rows, and those of most of its ancestors
    add(back, 1)
    assert [e.session_id for e in store.open("back").replay()] == ["s0", "s0", "s1", "back"]


def test_sealing_parent_or_fork_changes_nothing_for_readers(store):
    parent = store.create("p")
    for _ in range(5):
        add(parent, 2)
    fork = forked(store, parent, 7, "f")
    for _ in range(3):
        add(fork, 2)
    before = list(fork.replay())
    assert parent.seal() == 5 and store.open("f").seal() == 3
    again = store.open("f")
    assert list(again.replay()) == before and again.head() == fork.head()
    add(again, 1)
    assert [e.seq for e in fork.poll(13)] == [14]
    assert store.open("f").seal() == 1
    assert [e.seq for e in store.open("f").replay(6)] == list(range(6, 15))


def test_pointers_of_the_shared_past_are_the_forks_too_and_later_ones_are_not(store):
    parent = store.create("p")
    add(parent, 9)
    for seq in (2, 5, 8):
        parent.put_pointer(Pointer(seq, seq - 1, GENESIS, GENESIS))
    fork = forked(store, parent, 6, "f")
    add(fork, 1)
    fork.put_pointer(Pointer(7, 7, GENESIS, GENESIS))
    assert [p.seq for p in fork.pointers()] == [7, 5, 2]
    assert [p.seq for p in parent.pointers()] == [8, 5, 2]


def test_a_parent_that_is_gone_or_was_changed_is_found(tmp_path):
    store = ParquetStore(tmp_path)
    parent = store.create("p")
    add(parent, 3)
    fork = forked(store, parent, 2, "f")
    add(fork, 1)
    shutil.rmtree(store.folder("p"))
    with pytest.raises(LogCorrupt, match="gone"):
        store.open("f")
    replaced = store.create("p")
    add(replaced, 1)
    with pytest.raises(LogCorrupt, match="missing"):
        list(store.open("f").replay())
    add(replaced, 2)
    with pytest.raises(LogCorrupt, match="does not match its hash"):
        verify_chain(store.open("f").replay(), ROOT)


def test_a_plain_session_stays_readable_for_those_who_know_no_forks(tmp_path):
    store = ParquetStore(tmp_path)
    add(store.create("p"), 1)
    forked(store, store.open("p"), 1, "f")
    cards = {name: json.loads((tmp_path / "sessions" / f"s-{name}" / "session.json").read_text()) for name in "pf"}
    assert cards["p"]["format"] == 1 and cards["f"]["format"] == 2
    card = tmp_path / "sessions" / "s-f" / "session.json"
    card.write_text(json.dumps({**cards["f"], "format": 3}))
    with pytest.raises(SchemaTooNew):
        store.open("f")


def test_copies_of_a_store_in_memory_part_with_their_forks():
    store = MemoryStore()
    parent = store.create("p")
    add(parent, 2)
    add(forked(store, parent, 2, "f"), 1)
    other = store.copy()
    add(other.open("f"), 1)
    assert other.open("f").head().seq == 4 and store.open("f").head().seq == 3
