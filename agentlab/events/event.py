"""The event: one row of the session log, and the hash chain over rows.

A :class:`Draft` is what a command answers with; :func:`seal` gives drafts their seq, time and hash and so makes
them :class:`Event` rows. Rows of one call of ``seal`` share a commit id: they land together or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentlab.errors import LogCorrupt, SchemaTooNew
from agentlab.events.canonical import canonical, parse
from agentlab.events.kinds import KINDS
from agentlab.evolve import quick

EVENT_SCHEMA_VERSION = 1
GENESIS = "0" * 64
"""The hash that the first row of a session chains to."""

COLUMNS_V1 = (
    "session_id",
    "seq",
    "ts",
    "type",
    "tool_name",
    "input_hash",
    "payload",
    "error",
    "error_type",
    "duration_ms",
    "step",
    "attempt",
    "incarnation",
    "call_id",
    "effect_key",
    "model",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost_usd",
    "parent_seq",
    "commit_id",
    "schema_version",
)
"""The columns that a row of schema_version 1 defines, in the order in which they are hashed."""


class Head(NamedTuple):
    """The newest row: its seq (0 before the first) and its hash."""

    seq: int
    hash: str


@quick
@dataclass(frozen=True, slots=True)
class Draft:
    """An event before it has a place in the log. ``payload`` is a JSON object and must not be changed later.

    Units: ``duration_ms`` milliseconds, ``cost_microusd`` millionths of a US dollar, tokens are counts.
    ``step`` counts plan steps from 1, ``attempt`` counts passes of the outer loop from 1.
    """

    type: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    tool_name: str | None = None
    input_hash: str | None = None
    error: Mapping[str, Any] | None = None
    error_type: str | None = None
    duration_ms: float | None = None
    step: int | None = None
    attempt: int | None = None
    call_id: str | None = None
    effect_key: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_microusd: int | None = None
    parent_seq: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class Event:
    """One row of the log.

    ``ts`` is microseconds since the epoch, UTC; ``payload`` and ``error`` are the parsed objects, ``payload_text``
    and ``error_text`` their canonical JSON exactly as stored; ``hash`` chains this row to the one before.
    """

    session_id: str
    seq: int
    ts: int
    type: str
    payload: Mapping[str, Any]
    payload_text: str
    incarnation: int
    commit_id: str
    hash: str
    schema_version: int = EVENT_SCHEMA_VERSION
    tool_name: str | None = None
    input_hash: str | None = None
    error: Mapping[str, Any] | None = None
    error_text: str | None = None
    error_type: str | None = None
    duration_ms: float | None = None
    step: int | None = None
    attempt: int | None = None
    call_id: str | None = None
    effect_key: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_microusd: int | None = None
    parent_seq: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The event as JSON, with the published field names first (sessionId, seq, ts, type, toolName …).

        ``ts`` is ISO 8601 in UTC with microseconds; fields without a value are left out, but for the eight
        published ones.
        """
        out: dict[str, Any] = {
            "sessionId": self.session_id,
            "seq": self.seq,
            "ts": iso(self.ts),
            "type": self.type,
            "toolName": self.tool_name,
            "inputHash": self.input_hash,
            "payload": dict(self.payload),
            "error": dict(self.error) if self.error is not None else None,
        }
        rest: dict[str, Any] = {
            "errorType": self.error_type,
            "durationMs": self.duration_ms,
            "step": self.step,
            "attempt": self.attempt,
            "incarnation": self.incarnation,
            "callId": self.call_id,
            "effectKey": self.effect_key,
            "model": self.model,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "cacheReadTokens": self.cache_read_tokens,
            "cacheWriteTokens": self.cache_write_tokens,
            "costUsd": None if self.cost_microusd is None else self.cost_microusd / 1e6,
            "parentSeq": self.parent_seq,
            "commitId": self.commit_id,
            "schemaVersion": self.schema_version,
            "hash": self.hash,
        }
        out.update((k, v) for k, v in rest.items() if v is not None)
        return out


