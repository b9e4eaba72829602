"""The panel as an object: what it shows in a notebook, live and static."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from agentlab.errors import UserError
from agentlab.lab import Session
from agentlab.notebook.display import mode
from agentlab.notebook.panel.feed import Feed
from agentlab.notebook.panel.pulse import Pulse
from agentlab.notebook.panel.record import folded, record_html, record_png, record_text

LOGGER = logging.getLogger("agentlab.panel")
SESSIONS = 6
"""Sessions in one panel at most."""


SHORT = 300
"""Events that are read before the widgets are shown; longer logs are read while they are shown already."""
RENEWED_S = 15.0
"""How often the record is renewed while a session runs."""


class Panel:
    """Widgets over one or several sessions. Closing it, or the browser, disturbs none of them."""

    def __init__(self, sessions: list[Session]) -> None:
        if len(sessions) > SESSIONS:
            raise UserError(
                f"a panel shows {SESSIONS} sessions at most, not {len(sessions)}: choose some, or open two panels"
            )
        self.sessions = sessions
        self.widget: Any = None
        self.columns: list[Any] = []
        self.pulse = Pulse(self._beat)
        self._record: Any = None
        self._recorded: tuple[Any, ...] = ()
        self._renewed = 0.0
        self._lock = threading.RLock()

    # --- live --------------------------------------------------------------------------------------------------------

    def open(self) -> Any:
        """Make the widgets and begin to follow the sessions; the widget. Doing it twice changes nothing.

        Raises:
            UserError: ipywidgets can not be imported.
        """
        with self._lock:
            if self.widget is None:
                self.widget = self._built()
                if self._short():
                    self.beat()
                self.pulse.start()
        return self.widget

    def _built(self) -> Any:
        try:
            import ipywidgets as widgets
        except ImportError as error:
            raise UserError(
                f"the panel needs ipywidgets ({error}): pip install ipywidgets, or use %agent status"
            ) from None
        from agentlab.notebook.panel.column import Column
        from agentlab.notebook.panel.style import STYLE

        self.columns = [Column(widgets, session, self.pulse.soon) for session in self.sessions]
        row = widgets.Box([column.box for column in self.columns])
        row.add_class("al-columns")
        style = widgets.HTML(STYLE)
        style.layout.display = "none"
        box = widgets.VBox([style, row])
        box.add_class("al-panel")
        return box

    def _short(self) -> bool:
        """Whether the logs are read in no time; else the panel's thread reads them, and the cell does not wait."""
        return bool(sum(column.feed.moment.state.seq for column in self.columns) <= SHORT)

    def beat(self) -> bool:
        """Bring everything up to date once; whether a session is at work."""
        busy = False
        for column in self.columns:
            try:
                busy = bool(column.beat()) or busy
            except Exception as error:  # a log that can not be read: the others are shown all the same
                column.said(f"its log can not be read: {error}", True)
        return busy

    def _beat(self) -> bool:
        with self._lock:
            busy = self.beat()
            self._keep_record(busy)
        return busy

    def close(self) -> None:
        """Follow no longer. The widgets keep what they show, and so does the record."""
        self.pulse.close()
        for column in self.columns:
            column.close()

    # --- the record --------------------------------------------------------------------------------------------------

    def feeds(self) -> list[Feed]:
        """The sessions as read: those of the widgets, or freshly read ones."""
        if self.columns:
            return [column.feed for column in self.columns]
        feeds = [Feed(session) for session in self.sessions]
        for feed in feeds:
            while feed.look() and feed.behind:
                pass
        return feeds

    def _keep_record(self, busy: bool) -> None:
        """Renew the record below the widgets: when the sessions have come to rest, and now and then while they run."""
        stand = tuple((column.feed.digest.seq, column.feed.moment.word) for column in self.columns)
        now = time.monotonic()
        if self._record is None or stand == self._recorded or (busy and now < self._renewed + RENEWED_S):
            return
        self._recorded, self._renewed = stand, now
        self._record.update(self._bundle(), raw=True)

    def _bundle(self, picture: bool = True) -> dict[str, str]:
        with self._lock:
            feeds = self.feeds()
            return {"text/html": folded(feeds, picture), "text/plain": "\n".join(map(record_text, feeds))}

    # --- showing -----------------------------------------------------------------------------------------------------

    def _ipython_display_(self) -> None:
        from IPython import display

        show: Any = display.display
        if mode() == "live":
            show(self.open())
            # The picture follows from the panel's thread: the cell does not wait until a plotting library is loaded.
            bundle = self._bundle(picture=False) if self._short() else {"text/plain": f"{self!r}: reading the log …"}
            self._record = show(bundle, raw=True, display_id=True)
            self.pulse.soon()
        elif mode() == "plain":
            feeds = self.feeds()
            show({"image/png": record_png(feeds), "text/plain": repr(self)}, raw=True)
            html = "".join(map(record_html, feeds))
            show({"text/html": html, "text/plain": "\n".join(map(record_text, feeds))}, raw=True)

    def __repr__(self) -> str:
        return f"Panel({', '.join(repr(session.id) for session in self.sessions)})"


_open: dict[tuple[tuple[str, str], ...], Panel] = {}
_open_lock = threading.Lock()


def opened(new: Panel) -> Panel:
    """Note a panel; an older one over the same sessions stops following: running a cell again costs no second thread."""
    key = tuple((str(session.lab.path), session.id) for session in new.sessions)
    with _open_lock:
        before = _open.pop(key, None)
        _open[key] = new
    if before is not None:
        before.close()
    return new
