"""Time as a port: the system's clock, and one that tests and simulations turn by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations, and the only way to sleep."""

    def now_us(self) -> int:
        """Microseconds since 1970-01-01 UTC. May go backwards; never used for order."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes backwards."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


class ShiftedClock:
    """Another clock whose wall time somebody set wrong: it jumps by what is added with :meth:`shift`."""

    def __init__(self, inner: Clock) -> None:
        self._inner, self._shift_us = inner, 0

    def shift(self, seconds: float) -> None:
        """Set the wall clock ``seconds`` forward, or back with a negative number. Durations stay right."""
        self._shift_us += round(seconds * 1e6)

    def now_us(self) -> int:
        return self._inner.now_us() + self._shift_us

    def monotonic(self) -> float:
        return self._inner.monotonic()

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class ManualClock:
    """A clock that moves only when it is slept on or advanced; ``tick_us`` is added at each reading."""

    def __init__(self, start_us: int = 1_700_000_000_000_000, tick_us: int = 0) -> None:
        self._wall = start_us
        self._mono = 0.0
        self._tick_us = tick_us

    def now_us(self) -> int:
        self._wall += self._tick_us
        return self._wall

    def monotonic(self) -> float:
        self._mono += self._tick_us / 1e6
        return self._mono

    def sleep(self, seconds: float) -> None:
        self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by ``seconds``."""
        self._wall += round(seconds * 1e6)
        self._mono += seconds

    def set_wall(self, now_us: int) -> None:
        """Jump the wall clock, backwards too; the monotonic clock stays."""
        self._wall = now_us
