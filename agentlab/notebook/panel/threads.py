"""Threads of a panel, which speak for the cell that opened it, and widgets that go on hearing what a page says.

ipykernel 7.4 routes what a frontend sends to a widget to the shell under which the kernel spoke on that widget last.
A thread that was started bare speaks under whatever message came last, on any shell. Frontends send clicks over subshells
of their own (JupyterLab one for each page) and may delete them: a widget on which was last spoken under one that is gone
hears nothing any more, and every click on it is lost. So each thread keeps the context of the cell (the main shell's,
which lives as long as the kernel), and on a widget that has heard from a page something is said from such a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any


class OwnThread:
    """A daemon thread in the context in which this was made, whoever starts it later."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=copy_context().run, args=(run,), name=name, daemon=True)
        self._lock = threading.Lock()
        self._started = False

    def start(self) -> None:
        """Begin; doing it twice changes nothing."""
        with self._lock:
            if not self._started:
                self._started = True
                self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Await its end, unless it never began or is the caller."""
        if self._started and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)


class Answering:
    """Says something on every widget that has heard from a page, so that it goes on hearing."""

    def __init__(self, box: Any) -> None:
        self._heard: dict[int, Any] = {}
        self._lock = threading.Lock()
        for widget in _within(box):
            if widget.has_trait("value") and widget.has_trait("tooltip"):
                widget.observe(self._changed, names="value")

    def _changed(self, change: Any) -> None:
        with self._lock:
            self._heard[id(change["owner"])] = change["owner"]

    def answer(self) -> None:
        """Say it now; called on the panel's thread."""
        with self._lock:
            heard, self._heard = list(self._heard.values()), {}
        for widget in heard:
            widget.send_state("tooltip")


def _within(box: Any) -> list[Any]:
    found = [box]
    for child in getattr(box, "children", ()):
        found += _within(child)
    return found
