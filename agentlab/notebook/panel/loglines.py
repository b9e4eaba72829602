"""The log with a filter: the newest lines that hold every word."""

from __future__ import annotations

import threading
from html import escape
from typing import Any

from agentlab.counting import counted
from agentlab.notebook.panel.digest import LINES, Digest

SHOWN = 150


class LogLines:
    """The log of a session, newest below. At most :data:`SHOWN` lines are in the page."""

    def __init__(self, widgets: Any, digest: Digest) -> None:
        self._digest = digest
        self._showing = threading.RLock()
        self.filter = widgets.Text(
            placeholder="filter: words that a line must hold, as in  tool error", continuous_update=True
        )
        self.filter.layout.width = "100%"
        self._lines = widgets.HTML()
        self.box = widgets.VBox([self.filter, self._lines])
        self.filter.observe(lambda _: self.show(), names="value")

    def show(self) -> None:
        """Bring the lines up to date."""
        with self._showing:  # the panel's thread, and whoever types a filter, take turns
            self._show()

    def _show(self) -> None:
        words = self.filter.value.lower().split()
        with self._digest.lock:
            known = list(self._digest.lines)
        found = [line for _, _, line in known if all(word in line.lower() for word in words)]
        head = f"{len(found):,} of the newest {len(known):,} events" if words else counted(self._digest.seq, "event")
        if len(found) > SHOWN:
            head += f", the newest {SHOWN} are shown"
        if self._digest.seq > LINES and words:
            head += "; older ones: %agent log --from 1"
        html = f"<span class='al-quiet'>{head}</span><pre class='al-log'>{escape(chr(10).join(found[-SHOWN:][::-1]))}</pre>"
        if self._lines.value != html:
            self._lines.value = html
