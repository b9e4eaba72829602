"""How far an experiment is: a bar with the time that is left. Watching never stops a run."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

WIDTH = 30
PERIOD_S = 0.25


@dataclass(frozen=True, slots=True)
class Progress:
    """Runs over, failed ones among them, and seconds gone and left (None before it can be told)."""

    name: str
    done: int
    failed: int
    total: int
    elapsed_s: float
    left_s: float | None

    def line(self) -> str:
        """The bar in one line of text."""
        filled = WIDTH * self.done // self.total if self.total else WIDTH
        bar = "█" * filled + "░" * (WIDTH - filled)
        failed = f", {self.failed} failed" if self.failed else ""
        left = f", {clock(self.left_s)} left" if self.left_s is not None and self.done < self.total else ""
        return f"{self.name} {bar} {self.done}/{self.total}{failed}, {clock(self.elapsed_s)}{left}"


Watch = Callable[[Progress], None]
"""Shown every now and then, and once at the end."""


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


class Line:
    """A bar on a terminal, rewritten in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, progress: Progress) -> None:
        end = "\n" if progress.done == progress.total else ""
        self._stream.write(f"\r\x1b[2K{progress.line()}{end}")
        self._stream.flush()


_makers: list[Callable[[], Watch | None]] = []


def use(maker: Callable[[], Watch | None]) -> None:
    """Let ``maker`` make the bar from now on (a notebook's, say); one that makes None leaves it to the terminal."""
    _makers[:] = [maker]


def default_watch() -> Watch | None:
    """A bar where somebody looks: in a notebook that has loaded the magic, on a terminal; else none."""
    for maker in _makers:
        watch = maker()
        if watch is not None:
            return watch
    stream = sys.stderr
    return Line(stream) if stream is not None and stream.isatty() else None


class Meter:
    """Counts runs and tells the watch, at most four times a second."""

    def __init__(self, name: str, total: int, done: int, watch: Watch | None) -> None:
        self._name, self._total, self._before, self._watch = name, total, done, watch
        self.done, self.failed = done, 0
        self._started = self._told = time.monotonic()

    def count(self, error: str) -> None:
        """One more run is over."""
        self.done += 1
        self.failed += bool(error)

    def tick(self, last: bool = False) -> None:
        """Tell the watch if it is time."""
        now = time.monotonic()
        if self._watch is None or (not last and now - self._told < PERIOD_S):
            return
        self._told = now
        elapsed, fresh = now - self._started, self.done - self._before
        left = elapsed / fresh * (self._total - self.done) if fresh else None
        with contextlib.suppress(Exception):
            self._watch(Progress(self._name, self.done, self.failed, self._total, elapsed, left))


def watch_of(progress: Any) -> Watch | None:
    """The watch that an argument ``progress`` means: a callable itself, True the default one, False none."""
    if callable(progress):
        watch: Watch = progress
        return watch
    return default_watch() if progress else None
