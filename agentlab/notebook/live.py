"""Following a run in a cell: one display that is updated while the cell waits, and what Interrupt means.

Everything happens on the thread that runs the cell, so nothing is left to be joined and no output can land in
another cell. Interrupt is counted by a signal handler instead of being raised wherever the code happens to be:
once asks for a pause at the next safe point, twice pauses now, a third time gives the cell back.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from agentlab.counting import counted
from agentlab.events import Event
from agentlab.lab import Session
from agentlab.lab.lines import QUIET, event_line
from agentlab.notebook.display import card, fold, lines_html, mode, paragraph
from agentlab.notebook.instruments import Instruments
from agentlab.session.recovery import done_steps

PERIOD_S = 0.25
"""At most four updates a second."""
SHORT_S = 0.2
RECENT = 8


class Interrupts:
    """How often the user has interrupted since the wait began."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


@contextmanager
def counted_interrupts() -> Iterator[Interrupts]:
    """Count Interrupt instead of raising it; outside the main thread none arrives and nothing is changed.

    Within another count it is the same one: what came between the start of a harness and the wait for it is not lost.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    outer = signal.getsignal(signal.SIGINT)
    if isinstance(outer, Interrupts):
        yield outer
        return
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def follow(session: Session, timeout_s: float | None = None) -> None:
    """Wait until the session rests, showing its progress in live mode.

    Raises:
        TimeoutError: it does not rest in time; it goes on in the background.
        KeyboardInterrupt: the third interrupt; the session goes on pausing in the background.
        UserError: its harness could not be started.
    """
    view = LiveView(session) if mode() == "live" else None
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    heard = 0
    with counted_interrupts() as interrupts:
        try:
            while True:
                try:
                    session.wait(SHORT_S, view.landed if view else None)
                    return
                except TimeoutError:
                    pass
                if interrupts.count > heard:
                    heard = _interrupted(session, heard, interrupts.count, view)
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(
                        f"session {session.id!r} does not rest within {timeout_s:g} s; it goes on in the background"
                    )
                if view:
                    view.refresh()
        finally:
            if view:
                view.finish()


def _interrupted(session: Session, heard: int, count: int, view: LiveView | None) -> int:
    if count > 2:
        raise KeyboardInterrupt
    if heard == 0:
        session.pause("interrupted")
        if view:
            view.note = "pausing at the next safe point; interrupt again to pause now"
    if count == 2:
        session.pause("interrupted", now=True)
        if view:
            view.note = "pausing now"
    return count


class LiveView:
    """The one display of a run in progress. It shows what the log says and keeps nothing that is not in it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.note = ""
        self._lines: list[str] = []
        self._instruments = Instruments()
        self._next = 0.0
        self._handle: Any = None
        self._shown = ""

    def landed(self, events: Sequence[Event]) -> None:
        """Take new events."""
        self._lines += [event_line(e) for e in events if e.type not in QUIET]
        self._instruments.take(events)
        self.refresh()

    def refresh(self) -> None:
        """Update the display, unless it was updated a moment ago or nothing has changed."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PERIOD_S
            self._put(self._html())

    def finish(self) -> None:
        """Leave a closed timeline; the result is an output of its own."""
        self._put(fold(f"{self.session.id}: timeline, {counted(len(self._lines), 'line')}", lines_html(self._lines)))

    def _put(self, html: str) -> None:
        from IPython import display

        show: Any = display.display
        if html == self._shown:
            return
        self._shown = html
        bundle = {"text/html": html, "text/plain": f"{self.session.id}: {counted(len(self._lines), 'line')}"}
        if self._handle is None:
            self._handle = show(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def _html(self) -> str:
        state = self.session.state
        steps = len(state.plan.steps)
        done = len(done_steps(state))
        status = self.session.status().status
        if status in ("crashed", "paused") and self.session.lab.supervisor.alive(self.session.id):
            status = "recovering" if status == "crashed" else "running"
        step = f"step {state.step.id}, " if state.step is not None else ""
        bar = f"<progress value='{done}' max='{max(1, steps)}' style='width:100%;height:8px'></progress>"
        words = f"{step}{done} of {steps} steps done, {counted(state.seq, 'event')}"
        note = paragraph(self.note) if self.note else paragraph("Interrupt pauses at the next safe point", quiet=True)
        words += f", {counted(state.recovery.crashes, 'crash', 'crashes')} survived"
        gauges = self._instruments.html(state, self.session.lab.clock.now_us())
        parts = (bar, paragraph(words), gauges, lines_html(self._lines[-RECENT:]), note)
        return card(self.session.id, *parts, status=status)
