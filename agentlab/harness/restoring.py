"""Going back to a checkpoint: read it, verify it against the log, append ``restored_to``; the workspace follows by itself."""

from __future__ import annotations

from agentlab.errors import AgentlabError, CheckpointError
from agentlab.events import Draft, Event
from agentlab.harness.effectindex import settled_since
from agentlab.harness.rig import Rig
from agentlab.harness.wake import read_checkpoint
from agentlab.ports import Blobs, Log, Pointer
from agentlab.session.commands import Restore
from agentlab.session.state import State
from agentlab.session.superseding import is_superseded, ranges, restored_draft

TOLD = 20
"""Effects that the model is told of by name; the rest it finds in the log."""


def perform_restore(command: Restore, rig: Rig) -> list[Draft]:
    """Go back to a checkpoint by appending, or say why that is not possible."""
    rig.recorder.commit()
    seq = command.checkpoint_seq
    try:
        event, then = checkpoint_at(rig.log, rig.blobs, seq)
    except AgentlabError as error:
        refused = {"id": command.request_id, "checkpoint_seq": seq, "reason": str(error)}
        rig.recorder.commit((Draft("restore_refused", refused),))
        return []
    label = str(event.payload.get("label", ""))
    draft = restored_draft(
        rig.state, then, seq, command.reason, request_id=command.request_id, label=label, note=restore_note(rig, then)
    )
    rig.recorder.commit((draft,))
    return []


def checkpoint_at(log: Log, blobs: Blobs, seq: int) -> tuple[Event, State]:
    """The ``checkpoint_written`` event at ``seq`` and the state it stores, verified against the log.

    Raises:
        CheckpointError: there is none, it does not verify, or a return to an earlier one superseded it.
        CheckpointTooNew: a newer agentlab wrote it.
    """
    event = next(iter(log.replay(seq, seq)), None) if seq > 0 else None
    if event is None or event.type != "checkpoint_written":
        raise CheckpointError(f"event {seq} of session {log.session_id!r} is no checkpoint")
    by = superseded_by(log, seq)
    if by is not None:
        raise CheckpointError(
            f"the checkpoint at event {seq} is superseded: event {by} went back before it; fork the session there instead"
        )
    p = event.payload
    return event, read_checkpoint(log, blobs, Pointer(seq, p["cursor"], p["cursor_hash"], p["state"]))


def superseded_by(log: Log, seq: int) -> int | None:
    """The ``restored_to`` event that set event ``seq`` aside, None when it is in force."""
    for event in log.replay(seq + 1):
        if event.type == "restored_to" and is_superseded(seq, ranges((event,))):
            return event.seq
    return None


def restore_note(rig: Rig, then: State) -> str:
    """What the model is told: where it is again, and what has happened outside and stays so."""
    done = settled_since(rig.state.effects, rig.blobs, then.seq)
    lines = ["You were set back to an earlier checkpoint: what you did after it no longer counts."]
    lines += [
        f"- {s.tool} has happened all the same (key {s.key}); it must not be repeated, the same call gives its recorded result"
        for s in done[-TOLD:]
    ]
    if len(done) > TOLD:
        lines.append(f"- and {len(done) - TOLD} more effects before these; recall the log to see them")
    return "\n".join(lines)
