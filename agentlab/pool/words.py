"""Limits of a pool as people write them."""

from __future__ import annotations


def session_limit(text: str) -> int:
    """A limit as people write it: a number from 1 on, or ``none`` (0).

    Raises:
        ValueError: neither.
    """
    number = 0 if text.lower() == "none" else int(text)
    if number < 0 or (number == 0 and text.lower() != "none"):
        raise ValueError(text)
    return number
