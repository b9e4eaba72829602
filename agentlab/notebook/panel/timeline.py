"""The timeline: one row per lane, one column per event, in blocks so that only the newest block is sent again."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from agentlab.notebook.panel.digest import MARKS, Digest, Mark
from agentlab.notebook.panel.lanes import LANES

BLOCK = 50
BLOCKS = MARKS // BLOCK
HINT = "point at a mark for its event, click it for the payload"


class Timeline:
    """The widgets of a timeline. At most :data:`MARKS` marks are in the page, whatever the session's length."""

    def __init__(self, widgets: Any) -> None:
        self._blocks = [widgets.HTML() for _ in range(BLOCKS)]
        names = "".join(
            f"<div class='al-lane al-l{i}'><b>{lane.sign}</b> {lane.name}</div>" for i, lane in enumerate(LANES)
        )
        self._names = widgets.HTML(f"<div class='al-lanes'>{names}</div>")
        self._counts = widgets.HTML()
        track = widgets.HBox(list(reversed(self._blocks)))
        track.add_class("al-track")
        row = widgets.HBox([self._names, self._counts, track])
        row.add_class("al-rows")
        hint = widgets.HTML(f"<div class='al-hint'>{HINT}</div>")
        self.box = widgets.VBox([row, hint])
        self.box.add_class("al-timeline")

    def show(self, digest: Digest) -> None:
        """Bring the marks up to date; blocks that have not changed are not sent again."""
        for block, html in zip(self._blocks, blocks_html(digest.marks), strict=False):
            if block.value != html:
                block.value = html
        counts = "".join(f"<div class='al-lane'>{digest.counts[lane.name]}</div>" for lane in LANES)
        if self._counts.value != counts:
            self._counts.value = f"<div class='al-lanes al-counts'>{counts}</div>"


def blocks_html(marks: Sequence[Mark]) -> list[str]:
    """The HTML of every block, oldest first; a block begins at a multiple of :data:`BLOCK`, so that it stays the same."""
    groups: dict[int, list[Mark]] = {}
    for mark in marks:
        groups.setdefault((mark.seq - 1) // BLOCK, []).append(mark)
    # One event more than fits cuts the oldest block off, instead of moving every mark by one.
    shown = sorted(groups)[-BLOCKS:]
    html = [_block(groups[number]) for number in shown]
    return html + [""] * (BLOCKS - len(html))


def _block(marks: Sequence[Mark]) -> str:
    return f"<div class='al-block'>{''.join(map(_mark, marks))}</div>"


def _mark(mark: Mark) -> str:
    column = (mark.seq - 1) % BLOCK + 1
    label = escape(mark.line, quote=True)
    grid = f"grid-column:{column};grid-row:{mark.lane + 1}"
    pop = f"<span class='al-pop'><b>{label}</b><i>{escape(mark.payload)}</i></span>"
    return f"<span class='al-m al-l{mark.lane}' tabindex='-1' style='{grid}'>{mark.sign}{pop}</span>"
