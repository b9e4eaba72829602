"""The beat of a panel: a daemon thread that looks at the log at most four times a second and sets widget traits."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agentlab.counting import counted
from agentlab.notebook.panel.threads import OwnThread

PERIOD_S = 0.25
A_SECOND = 4
"""At most four updates in any second, however often somebody presses something."""
IDLE_S = 0.5
"""How often a panel looks whose sessions all rest."""
LOGGER = logging.getLogger("agentlab.panel")


@dataclass(frozen=True, slots=True)
class Updates:
    """How long the newest updates of a panel took, in milliseconds; ``count`` of them, at most 2,000."""

    count: int
    median_ms: float
    p95_ms: float
    slowest_ms: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Updates:
        """From the durations in seconds."""
        known = sorted(seconds)
        if not known:
            return cls(0, 0.0, 0.0, 0.0)
        return cls(len(known), *(1000 * known[int(share * (len(known) - 1))] for share in (0.5, 0.95, 1.0)))

    def __str__(self) -> str:
        return (
            f"{counted(self.count, 'update')}: half within {self.median_ms:.1f} ms, 95 % within {self.p95_ms:.1f} ms,"
            f" the slowest {self.slowest_ms:.0f} ms"
        )


class Pulse:
    """Calls ``beat`` until it is closed. ``beat`` says whether something is going on.

    An error in a beat is logged and the next beat comes: what watches never disturbs what it watches.
    """

    def __init__(self, beat: Callable[[], bool]) -> None:
        self._beat = beat
        self._soon = threading.Event()
        self._closed = False
        self.thread = OwnThread("agentlab-panel", self._run)
        self.took_s: deque[float] = deque(maxlen=2000)
        """Seconds of the newest beats."""
        self.began: deque[float] = deque(maxlen=2000)
        """When the newest beats began, in seconds of the monotonic clock."""
        self.beats = 0
        """How often it has beaten."""
        self._complained = ""

    def start(self) -> None:
        """Begin to beat."""
        self.thread.start()

    def soon(self) -> None:
        """Look at the next opportunity instead of when it is time: somebody has done something."""
        self._soon.set()

    def close(self, wait: bool = True) -> None:
        """Stop beating."""
        self._closed = True
        self._soon.set()
        if wait:
            self.thread.join(5.0)

    def _until_free(self) -> float:
        """Seconds until another update may come; a moment at least, so that several wishes in a row are one."""
        if len(self.began) < A_SECOND:
            return 0.02
        return max(0.02, self.began[-A_SECOND] + 1.0 - time.monotonic())

    def _run(self) -> None:
        busy = True
        while not self._closed:
            began = time.monotonic()
            self.began.append(began)
            try:
                busy = self._beat()
            except Exception as error:
                if str(error) != self._complained:  # said once, not four times a second
                    self._complained = str(error)
                    LOGGER.warning("the panel could not be brought up to date: %s", error)
            took = time.monotonic() - began
            self.took_s.append(took)
            self.beats += 1
            self._soon.wait(max(0.05, (PERIOD_S if busy else IDLE_S) - took))
            self._soon.clear()
            if not self._closed:
                time.sleep(self._until_free())
