"""Commands off the thread that receives clicks: a callback hands one over and returns at once.

Two lines of work, each with its own thread and its own :class:`Session`: what may take long (a step, a restore) never
keeps waiting what must not wait (a pause, a kill).
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Callable
from typing import Any

from agentlab.errors import AgentlabError
from agentlab.lab import Session
from agentlab.notebook.panel.threads import OwnThread

LOGGER = logging.getLogger("agentlab.panel")
Work = Callable[[Session], Any]
Said = Callable[[Any, str], None]
"""``(result, complaint)``: called on the worker's thread; the complaint is empty when the work was done."""


class Deeds:
    """One line of work: commands are done in order, one at a time, by a daemon thread."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._queue: queue.SimpleQueue[tuple[Work, Said] | None] = queue.SimpleQueue()
        self._thread = OwnThread(name, self._run)

    def do(self, work: Work, said: Said) -> None:
        """Hand a command over."""
        self._thread.start()
        self._queue.put((work, said))

    def withdraw(self, why: str) -> int:
        """Take back the commands that have not begun, each told ``why``; how many. The one in progress goes on."""
        waiting = []
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.append(self._queue.get_nowait())
        for item in waiting:
            if item is None:
                self._queue.put(None)
            else:
                item[1](None, why)
        return sum(item is not None for item in waiting)

    def close(self) -> None:
        """No further commands; the one in progress is finished."""
        self._queue.put(None)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            work, said = item
            result, complaint = None, ""
            try:
                result = work(self._session)
            except (AgentlabError, TimeoutError, OSError) as error:
                complaint = " ".join(str(error).split())
            except Exception as error:  # a command never takes the panel along
                LOGGER.exception("a command of the panel failed")
                complaint = f"{type(error).__name__}: {error}"
            try:
                said(result, complaint)
            except Exception:
                LOGGER.exception("the panel could not show what a command did")


def own(session: Session) -> Session:
    """The same session with a reader of its own: each thread reads with its own."""
    return Session(session.lab, session.lab.store.open(session.id))
