"""Identifiers as a port: random ones for real runs, a counted series for deterministic ones."""

from __future__ import annotations

import secrets
from typing import Protocol


class Ids(Protocol):
    """A source of identifiers that do not repeat."""

    def new(self, prefix: str) -> str:
        """A fresh identifier that starts with ``prefix`` and a dash."""
        ...


class RandomIds:
    """64 random bits, from the operating system."""

    def new(self, prefix: str) -> str:
        return f"{prefix}-{secrets.token_hex(8)}"


class CountedIds:
    """``prefix-000001``, ``prefix-000002`` …: the same in every run."""

    def __init__(self, start: int = 0) -> None:
        self._count = start

    def new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count:06d}"
