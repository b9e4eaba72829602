"""Verifying a session whole: every row's hash, and every blob that a row leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentlab.errors import LogCorrupt
from agentlab.events import GENESIS, Event, Head, parse, verify_chain
from agentlab.ports import Blobs, Log
from agentlab.sandbox.snapshot import digests


def verify_session(log: Log, blobs: Blobs) -> Head:
    """Check rows and blobs; the verified head.

    Raises:
        LogCorrupt: the first row that does not match its hash, or the first blob that is missing or changed, with the
            event that names it.
    """
    checked: set[str] = set()

    def rows() -> Iterator[Event]:
        for event in log.replay(1):  # of a fork from the first event of its oldest ancestor on
            yield event
            for digest in named(event):
                _check(event, digest, blobs, checked)

    return verify_chain(rows(), Head(0, GENESIS))


def named(event: Event) -> Iterator[str]:
    """Digests of the blobs that an event names: spilled values, files, pickled code, states, effects, snapshots."""
    payload = event.payload
    yield from _stubs(payload)
    if event.type == "session_started":
        definition = payload["definition"]
        yield from (definition.get("files") or {}).values()
        if payload["input"].get("dump"):
            yield payload["input"]["dump"]
        if (definition.get("model_ref") or {}).get("blob"):
            yield definition["model_ref"]["blob"]
        yield from (payload.get("effects") or {}).get("chunk", ())[:1]
    elif event.type == "checkpoint_written":
        yield payload["state"]
        yield from (chunk[0] for chunk in payload.get("effect_chunks") or ())
    elif event.type == "snapshot_taken":
        yield payload["digest"]


def _inside(event: Event, digest: str, data: bytes) -> list[str]:
    """Digests that a blob which ``event`` names leads on to."""
    payload = event.payload
    if event.type == "snapshot_taken" and digest == payload["digest"]:
        return digests(data)
    if event.type != "session_started":
        return []
    if payload["definition"].get("$blob") == digest:
        return list((parse(data.decode()).get("files") or {}).values())
    if digest in (payload.get("effects") or {}).get("chunk", ())[:1]:  # results that a fork finds on record
        return [row[-1] for row in parse(data.decode()) if row[-1]]
    return []


def _stubs(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "$blob" in value:
            yield str(value["$blob"])
        else:
            for inner in value.values():
                yield from _stubs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _stubs(inner)


def _check(event: Event, digest: str, blobs: Blobs, checked: set[str]) -> None:
    if digest in checked:
        return
    checked.add(digest)
    try:
        data = blobs.get(digest)
        inside = _inside(event, digest, data)
    except (LogCorrupt, ValueError) as error:
        raise LogCorrupt(f"session {event.session_id!r}: event {event.seq} ({event.type}) names {error}") from None
    for inner in inside:
        if inner not in checked:
            checked.add(inner)
            try:
                blobs.get(inner)
            except LogCorrupt as error:
                raise LogCorrupt(
                    f"session {event.session_id!r}: event {event.seq} ({event.type}) names {error}"
                ) from None
