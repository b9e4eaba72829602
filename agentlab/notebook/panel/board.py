"""The panel as an object: what it shows in a notebook, live and static."""

from __future__ import annotations

import logging
import threading
from typing import Any

from agentlab.errors import UserError
from agentlab.lab import Session
from agentlab.notebook.display import mode
from agentlab.notebook.panel.feed import Feed
from agentlab.notebook.panel.pages import NOTE, when_a_page_opens
from agentlab.notebook.panel.pulse import Pulse, Updates
from agentlab.notebook.panel.record import record_html, record_png, record_text
from agentlab.notebook.panel.recorder import Recorder

LOGGER = logging.getLogger("agentlab.panel")
SESSIONS = 6
"""Sessions in one panel at most."""


SHORT = 300
"""Events that are read before the widgets are shown; longer logs are read while they are shown already."""


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
        self._recorder = Recorder(self.feeds)
        self._note: Any = None
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
        self._note = widgets.HTML()
        self._note.layout.display = "none"
        box = widgets.VBox([style, self._note, row])
        box.add_class("al-panel")
        return box

    def _short(self) -> bool:
        """Whether the logs are read in no time; else the panel's thread reads them, and the cell does not wait."""
        return bool(sum(column.feed.moment.state.seq for column in self.columns) <= SHORT)

    def beat(self) -> bool:
        """Bring everything up to date once; whether a session is at work."""
        busy = False
        with self._lock:  # a column is brought up to date by one thread at a time
            for column in self.columns:
                try:
                    busy = bool(column.beat()) or busy
                except Exception as error:  # a log that can not be read: the others are shown all the same
                    column.said(f"its log can not be read: {error}", True)
        return busy

    def _beat(self) -> bool:
        with self._lock:
            busy = self.beat()
            self._recorder.look(busy)
        return busy

    @property
    def updates(self) -> Updates:
        """How long the panel's updates take: reading the log and setting what has changed."""
        return Updates.of(list(self.pulse.took_s))

    def close(self) -> None:
        """Follow no longer. The widgets keep what they show, and so does the record."""
        self.pulse.close()
        self._recorder.close()
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

    # --- showing -----------------------------------------------------------------------------------------------------

    def _ipython_display_(self) -> None:
        from IPython import display

        show: Any = display.display
        if mode() == "live":
            show(self.open())
            # The picture follows from a thread: the cell does not wait until a plotting library is loaded.
            short = self._recorder.bundle(picture=False) if self._short() else None
            bundle = short or {"text/plain": f"{self!r}: reading the log …"}
            self._recorder.keep(show(bundle, raw=True, display_id=True))
            when_a_page_opens(self._page_opened)
        elif mode() == "plain":
            feeds = self.feeds()
            show({"image/png": record_png(feeds), "text/plain": repr(self)}, raw=True)
            html = "".join(map(record_html, feeds))
            show({"text/html": html, "text/plain": "\n".join(map(record_text, feeds))}, raw=True)

    def _page_opened(self) -> None:
        """Say that the record is renewed no more."""
        if self._note is not None:
            self._note.value = f"<div class='al-note'>{NOTE}</div>"
            self._note.layout.display = ""

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
