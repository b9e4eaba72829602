"""Putting a workspace back: the newest snapshot, or an earlier one where that is damaged, or the task's own files."""

from __future__ import annotations

from collections.abc import Sequence

from agentlab.errors import SandboxError, SandboxGone
from agentlab.events import Draft, Event
from agentlab.harness.rig import Rig
from agentlab.sandbox.snapshot import decode, encode
from agentlab.session.superseding import is_superseded, ranges

Since = tuple[tuple[str, int], ...]
"""Commands (call id, seq of the result) that came after a snapshot, in order."""


def put_back(rig: Rig, digest: str) -> tuple[str, Since, int, list[Draft]]:
    """Fill the workspace; the snapshot that served, what came after it, its bytes, and drafts that name damaged ones.

    Raises:
        SandboxGone: the sandbox died.
        SandboxError: not even the task's files can be put in place.
    """
    assert rig.sandbox is not None
    since = rig.state.sandbox.since_snapshot
    skipped: list[Draft] = []
    if digest:
        tried = {digest}
        problem = _restored(rig, digest)
        if problem is None:
            return digest, since, _bytes(rig, digest), skipped
        skipped.append(_skipped(digest, problem))
        for taken, later in _earlier(rig):
            if taken in tried:
                continue
            tried.add(taken)
            problem = _restored(rig, taken)
            if problem is None:
                return taken, later, _bytes(rig, taken), skipped
            skipped.append(_skipped(taken, problem))
        since = _commands(_in_force(rig), 0)
    if rig.state.sandbox.stale or skipped:
        rig.sandbox.restore(rig.blobs.put(encode([])))
    rig.sandbox.put_files(rig.run.definition.files)
    return "", since, 0, skipped


def _restored(rig: Rig, digest: str) -> str | None:
    """None when the snapshot is in place, else why not."""
    assert rig.sandbox is not None
    try:
        rig.sandbox.restore(digest)
    except SandboxGone:
        raise
    except SandboxError as error:
        return str(error)
    return None


def _skipped(digest: str, why: str) -> Draft:
    return Draft("snapshot_skipped", {"digest": digest, "reason": why[:2000]})


def _bytes(rig: Rig, digest: str) -> int:
    return sum(entry.size for entry in decode(rig.blobs.get(digest)))


def _earlier(rig: Rig) -> list[tuple[str, Since]]:
    """Snapshots of the log that are in force, newest first, each with the commands after it."""
    events = _in_force(rig)
    taken = [event for event in events if event.type == "snapshot_taken"]
    return [(event.payload["digest"], _commands(events, event.seq)) for event in reversed(taken)]


def _in_force(rig: Rig) -> list[Event]:
    kept = ("snapshot_taken", "tool_requested", "tool_result", "tool_error", "restored_to")
    events = [event for event in rig.log.replay(1) if event.type in kept]
    aside = ranges(events)
    return [event for event in events if not is_superseded(event.seq, aside)]


def _commands(events: Sequence[Event], after: int) -> Since:
    sandboxed = {
        e.payload["call_id"] for e in events if e.type == "tool_requested" and e.payload["effect"] == "sandboxed"
    }
    return tuple(
        (e.payload["call_id"], e.seq)
        for e in events
        if e.seq > after
        and e.type in ("tool_result", "tool_error")
        and e.payload["call_id"] in sandboxed
        and not e.payload.get("not_run")
    )
