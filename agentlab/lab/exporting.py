"""A session's events as a file for others: JSON lines, or one Parquet file.

One event is one line with the field names of :meth:`agentlab.events.Event.to_json`, in order of ``seq``. What was
spilled into blobs is fetched, so the file stands alone. Nothing in the lab is changed.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlab.errors import BadDefinition, UserError, refusal
from agentlab.events import Event
from agentlab.events.codec import encode

if TYPE_CHECKING:
    from agentlab.lab.recorded import RecordedSession

FORMATS = (".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: where, how many events, how many bytes."""

    path: Path
    events: int
    size_bytes: int


def export(
    session: RecordedSession, path: str | os.PathLike[str] | None, from_seq: int, to_seq: int | None
) -> Exported:
    """Write events to ``path``; see :meth:`agentlab.lab.Session.export`."""
    target = Path(path) if path is not None else Path(f"{_file_name(session.id)}.jsonl")
    if target.suffix not in FORMATS:
        raise BadDefinition(f"{target.name}: a name that ends in {' or '.join(FORMATS)} says what to write")
    events = list(session.replay(from_seq, to_seq))
    if not events:
        raise UserError(f"session {session.id!r} has no events from {from_seq} to {to_seq or 'the end'}")
    data = _lines(session, events) if target.suffix == ".jsonl" else encode(events, sealed=True)
    _write(target, data)
    return Exported(target, len(events), len(data))


def _lines(session: RecordedSession, events: list[Event]) -> bytes:
    return b"".join(_line(session, event) for event in events)


def _line(session: RecordedSession, event: Event) -> bytes:
    data: dict[str, Any] = {**event.to_json(), "payload": session.content(event)}
    return json.dumps(data, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _write(target: Path, data: bytes) -> None:
    """All or nothing: a file that is there is whole."""
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise UserError(f"{str(target)!r} can not be written: {refusal(error)}; name another path with --to") from error


def _file_name(session_id: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in session_id)[:100] or "session"
