"""Anchors: facts that stay visible whatever is dropped. Found by rule in a call and its result, or set by a tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MAX_ANCHORS = 64
NAME_CHARS = 100
VALUE_CHARS = 2_000
FOUND_CHARS = 200
"""Longest value that is taken for an id or a parameter."""
PER_CALL = 4
"""Anchors that one call may add by rule."""

_ID = re.compile(r"(?:(?:^|_)(?:id|uuid|guid|ref|reference|ticket|receipt|confirmation)|_number)$", re.IGNORECASE)
_CHOSEN = re.compile(
    r"(?:^|_)(?:filters?|where|condition|query_filter|month|year|quarter|period|since|until|from_date|to_date|"
    r"start_date|end_date|region|currency|unit|timezone|locale|branch|environment|account|customer|tenant|schema)$",
    re.IGNORECASE,
)
_SPLIT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.\s]+")


def found_in(tool: str, arguments: Mapping[str, Any], output: Any, external: bool) -> dict[str, str]:
    """What a successful call established, by rule: chosen filters and parameters from its input, ids from its result.

    An id in the input or the result of any tool counts by its name (``order_id``, ``ticket``); a bare ``id`` counts in
    the result of an external effect, where it names what was done outside. Keys are anchor names.
    """
    found: dict[str, str] = {}
    for key, value in arguments.items():
        if len(found) < PER_CALL and _kind(key) in ("chosen", "id") and _scalar(value):
            found[key] = str(value)
    if isinstance(output, Mapping):
        for key, value in output.items():
            kind = _kind(key) if len(found) < PER_CALL else ""
            if (kind == "id" or (kind == "bare" and external)) and _scalar(value):
                found.setdefault(key if kind == "id" else f"{tool}.{key}", str(value))
    return found


@lru_cache(maxsize=2048)
def _kind(key: str) -> str:
    """What a name tells: a chosen filter, the id of something, a bare ``id``, or nothing."""
    name = key if key.islower() else _SPLIT.sub("_", key).lower()
    if name == "id":
        return "bare"
    return "id" if _ID.search(name) else "chosen" if _CHOSEN.search(name) else ""


def _scalar(value: Any) -> bool:
    if isinstance(value, bool) or value in (None, ""):
        return False
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= FOUND_CHARS and "\n" not in value)


def new_in(anchors: Mapping[str, str], found: Mapping[str, str], cap: int) -> dict[str, str]:
    """What of ``found`` is new or changed and has a place; what was pinned before is kept."""
    out = {k: v for k, v in found.items() if anchors.get(k) != v}
    free = cap - len(anchors)
    fresh = [k for k in out if k not in anchors]
    return {k: v for k, v in out.items() if k not in fresh[max(0, free) :]}
