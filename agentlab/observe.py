"""Watching without disturbing: subscribers that fail are logged once and dropped, never felt by a run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger("agentlab")
log.addHandler(logging.NullHandler())


class Subscribers(Generic[T]):
    """A list of callbacks; :meth:`tell` calls each and never raises."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[T], None]] = []

    def add(self, callback: Callable[[T], None]) -> Callable[[], None]:
        """Subscribe; the returned function unsubscribes."""
        self._callbacks.append(callback)

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return remove

    def tell(self, item: T) -> None:
        """Hand ``item`` to every subscriber; one that raises is logged and dropped."""
        for callback in tuple(self._callbacks):
            try:
                callback(item)
            except Exception:
                log.exception("a subscriber failed and was dropped")
                if callback in self._callbacks:
                    self._callbacks.remove(callback)
