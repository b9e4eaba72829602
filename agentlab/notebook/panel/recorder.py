"""Keeps the static record below a panel up to date, on a thread of its own: a picture that takes long delays no update."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from agentlab.notebook.panel.feed import Feed
from agentlab.notebook.panel.record import folded, record_text
from agentlab.notebook.panel.threads import OwnThread

LOGGER = logging.getLogger("agentlab.panel")
RENEWED_S = 15.0
"""How often the record is renewed while a session runs."""


class Recorder:
    """The display below the widgets. :meth:`look` is called at every update and returns at once."""

    def __init__(self, feeds: Callable[[], list[Feed]]) -> None:
        self._feeds = feeds
        self._handle: Any = None
        self._recorded: tuple[Any, ...] = ()
        self._renewed = -RENEWED_S
        self._wanted = threading.Event()
        self._closed = False
        self._complained = ""
        self._thread = OwnThread("agentlab-record", self._run)

    def keep(self, handle: Any) -> None:
        """The display to be kept up to date from now on."""
        self._handle = handle
        self._wanted.set()
        self._thread.start()

    def look(self, busy: bool) -> None:
        """Have the record renewed when the sessions have come to rest, and now and then while they run."""
        stand = self._stand()
        if self._handle is None or stand == self._recorded:
            return
        if not busy or time.monotonic() >= self._renewed + RENEWED_S:
            self._wanted.set()

    def close(self) -> None:
        """Renew no more; a picture in progress is finished."""
        self._closed = True
        self._wanted.set()

    def bundle(self, picture: bool = True) -> dict[str, str]:
        """The record as it now is."""
        feeds = self._feeds()
        return {"text/html": folded(feeds, picture), "text/plain": "\n".join(map(record_text, feeds))}

    def _stand(self) -> tuple[Any, ...]:
        return tuple((feed.digest.seq, feed.moment.word) for feed in self._feeds())

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            stand = self._stand()
            if stand == self._recorded:
                continue
            self._recorded, self._renewed = stand, time.monotonic()
            try:
                self._handle.update(self.bundle(), raw=True)
            except Exception as error:  # what watches never disturbs what it watches
                if str(error) != self._complained:
                    self._complained = str(error)
                    LOGGER.warning("the record below the panel could not be renewed: %s", error)