def iso(ts_us: int) -> str:
    """Microseconds since the epoch as ISO 8601 UTC text with microseconds."""
    import datetime as dt

    moment = dt.datetime.fromtimestamp(ts_us // 1_000_000, dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ts_us % 1_000_000:06d}Z"


def seal(
    drafts: Sequence[Draft],
    head: Head,
    *,
    session_id: str,
    incarnation: int,
    commit_id: str,
    now_us: int,
) -> tuple[Event, ...]:
    """Drafts as the rows that follow ``head``, all in one commit. Pure.

    Raises:
        PayloadError: a payload that is not JSON.
        ValueError: an unknown kind, or a payload without a field that its kind requires.
    """
    out = []
    seq, chained = head
    for draft in drafts:
        seq += 1
        kind = KINDS.get(draft.type)
        if kind is None:
            raise ValueError(f"unknown event kind {draft.type!r}: add it to agentlab.events.kinds")
        for name in kind.required:
            if name not in draft.payload:
                raise ValueError(f"{draft.type} needs payload field {name!r}")
        event = _row(draft, session_id, seq, now_us, incarnation, commit_id, chained)
        chained = event.hash
        out.append(event)
    return tuple(out)


def _row(d: Draft, session_id: str, seq: int, now_us: int, incarnation: int, commit_id: str, previous: str) -> Event:
    payload_text = canonical(d.payload)
    error_text = None if d.error is None else canonical(d.error)
    duration_ms = None if d.duration_ms is None else float(d.duration_ms)
    tool_name = d.tool_name if d.tool_name is None or d.tool_name.isascii() else _utf8(d.tool_name)
    # The same order as COLUMNS_V1; built here by hand because attribute look-ups by name cost three times as much.
    values = (
        session_id, seq, now_us, d.type, tool_name, d.input_hash, payload_text, error_text, d.error_type,
        duration_ms, d.step, d.attempt, incarnation, d.call_id, d.effect_key, d.model, d.input_tokens,
        d.output_tokens, d.cache_read_tokens, d.cache_write_tokens, d.cost_microusd, d.parent_seq, commit_id,
        EVENT_SCHEMA_VERSION,
    )  # fmt: skip
    return Event(
        session_id, seq, now_us, d.type, d.payload, payload_text, incarnation, commit_id,
        chain_hash(previous, values), EVENT_SCHEMA_VERSION, tool_name, d.input_hash, d.error, error_text,
        d.error_type, duration_ms, d.step, d.attempt, d.call_id, d.effect_key, d.model, d.input_tokens,
        d.output_tokens, d.cache_read_tokens, d.cache_write_tokens, d.cost_microusd, d.parent_seq,
    )  # fmt: skip


def _utf8(text: str) -> str:
    # A model may name a tool with text that UTF-8 can not carry; the exact text is in the response's payload.
    return text.encode("utf-8", "replace").decode()


def chain_hash(previous: str, values: Iterable[str | int | float | None]) -> str:
    """SHA-256 over the previous hash and each non-null value, prefixed with its column number and length.

    Text as UTF-8 exactly as stored, integers in decimal (time in microseconds, money in millionths of a
    dollar), floats as the shortest text that reads back as the same number.
    """
    texts = [(i, v if type(v) is str else repr(v)) for i, v in enumerate(values) if v is not None]
    body = "".join([f"{i}:{len(t)}:{t}" for i, t in texts])
    return hashlib.sha256((previous + body).encode("utf-8", "surrogatepass")).hexdigest()


def column_values(event: Event) -> tuple[str | int | float | None, ...]:
    """The values of a row in the order of the columns that its schema_version defines."""
    if event.schema_version > EVENT_SCHEMA_VERSION:
        raise SchemaTooNew(
            f"event {event.seq} of session {event.session_id!r} has schema_version {event.schema_version}; this agentlab"
            f" reads up to {EVENT_SCHEMA_VERSION}: install the newer version that wrote it"
        )
    return (
        event.session_id, event.seq, event.ts, event.type, event.tool_name, event.input_hash, event.payload_text,
        event.error_text, event.error_type, event.duration_ms, event.step, event.attempt, event.incarnation,
        event.call_id, event.effect_key, event.model, event.input_tokens, event.output_tokens,
        event.cache_read_tokens, event.cache_write_tokens, event.cost_microusd, event.parent_seq, event.commit_id,
        event.schema_version,
    )  # fmt: skip


def verify_chain(events: Iterable[Event], head: Head) -> Head:
    """Check that ``events`` follow ``head`` without a gap and with unbroken hashes; return the new head.

    Raises:
        LogCorrupt: a gap, a foreign session, or a row whose hash does not match; the message names the seq.
    """
    seq, chained = head
    for event in events:
        if event.seq != seq + 1:
            raise LogCorrupt(f"session {event.session_id!r}: event {seq + 1} is missing, found {event.seq} instead")
        if chain_hash(chained, column_values(event)) != event.hash:
            raise LogCorrupt(
                f"session {event.session_id!r}: event {event.seq} does not match its hash; the row or the one before was changed"
            )
        seq, chained = event.seq, event.hash
    return Head(seq, chained)


def from_columns(row: Mapping[str, Any]) -> Event:
    """An event from a row with the columns of the Arrow schema (``ts`` in microseconds, ``cost_usd`` in dollars).

    Raises:
        LogCorrupt: payload or error are not JSON objects.
    """
    cost = row["cost_usd"]
    return Event(
        session_id=row["session_id"],
        seq=row["seq"],
        ts=row["ts"],
        type=row["type"],
        payload=_object(row["payload"], row["seq"]),
        payload_text=row["payload"],
        incarnation=row["incarnation"],
        commit_id=row["commit_id"],
        hash=row["hash"],
        schema_version=row["schema_version"],
        tool_name=row["tool_name"],
        input_hash=row["input_hash"],
        error=None if row["error"] is None else _object(row["error"], row["seq"]),
        error_text=row["error"],
        error_type=row["error_type"],
        duration_ms=row["duration_ms"],
        step=row["step"],
        attempt=row["attempt"],
        call_id=row["call_id"],
        effect_key=row["effect_key"],
        model=row["model"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        cache_read_tokens=row["cache_read_tokens"],
        cache_write_tokens=row["cache_write_tokens"],
        cost_microusd=None if cost is None else round(cost * 1e6),
        parent_seq=row["parent_seq"],
    )


def _object(text: str, seq: int) -> Mapping[str, Any]:
    try:
        value = parse(text)
    except Exception as error:
        raise LogCorrupt(f"event {seq}: its payload is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise LogCorrupt(f"event {seq}: its payload is not a JSON object")
    return value
