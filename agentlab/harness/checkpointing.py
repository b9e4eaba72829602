"""Checkpoints: a workspace snapshot when it changed, the folded state as a blob, then the event, then the pointer."""

from __future__ import annotations

from typing import Any

from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import SandboxGone
from agentlab.events import Draft, canonical
from agentlab.harness import toolcalls
from agentlab.harness.effectindex import chunked
from agentlab.harness.rig import Rig
from agentlab.ports import Pointer
from agentlab.session.commands import WriteCheckpoint
from agentlab.session.state import STATE_SCHEMA_VERSION
from agentlab.session.statecodec import to_json


def perform_checkpoint(command: WriteCheckpoint, rig: Rig) -> list[Draft]:
    """Write a checkpoint: blobs first, then one commit that refers to them, then the pointer (a hint)."""
    rig.recorder.commit()
    rig.acknowledge()
    started = rig.clock.monotonic()
    try:
        snapshot = snapshot_draft(rig)
    except SandboxGone as error:
        return [toolcalls.lost_draft(rig, str(error))]
    if snapshot is not None:
        # Durable before a checkpoint names it as its cursor: an input that lands first would move it to another seq.
        rig.recorder.commit((snapshot,))
    state = rig.recorder.committed
    data = canonical(to_json(state)).encode()
    digest = rig.blobs.put(data)
    payload: dict[str, Any] = {
        "checkpoint_id": f"{state.session_id}@{state.seq}",
        "schema_version": STATE_SCHEMA_VERSION,
        "cursor": state.seq,
        "cursor_hash": state.hash,
        "state": digest,
        "reason": command.reason,
        "size_bytes": len(data),
        "scheme": rig.run.definition.scheme,
    }
    if command.label:
        payload["label"] = command.label
    if command.request_id:
        payload["request_id"] = command.request_id
    if rig.state.sandbox.snapshot:
        payload["snapshot"] = rig.state.sandbox.snapshot
    chunks = chunked(state.effects, rig.blobs)
    if chunks is not None:
        payload["effect_chunks"] = [list(chunk) for chunk in chunks]
    duration = round((rig.clock.monotonic() - started) * 1000, 3)
    rig.recorder.commit((Draft("checkpoint_written", payload, duration_ms=duration, step=state.plan.current or None),))
    reach(CrashPoint.POINTER_WRITE, "before")
    rig.log.put_pointer(Pointer(rig.state.checkpoint.seq, rig.state.checkpoint.cursor, payload["cursor_hash"], digest))
    reach(CrashPoint.POINTER_WRITE, "after")
    return []


def snapshot_draft(rig: Rig) -> Draft | None:
    """A snapshot of the workspace if commands ran since the last one, else None.

    Raises:
        SandboxGone: the sandbox died.
    """
    sandbox = rig.state.sandbox
    if sandbox.status != "ready" or rig.sandbox is None or (sandbox.snapshot and not sandbox.since_snapshot):
        return None
    started = rig.clock.monotonic()
    taken = rig.sandbox.snapshot()
    payload = {
        "digest": taken.digest,
        "files": taken.files,
        "bytes": taken.bytes,
        "new_bytes": taken.new_bytes,
        "last_exec_id": taken.last_exec_id,
    }
    duration = round((rig.clock.monotonic() - started) * 1000, 3)
    return Draft("snapshot_taken", payload, duration_ms=duration, step=rig.state.plan.current or None)
