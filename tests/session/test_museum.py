"""Every recorded version is read and gone on from; every newer one is refused; nothing that was written is changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from agentlab.errors import CheckpointError, CheckpointTooNew
from agentlab.events import GENESIS, Head, verify_chain
from agentlab.harness.wake import load, read_checkpoint
from agentlab.log.store import ParquetStore
from agentlab.session.fold import fold_all
from agentlab.session.migrations import MIGRATIONS, migrate, renamed, with_fields
from agentlab.session.state import STATE_SCHEMA_VERSION, State
from agentlab.session.statecodec import to_json

from .museum import MUSEUM, SESSIONS, lab_of, outside_of, world

VERSIONS = sorted(int(path.name) for path in MUSEUM.iterdir() if path.name.isdigit())
LATER_US = 1_800_000_000_000_000
ENDS = {"ended": "ended", "cut-in-effect": "ended", "cut-in-model": "ended", "waits": "waiting",
        "doubtful": "waiting", "paused": "paused"}  # fmt: skip
CORE = ("session_id", "seq", "hash", "incarnation", "calls", "turns", "control")
"""What a checkpoint of any version and a fold of the whole log must say alike."""


def files_of(lab: Path) -> dict[str, str]:
    return {
        str(path.relative_to(lab)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in lab.rglob("*")
        if path.is_file()
    }


def test_every_past_version_is_in_the_museum():
    assert set(range(1, STATE_SCHEMA_VERSION)) <= set(VERSIONS)
    assert set(MIGRATIONS) == set(range(1, STATE_SCHEMA_VERSION))


def test_the_matrix_of_old_and_new(tmp_path, capsys):
    rows = []
    for version in VERSIONS:
        lab = lab_of(version, tmp_path)
        before = files_of(lab)
        store = ParquetStore(lab)
        read = 0
        for session in store.sessions():
            log = store.open(session)
            events = list(log.replay(1))
            verify_chain(events, Head(0, GENESIS))
            pointers = log.pointers()
            assert len(pointers) >= 3
            for pointer in pointers:
                state = read_checkpoint(log, store.blobs, pointer)
                folded = fold_all(State(hash=GENESIS), events[: state.seq])
                for name in CORE:
                    assert getattr(state, name) == getattr(folded, name), (version, session, pointer.seq, name)
                assert state.effects.recent == folded.effects.recent
                assert dict(state.budget.used) == dict(folded.budget.used)
                read += 1
            assert load(log, store.blobs).state.seq == len(events)
        assert files_of(lab) == before, "reading changed a file"
        cells = ["reads" if new >= version else "refuses" for new in range(1, STATE_SCHEMA_VERSION + 1)]
        for new, cell in enumerate(cells, 1):
            if cell == "refuses":
                with pytest.raises(CheckpointTooNew, match=f"schema_version {version}"):
                    migrate({}, version, new)
        rows.append((version, read, cells))
    with capsys.disabled():
        print("\nwritten by  checkpoints  read by " + " ".join(f"{v:>8}" for v in range(1, STATE_SCHEMA_VERSION + 1)))
        for version, read, cells in rows:
            print(f"{version:>10}  {read:>11}          " + " ".join(f"{cell:>8}" for cell in cells))


@pytest.mark.parametrize("session", sorted(SESSIONS))
@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_of_an_old_version_goes_on(version, session, tmp_path):
    lab = lab_of(version, tmp_path)
    outside = outside_of(session)
    store = ParquetStore(lab)
    before = list(store.open(session).replay(1))
    for event in before:  # what had been delivered when it was recorded
        if event.type == "effect_pending":
            outside.delivered[event.payload["key"]] = "delivered before"
    made = world(lab, session, outside, LATER_US)
    assert made.run(session) == ENDS[session]
    after = list(made.store.open(session).replay(1))
    assert after[: len(before)] == before, "what was recorded is never written again"
    verify_chain(after, Head(0, GENESIS))
    if ENDS[session] == "ended":
        assert after[-1].payload["outcome"] == "completed"
        assert len(outside.delivered) == 1, "exactly one effect"


def test_a_newer_version_is_refused_and_nothing_is_written(tmp_path):
    """The newest checkpoint of a session claims a version that does not exist yet, in a log that verifies."""
    from agentlab.clock import ManualClock
    from agentlab.events import Draft
    from agentlab.harness.recorder import Recorder
    from agentlab.harness.redact import Redactor
    from agentlab.ids import CountedIds
    from agentlab.ports import Pointer

    lab = lab_of(VERSIONS[0], tmp_path)
    store = ParquetStore(lab)
    log = store.open("cut-in-model")
    state = load(log, store.blobs).state
    digest = store.blobs.put(json.dumps(to_json(state)).encode())
    recorder = Recorder(
        log, store.blobs, state, state.incarnation, ManualClock(LATER_US), CountedIds(9000), Redactor({})
    )
    payload = {
        "checkpoint_id": "x", "schema_version": STATE_SCHEMA_VERSION + 1, "cursor": state.seq, "size_bytes": 1,
        "cursor_hash": state.hash, "state": digest, "reason": "by a newer agentlab",
    }  # fmt: skip
    recorder.commit((Draft("checkpoint_written", payload),))
    seq = recorder.state.seq
    log.put_pointer(Pointer(seq, state.seq, state.hash, digest))
    before = files_of(lab)
    with pytest.raises(
        CheckpointTooNew, match=rf"checkpoint {seq} has schema_version {STATE_SCHEMA_VERSION + 1}.*newer"
    ):
        world(lab, "cut-in-model", outside_of("cut-in-model"), LATER_US).run("cut-in-model")
    assert files_of(lab) == before


def test_a_migration_names_what_it_can_not_find():
    stored = {"plan": {"steps": [{"id": "a"}, {"id": "b"}], "stats": {"a": {"turns": 1}}}}
    grown = with_fields(
        json.loads(json.dumps(stored)),
        {"plan.steps[].owner": "nobody", "plan.stats{}.twice": lambda part: 2 * part["turns"], "colour": None},
    )
    assert grown["colour"] is None and grown["plan"]["stats"]["a"] == {"turns": 1, "twice": 2}
    assert [step["owner"] for step in grown["plan"]["steps"]] == ["nobody", "nobody"]
    with pytest.raises(CheckpointError, match=r"state\.recovery\.tax: 'recovery' is missing"):
        with_fields(json.loads(json.dumps(stored)), {"recovery.tax": 0})
    with pytest.raises(CheckpointError, match=r"state\.plan\.steps\[\]\.id is there already"):
        with_fields(json.loads(json.dumps(stored)), {"plan.steps[].id": ""})
    assert renamed({"plan": {"turn": 1}}, {"plan.turn": "turns"}) == {"plan": {"turns": 1}}
    with pytest.raises(CheckpointError, match=r"state\.plan\.turn is missing: it should become 'turns'"):
        renamed({"plan": {"rounds": 1}}, {"plan.turn": "turns"})
    for version in (0, -1, "1", None, True, 1.0):
        with pytest.raises(CheckpointError, match="schema_version"):
            migrate({}, version, STATE_SCHEMA_VERSION)
    with pytest.raises(CheckpointError, match="no migration leads on"):
        migrate({}, 1, 3, {})
