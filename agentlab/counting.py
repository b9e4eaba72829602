"""A number with its noun, which agrees with it."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """``1 event``, ``2 events``, ``10,000 events``; ``many`` where the plural is not the singular and an *s*."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
