"""A key that can be used and not shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from agentlab.errors import NoCredentials

_KEY_LIKE = re.compile(r"sk-ant-[\w-]+|(?i:bearer)\s+[\w.~+/=-]{8,}")
MASK = "***"


class Secret:
    """A key. Its text comes out of :meth:`reveal` only: not by repr, not by formatting, not by pickling.

    Raises:
        NoCredentials: an empty key, or one with characters that no HTTP header can carry.
    """

    __slots__ = ("_reveal",)

    def __init__(self, text: str, source: str) -> None:
        text = text.strip()  # a key read from a file often ends in a line end
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            # Said here because the HTTP client's own complaint would quote the key.
            raise NoCredentials(
                f"the key from {source} is empty or holds characters that no key has (white space, non-ASCII);"
                " copy it again"
            )
        self._reveal: Callable[[], str] = lambda: text  # a closure: no attribute holds the text

    def reveal(self) -> str:
        """The key itself."""
        return self._reveal()

    def masked(self, text: str) -> str:
        """``text`` without the key."""
        return text.replace(self.reveal(), MASK)

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not travel to another process; set ANTHROPIC_API_KEY there")


def mask(text: str, secret: Secret | None) -> str:
    """``text`` without ``secret`` and without anything that looks like a key of Anthropic's."""
    if secret is not None:
        text = secret.masked(text)
    return _KEY_LIKE.sub(MASK, text)
