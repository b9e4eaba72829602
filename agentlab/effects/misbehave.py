"""How an outside misbehaves on demand: a queue of next misdeeds, one taken by each request that would execute."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

PLAIN = ("lose_reply", "error_before", "error_after")
TIMED = ("slow", "late")


class Misdeed(NamedTuple):
    """One misdeed; ``seconds`` is used by the timed ones.

    ``lose_reply`` executes and cuts the connection, ``error_before`` refuses without executing, ``error_after``
    executes and then reports an error, ``slow`` executes and replies ``seconds`` later, ``late`` waits ``seconds``
    and only then executes.
    """

    kind: str = ""
    seconds: float = 0.0


def parse(item: Any) -> Misdeed:
    """``"lose_reply"``, ``{"slow": 1.5}`` and so on; ``"ok"`` is a request that goes well. Raises ValueError."""
    if item == "ok":
        return Misdeed()
    if item in PLAIN:
        return Misdeed(str(item))
    if isinstance(item, dict) and len(item) == 1:
        kind, seconds = next(iter(item.items()))
        if kind in TIMED and isinstance(seconds, int | float) and 0 <= seconds <= 3600:
            return Misdeed(kind, float(seconds))
    known = ", ".join(("ok", *PLAIN, *(f'{{"{kind}": seconds}}' for kind in TIMED)))
    raise ValueError(f"no such misdeed: {item!r}; known: {known}")


class Misdeeds:
    """The queue; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: deque[Misdeed] = deque()

    def replace(self, items: Sequence[Any]) -> int:
        """Put ``items`` in place of what was queued; returns their number. Raises ValueError, then nothing changed."""
        parsed = deque(parse(item) for item in items)
        with self._lock:
            self._next = parsed
        return len(parsed)

    def take(self) -> Misdeed:
        """The next misdeed; an empty one when none is queued."""
        with self._lock:
            return self._next.popleft() if self._next else Misdeed()

    def __len__(self) -> int:
        """How many are still queued."""
        with self._lock:
            return len(self._next)
