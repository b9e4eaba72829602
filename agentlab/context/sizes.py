"""How large a piece of context is, in estimated tokens, without looking outside the event that holds it.

Four characters count as one token. What the fold knows of an event is an upper bound of what the model is shown of
it, so that a request that fits by these numbers fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RESULT_LIMIT = 12_000
"""Characters of one tool result that the model sees; the rest stays in the log."""
MARKER = 120
"""Characters that the words about what was left out may take."""
BLOCK_OVERHEAD = 100
"""Characters that a block and its message cost beyond its text."""


def estimate_tokens(text_length: int) -> int:
    """Tokens of a text of ``text_length`` characters: a quarter, rounded up. An estimate for planning only."""
    return (text_length + 3) // 4


def result_tokens(payload_text: str) -> int:
    """Upper bound of the tokens of a tool result or error as shown, from its payload as stored."""
    if '"$blob"' in payload_text:  # spilled values are fetched when they are shown
        return estimate_tokens(RESULT_LIMIT + MARKER + BLOCK_OVERHEAD)
    # An output that is no text is shown as JSON inside a JSON string: each quote and backslash costs one more.
    length = len(payload_text) + payload_text.count('"') + payload_text.count("\\")
    return estimate_tokens(min(length, RESULT_LIMIT + MARKER) + BLOCK_OVERHEAD)


def capped_tokens(cap: int) -> int:
    """Upper bound of the tokens of a result of which ``cap`` characters are shown."""
    return estimate_tokens(cap + MARKER + BLOCK_OVERHEAD)


def response_tokens(payload: Mapping[str, Any], payload_text: str) -> int:
    """Upper bound of the tokens of a model's answer as shown."""
    length = len(payload_text) - len(payload.get("text") or "")  # the text stands there a second time
    if '"$blob"' in payload_text:
        length += _spilled(payload.get("content"))
    return estimate_tokens(length + BLOCK_OVERHEAD)


def _spilled(value: Any) -> int:
    if isinstance(value, Mapping):
        if "$blob" in value and isinstance(value.get("$bytes"), int):
            return int(value["$bytes"])
        return sum(map(_spilled, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_spilled, value))
    return 0
