"""Waking: load the newest checkpoint that verifies, read only what comes after its cursor, open an incarnation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentlab.clock import Clock
from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import AgentlabError, CheckpointError, CheckpointTooNew, LogCorrupt
from agentlab.events import GENESIS, Draft, Event, Head, chain_hash, column_values, parse
from agentlab.ports import Blobs, Log, Pointer
from agentlab.session.fold import fold
from agentlab.session.migrations import check_version
from agentlab.session.schemes import scheme_named
from agentlab.session.state import STATE_SCHEMA_VERSION, State
from agentlab.session.statecodec import state_from_json


@dataclass(frozen=True, slots=True)
class Loaded:
    """A session's state as read back: from which checkpoint, how many events after it, what was skipped."""

    state: State
    checkpoint: Pointer | None
    replayed: int
    skipped: tuple[tuple[int, str], ...]
    tail: tuple[Event, ...]
    duration_ms: float = 0.0


def load(log: Log, blobs: Blobs, clock: Clock | None = None) -> Loaded:
    """The folded state of a session: newest checkpoint that verifies, then the events after its cursor.

    Under the scheme *events* no checkpoint is rested on, and every event is folded. ``clock`` measures how long it took.

    Raises:
        LogCorrupt: a gap or a row that does not match its hash.
        CheckpointTooNew: the newest checkpoint needs a newer agentlab.
    """
    began = clock.monotonic() if clock is not None else 0.0
    reach(CrashPoint.CHECKPOINT_LOAD, "before")
    skipped: list[tuple[int, str]] = []
    state, used = State(hash=GENESIS), None
    for pointer in log.pointers():
        try:
            event = _checkpoint_event(log, pointer)
            if not scheme_named(event.payload.get("scheme") or "hybrid").rests_on_checkpoints():
                break
            state, used = _read(event, log, blobs), pointer
            break
        except CheckpointTooNew:
            raise
        except (CheckpointError, LogCorrupt) as error:
            skipped.append((pointer.seq, str(error)))
    reach(CrashPoint.REPLAY, "before")
    tail: list[Event] = []
    head = Head(state.seq, state.hash)
    for event in log.replay(state.seq + 1):
        head = _chained(event, head)
        state = fold(state, event)
        tail.append(event)
    reach(CrashPoint.REPLAY, "after")
    duration_ms = round((clock.monotonic() - began) * 1000, 3) if clock is not None else 0.0
    return Loaded(state, used, len(tail), tuple(skipped), tuple(tail), duration_ms)


def _chained(event: Event, head: Head) -> Head:
    if event.seq != head.seq + 1 or chain_hash(head.hash, column_values(event)) != event.hash:
        raise LogCorrupt(
            f"session {event.session_id!r}: event {event.seq} does not follow event {head.seq}; run `agentlab verify` to see where"
        )
    return Head(event.seq, event.hash)


def read_checkpoint(log: Log, blobs: Blobs, pointer: Pointer) -> State:
    """The state that a checkpoint stores, verified against the log.

    Raises:
        CheckpointError: the pointer, the event or the blob do not agree; the message says which.
        CheckpointTooNew: a newer schema_version.
    """
    return _read(_checkpoint_event(log, pointer), log, blobs)


def _checkpoint_event(log: Log, pointer: Pointer) -> Event:
    event = next(iter(log.replay(pointer.seq, pointer.seq)), None)
    if event is None or event.type != "checkpoint_written":
        raise CheckpointError(f"the pointer names event {pointer.seq}, which is no checkpoint")
    return event


def _read(event: Event, log: Log, blobs: Blobs) -> State:
    state = checkpoint_state(event, blobs)
    at_cursor = next(iter(log.replay(state.seq, state.seq)), None)
    if at_cursor is None or at_cursor.hash != state.hash:
        raise CheckpointError(
            f"checkpoint {event.seq}: the log has another event {state.seq} than the one it stands for"
        )
    return state


def checkpoint_state(event: Event, blobs: Blobs) -> State:
    """The state that a ``checkpoint_written`` event refers to.

    Raises:
        CheckpointError, CheckpointTooNew: as in :func:`read_checkpoint`.
    """
    payload = event.payload
    version = payload["schema_version"]
    try:
        check_version(version, STATE_SCHEMA_VERSION)
        data: Any = parse(blobs.get(payload["state"]).decode())
        state = state_from_json(data, version)
    except CheckpointTooNew as error:
        raise CheckpointTooNew(f"checkpoint {event.seq} has {error}") from None
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {event.seq}: {error}") from None
    except (AgentlabError, UnicodeDecodeError) as error:
        raise CheckpointError(f"checkpoint {event.seq}: its state can not be read: {error}") from None
    if state.seq != payload["cursor"] or state.hash != payload["cursor_hash"]:
        raise CheckpointError(f"checkpoint {event.seq}: its state is not the one at event {payload['cursor']}")
    return state


def opening(
    loaded: Loaded,
    *,
    process: Mapping[str, Any],
    baseline: Mapping[str, Any],
    reason: str,
    death: Mapping[str, Any] | None,
    marks: Sequence[Draft],
    death_id: str,
) -> list[Draft]:
    """The drafts that open an incarnation: what is known of the death before, ``harness_woken``, changes, marks."""
    state = loaded.state
    drafts: list[Draft] = []
    if death is not None and state.incarnation:
        notice = {k: v for k, v in death.items() if v is not None}
        drafts.append(Draft("harness_died", {"id": death_id, "incarnation": state.incarnation, "pid": 0, **notice}))
    woken: dict[str, Any] = {
        "process": dict(process),
        "baseline": dict(baseline),
        "reason": reason,
        "cursor": loaded.checkpoint.cursor if loaded.checkpoint else 0,
    }
    if loaded.checkpoint is not None:
        woken["checkpoint_seq"] = loaded.checkpoint.seq
    if state.incarnation:
        woken["previous"] = {"incarnation": state.incarnation, "process": dict(state.process)}
    drafts.append(Draft("harness_woken", woken))
    drafts += [Draft("checkpoint_skipped", {"checkpoint_seq": seq, "reason": why}) for seq, why in loaded.skipped]
    changed = sorted(k for k in {*state.baseline, *baseline} if state.baseline.get(k) != baseline.get(k))
    if changed and state.incarnation:
        before = {k: state.baseline.get(k) for k in changed}
        after = {k: baseline.get(k) for k in changed}
        drafts.append(Draft("baseline_changed", {"fields": changed, "before": before, "after": after}))
    return [*drafts, *marks]


def wake_reason(state: State, takeover: bool) -> str:
    """Why an incarnation opens: ``start``, ``resume`` after a rest, ``takeover``, or ``crash``."""
    if takeover:
        return "takeover"
    if state.incarnation == 0:
        return "start"
    return "resume" if state.control.rested else "crash"


def with_incarnation(state: State, incarnation: int) -> State:
    """The state under which drafts of a new incarnation are sealed."""
    return replace(state, incarnation=incarnation)
