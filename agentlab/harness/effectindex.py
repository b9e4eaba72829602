"""Settled effects by operation: the newest in the state, the rest in chunks that checkpoints share.

A chunk is a blob: canonical JSON of ``[key, tool, input_hash, first_seq, result_seq, outcome, output]`` rows. Chunks of
equal size class merge by powers of sixteen, so that a checkpoint names few of them however long the session is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from agentlab.events import canonical, parse
from agentlab.harness.rig import Rig
from agentlab.ports import Blobs
from agentlab.session.state import EffectsState, Settled

CHUNK_AT = 16


def settled_effect(rig: Rig, tool: str, input_hash: str) -> Settled | None:
    """The settled effect of an operation, completed or left undone by a person, or None."""
    for settled in reversed(rig.state.effects.recent):
        if settled.tool == tool and settled.input_hash == input_hash:
            return settled
    for digest, _ in reversed(rig.state.effects.chunks):
        found = _chunk(rig.blobs, digest).get((tool, input_hash))
        if found is not None:
            return found
    return None


def settled_by_key(rig: Rig, key: str) -> Settled | None:
    """The settled effect of a key, completed or left undone by a person, or None."""
    rows = (row for digest, _ in reversed(rig.state.effects.chunks) for row in _chunk(rig.blobs, digest).values())
    return next((row for row in (*reversed(rig.state.effects.recent), *rows) if row.key == key), None)


def settled_since(effects: EffectsState, blobs: Blobs, seq: int) -> list[Settled]:
    """Completed effects whose result stands after event ``seq``, in order."""
    found = [row for digest, _ in effects.chunks for row in _chunk(blobs, digest).values()]
    return [row for row in (*found, *effects.recent) if row.result_seq > seq and row.outcome == "completed"]


def _chunk(blobs: Blobs, digest: str) -> dict[tuple[str, str], Settled]:
    # Content-addressed, so the digest alone is the key of the cache.
    found = _CHUNKS.get(digest)
    if found is None:
        rows = [Settled(*row) for row in parse(blobs.get(digest).decode())]
        found = {(row.tool, row.input_hash): row for row in rows}
        if len(_CHUNKS) >= 64:
            _CHUNKS.clear()
        _CHUNKS[digest] = found
    return found


_CHUNKS: dict[str, dict[tuple[str, str], Settled]] = {}


def chunked(effects: EffectsState, blobs: Blobs) -> tuple[tuple[str, int], ...] | None:
    """The chunks after moving ``recent`` into them, or None when it is too early."""
    if len(effects.recent) < CHUNK_AT:
        return None
    rows = list(effects.recent)
    chunks = list(effects.chunks)
    while chunks and chunks[-1][1] < 16 * len(rows) and len(chunks) > 8:
        digest, _ = chunks.pop()
        rows = [*_chunk(blobs, digest).values(), *rows]
    return (*chunks, stored_chunk(rows, blobs))


def stored_chunk(rows: Sequence[Settled], blobs: Blobs) -> tuple[str, int]:
    """A chunk of these rows: its blob and how many they are."""
    return blobs.put(canonical([list(astuple(row)) for row in rows]).encode()), len(rows)
