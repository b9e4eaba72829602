"""Live plots, drawn by a thread of their own into PNG: a plot that is slow or broken disturbs nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from html import escape
from typing import Any

from agentlab.lab import Session
from agentlab.notebook.panel.threads import OwnThread

PERIOD_S = 2.0
"""The plots are drawn anew at most this often."""
NAMES = ("latency", "loops", "burn", "context")
LOGGER = logging.getLogger("agentlab.panel")
_drawing = threading.Lock()  # matplotlib is not made for several threads at once


class Plots:
    """Four pictures. Nothing is drawn, and no plotting library loaded, before they are first looked at."""

    def __init__(self, widgets: Any, session: Session) -> None:
        self._session = session
        self.images = {name: widgets.Image(format="png", value=_EMPTY) for name in NAMES}
        self._note = widgets.HTML("<span class='al-quiet'>drawing …</span>")
        grid = widgets.Box(list(self.images.values()))
        grid.add_class("al-plots")
        self.box = widgets.VBox([self._note, grid])
        self._wanted = threading.Event()
        self._seq = self._drawn = -1
        self._closed = False
        self._thread = OwnThread("agentlab-plots", self._run)

    def want(self, seq: int) -> None:
        """The plots are being looked at and the session is at event ``seq``: draw them when that is news."""
        if seq == self._seq or self._closed:
            return
        self._seq = seq
        self._thread.start()
        self._wanted.set()

    def close(self) -> None:
        """Draw no more."""
        self._closed = True
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            seq, began = self._seq, time.monotonic()
            broken = [self._put(name) for name in NAMES]
            self._drawn = seq
            wrong = "; ".join(filter(None, broken))
            note = f"as of event {seq:,}, drawn in {time.monotonic() - began:.1f} s"
            self._note.value = f"<span class='al-quiet'>{escape(wrong or note)}</span>"
            time.sleep(PERIOD_S)

    def _put(self, name: str) -> str:
        try:
            self.images[name].value = picture(draw(name), self._session)
        except Exception as error:
            LOGGER.warning("the plot %s could not be drawn: %s", name, error)
            return f"the plot {name} could not be drawn: {error}"
        return ""


def draw(name: str) -> Callable[..., Any]:
    """The function that draws the plot of that name."""
    from agentlab.analysis import plots

    found: Callable[..., Any] = getattr(plots, name)
    return found


def picture(plot: Callable[..., Any], session: Session) -> bytes:
    """The PNG of a plot, with a transparent ground so that it can lie on any theme. Uses no pyplot."""
    from matplotlib.figure import Figure

    from agentlab.analysis.plots.drawing import png

    with _drawing:
        figure = Figure(figsize=(6.0, 3.3), layout="constrained")
        axes = figure.add_subplot()
        plot(session, ax=axes)
        figure.patch.set_alpha(0)
        axes.patch.set_alpha(0)
        return png(figure, dpi=110)


_EMPTY = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
"""One transparent pixel."""
