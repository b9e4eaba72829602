"""What every log checks before it appends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from agentlab.errors import UserError
from agentlab.events import Event
from agentlab.ports import Durability


def commit_id_of(events: Sequence[Event], expected_seq: int, session_id: str) -> str:
    """The commit id that ``events`` share.

    Raises:
        ValueError: an empty sequence, a gap, a foreign session id, or mixed commit ids.
    """
    if not events:
        raise ValueError("an append needs at least one event")
    if expected_seq < 1:
        raise ValueError(f"seq begins at 1, not {expected_seq}")
    commit_id = events[0].commit_id
    for offset, event in enumerate(events):
        if event.seq != expected_seq + offset:
            raise ValueError(f"event {offset} of the append has seq {event.seq}, expected {expected_seq + offset}")
        if event.session_id != session_id:
            raise ValueError(f"event {event.seq} belongs to session {event.session_id!r}, this log is {session_id!r}")
        if event.commit_id != commit_id:
            raise ValueError(f"event {event.seq} has commit id {event.commit_id!r}, the first one {commit_id!r}")
    return commit_id


def known_durability(durability: str) -> None:
    """Raises ``UserError`` for a durability that does not exist."""
    if durability not in get_args(Durability):
        raise UserError(f"durability {durability!r} does not exist: choose one of {', '.join(get_args(Durability))}")


def hole(session_id: str, expected_seq: int, head: int) -> ValueError:
    """What is wrong with an append that would leave a hole."""
    return ValueError(f"session {session_id!r} ends at {head}: appending at {expected_seq} would leave a hole")
