"""Large payloads out of the row: values over the limit go to a blob, a stub with a preview stays.

A stub is ``{"$blob": digest, "$bytes": length, "$preview": first characters}``. Keys that users write and that
begin with ``$`` are doubled by :func:`agentlab.events.canonical.plain`, so a stub can not be forged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentlab.events.canonical import Json, canonical, parse

ROW_LIMIT = 64 * 1024
"""Bytes of canonical JSON that a payload may have in its row."""
PREVIEW = 1024
_WORTH_IT = 4 * 1024


def spill(payload: Mapping[str, Any], put: Callable[[bytes], str], limit: int = ROW_LIMIT) -> Mapping[str, Any]:
    """``payload`` itself when it fits, else a copy whose largest values are stubs.

    ``put`` stores bytes and returns their digest; it is called before the row that refers to them exists.
    """
    if len(canonical(payload)) <= limit // 4 or len(canonical(payload).encode()) <= limit:
        return payload
    return {key: _shrunk(value, put) for key, value in payload.items()}


def _shrunk(value: Json, put: Callable[[bytes], str]) -> Json:
    text = canonical(value)
    if len(text) <= _WORTH_IT:
        return value
    if isinstance(value, dict) and value.keys() != {"$blob", "$bytes", "$preview"}:
        smaller: Json = {k: _shrunk(v, put) for k, v in value.items()}
        if len(canonical(smaller)) <= _WORTH_IT * 2:
            return smaller
    elif isinstance(value, list) and len(value) <= 64:
        smaller = [_shrunk(v, put) for v in value]
        if len(canonical(smaller)) <= _WORTH_IT * 2:
            return smaller
    data = text.encode()
    preview = value[:PREVIEW] if isinstance(value, str) else text[:PREVIEW]
    return {"$blob": put(data), "$bytes": len(data), "$preview": preview}


def resolve(value: Json, get: Callable[[str], bytes]) -> Json:
    """``value`` with every stub replaced by what it stands for."""
    if isinstance(value, dict):
        if "$blob" in value and "$bytes" in value:
            return parse(get(value["$blob"]).decode())
        return {k: resolve(v, get) for k, v in value.items()}
    if isinstance(value, list):
        return [resolve(v, get) for v in value]
    return value
