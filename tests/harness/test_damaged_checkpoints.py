"""A checkpoint that does not verify is skipped with an event, the one before it serves, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.definition import PolicySpec
from agentlab.log.store import ParquetStore
from agentlab.session.statecodec import to_json

from .worlds import Outside, task, world


@pytest.fixture
def crashed(tmp_path):
    """A session on disk whose harness died in its third model call, with several checkpoints behind it."""
    outside = Outside()
    made = world(outside)
    made.store = ParquetStore(tmp_path)
    made.__post_init__()
    made.accept(task(policy=PolicySpec("every_events", {"n": 4}), durability="process"), "s")
    visits = 0

    def strike(point, when, detail):
        nonlocal visits
        visits += point is CrashPoint.MODEL_REPLY
        if visits == 3:
            raise SimulatedDeath("in the third model call")

    crashpoints.arm(strike)
    try:
        with pytest.raises(SimulatedDeath):
            made.run("s")
    finally:
        crashpoints.arm(None)
    assert len(made.store.open("s").pointers()) >= 3
    return made, outside, tmp_path


def blob_of(lab: Path, pointer) -> Path:
    (found,) = lab.glob(f"blobs/**/{pointer.state_digest}")
    return found


def missing(lab, store, pointer):
    blob_of(lab, pointer).unlink()


def truncated(lab, store, pointer):
    path = blob_of(lab, pointer)
    data = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(data[: len(data) // 2])


def emptied(lab, store, pointer):
    blob_of(lab, pointer).chmod(0o600)
    blob_of(lab, pointer).write_bytes(b"")


def flipped(lab, store, pointer):
    path = blob_of(lab, pointer)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x04
    path.chmod(0o600)
    path.write_bytes(bytes(data))


def at_another_event(lab, store, pointer):
    path = lab / "sessions" / "s-s" / "checkpoints" / f"{pointer.seq:012d}"
    body = json.loads(path.read_text())
    path.unlink()
    (path.parent / f"{pointer.seq + 1:012d}").write_text(json.dumps({**body, "seq": pointer.seq + 1}))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (missing, "can not be read"),
        (truncated, "can not be read"),
        (emptied, "can not be read"),
        (flipped, "can not be read"),
        (at_another_event, "no checkpoint"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("how_many", [1, 2, "all"])
def test_a_damaged_checkpoint_is_skipped_and_the_one_before_it_serves(crashed, damage, says, how_many):
    made, outside, lab = crashed
    log = made.store.open("s")
    pointers = list(log.pointers())
    hit = pointers if how_many == "all" else pointers[:how_many]
    for pointer in hit:
        damage(lab, made.store, pointer)
    assert made.run("s") == "ended"
    events = list(log.replay(1))
    woken = [e for e in events if e.type == "harness_woken"][-1]
    skipped = [e.payload for e in events if e.type == "checkpoint_skipped"]
    assert len(skipped) == len(hit) and all(says in s["reason"] for s in skipped), skipped
    left = [p for p in pointers if p not in hit]
    assert woken.payload.get("checkpoint_seq") == (left[0].seq if left else None)
    assert woken.payload["cursor"] == (left[0].cursor if left else 0)
    assert events[-1].payload["outcome"] == "completed" and len(outside.delivered) == 1


@pytest.mark.parametrize("kind", ["a field is missing", "a field got another name", "another type", "no JSON"])
def test_a_state_with_other_fields_is_skipped_and_the_field_is_named(crashed, kind, monkeypatch):
    """Blob and digest agree: the state was written so. It takes a writer with a mistake of its own."""
    made, outside, _ = crashed

    def spoiled(state):
        data = to_json(state)
        if kind == "a field is missing":
            del data["plan"]["current"]
        elif kind == "a field got another name":
            data["plan"]["now"] = data["plan"].pop("current")
        elif kind == "another type":
            data["plan"]["current"] = "two"
        return "\ud800" if kind == "no JSON" else data

    import agentlab.harness.checkpointing as checkpointing

    written = made.store.open("s").pointers()[0]
    monkeypatch.setattr(checkpointing, "to_json", spoiled)
    if kind == "no JSON":
        monkeypatch.setattr(checkpointing, "canonical", lambda value: "{not json")

    def strike(point, when, detail):
        if point is CrashPoint.COMMIT and made.store.open("s").pointers()[0].seq > written.seq:
            raise SimulatedDeath("after the first checkpoint that is wrong")

    crashpoints.arm(strike)
    try:
        with pytest.raises(SimulatedDeath):
            made.run("s")
    finally:
        crashpoints.arm(None)
    monkeypatch.undo()
    assert made.run("s") == "ended"
    events = list(made.store.open("s").replay(1))
    (skipped,) = [e.payload for e in events if e.type == "checkpoint_skipped"]
    named = {"no JSON": "can not be read", "another type": "state.plan.current should be int"}
    assert named.get(kind, "state.plan.current is missing") in skipped["reason"]
    assert [e for e in events if e.type == "harness_woken"][-1].payload["checkpoint_seq"] >= written.seq
    assert events[-1].payload["outcome"] == "completed" and len(outside.delivered) == 1


def test_a_lost_pointer_costs_time_and_no_truth(crashed):
    made, outside, lab = crashed
    folder = lab / "sessions" / "s-s" / "checkpoints"
    for index, path in enumerate(sorted(folder.iterdir())):
        if index % 2:
            path.write_bytes(b"\x00garbage")
        else:
            path.unlink()
    assert made.run("s") == "ended"
    events = list(made.store.open("s").replay(1))
    assert [e for e in events if e.type == "harness_woken"][-1].payload["cursor"] == 0
    assert events[-1].payload["outcome"] == "completed" and len(outside.delivered) == 1


@pytest.mark.parametrize("lost", ["the newest", "all"])
@pytest.mark.parametrize("what", ["manifest", "file"])
def test_a_damaged_snapshot_is_skipped_and_an_earlier_one_serves_with_commands_run_again(lost, what):
    """Both lines are written by commands; between them a snapshot was taken, after them another."""
    from agentlab.definition import StepSpec
    from agentlab.models.scripted import call, say
    from agentlab.sandbox.snapshot import decode

    def model(view):
        step = view.status.get("step")
        if step in ("one", "two"):
            return [say(step), call("write", text=f"line {step}\n")]
        return [say("adding"), call("add", a=1, b=2)] if step == "add" else say("done")

    outside = Outside()
    made = world(outside, model)
    steps = (StepSpec("one", tool="write"), StepSpec("two", tool="write"), StepSpec("add", tool="add"))
    made.accept(task(steps=steps, validator=None, policy=PolicySpec("every_steps", {"n": 1})), "s")

    def strike(point, when, detail):
        if point is CrashPoint.TOOL_REPLY:
            raise SimulatedDeath("in the last step")

    crashpoints.arm(strike)
    with pytest.raises(SimulatedDeath):
        made.run("s")
    crashpoints.arm(None)
    log, blobs = made.store.open("s"), made.store.blobs._data
    taken = [e.payload["digest"] for e in log.replay(1) if e.type == "snapshot_taken"]
    assert len(set(taken)) == 2
    for digest in taken if lost == "all" else taken[-1:]:
        gone = digest if what == "manifest" else next(e.ref for e in decode(blobs[digest]) if e.kind == "file")
        blobs.pop(gone, None)
    for name in made.sandboxes.alive():
        made.sandboxes.kill(name)
    assert made.run("s") == "ended"
    events = list(log.replay(1))
    skipped = [e.payload["digest"] for e in events if e.type == "snapshot_skipped"]
    assert skipped == list(reversed(taken)) if lost == "all" else skipped == taken[-1:]
    restored = [e for e in events if e.type == "sandbox_restored"][-1].payload
    assert restored["snapshot"] == (None if lost == "all" else taken[0])
    assert len(restored["rerun"]) == (2 if lost == "all" else 1) and restored["differs"] == []
    last = [e.payload["digest"] for e in events if e.type == "snapshot_taken"][-1]
    (report,) = [e.ref for e in decode(blobs[last]) if e.kind == "file"]
    assert blobs[report] == b"line one\nline two\n"
