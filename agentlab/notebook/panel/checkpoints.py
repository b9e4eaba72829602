"""Checkpoints as widgets: a row each with what it is, what it cost and what it holds; restore, fork here, compare two."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any

from agentlab.counting import counted
from agentlab.lab import Session
from agentlab.notebook.panel.allowed import why_not
from agentlab.notebook.panel.deeds import Deeds
from agentlab.notebook.panel.digest import CheckpointRow, size_text, time_text
from agentlab.notebook.panel.feed import Feed
from agentlab.notebook.panel.judging import Judge, Say

ROWS = 6
"""Rows shown at a time; the buttons below turn the pages."""
_HEADS = ("seq", "label", "why", "age", "took", "size", "what it holds")
DIFFERENCES = 12


class Checkpoints:
    """The rows. They are made once and filled anew, so the page never holds more than :data:`ROWS` of them."""

    def __init__(
        self, widgets: Any, feed: Feed, judge: Judge, deeds: Deeds, say: Say, soon: Callable[[], None]
    ) -> None:
        self._feed, self._judge, self._deeds, self._say, self._soon = feed, judge, deeds, say, soon
        self.lock = threading.RLock()
        """Held while rows are filled or ticked: the panel's thread and whoever clicks take turns."""
        self._page = 0
        self._chosen: list[int] = []
        self._rows = [_Row(widgets, self) for _ in range(ROWS)]
        head = "".join(f"<span>{name}</span>" for name in _HEADS)
        self._head = widgets.HTML(f"<div class='al-cells al-th'>{head}</div>")
        self._newer = widgets.Button(description="◂ newer")
        self._older = widgets.Button(description="older ▸")
        self._compare = widgets.Button(description="≠ compare two", tooltip="compare the two rows that are ticked")
        self._count = widgets.HTML()
        self._found = widgets.HTML()
        self._newer.on_click(lambda _: self._turn(-1))
        self._older.on_click(lambda _: self._turn(1))
        self._compare.on_click(lambda _: self._do_compare())
        foot = widgets.HBox([self._newer, self._older, self._compare, self._count])
        foot.add_class("al-buttons")
        self.box = widgets.VBox([self._head, *(row.box for row in self._rows), foot, self._found])

    # --- showing -----------------------------------------------------------------------------------------------------

    def show(self) -> None:
        """Bring the rows up to date."""
        with self.lock:
            self._show()

    def _show(self) -> None:
        with self._feed.digest.lock:
            known = list(self._feed.digest.checkpoints)[::-1]
        self._page = max(0, min(self._page, (len(known) - 1) // ROWS))
        shown = known[self._page * ROWS : (self._page + 1) * ROWS]
        now_us = time.time() * 1e6
        for index, row in enumerate(self._rows):
            row.show(shown[index] if index < len(shown) else None, now_us, self._chosen)
        total = self._feed.digest.checkpoints_written
        words = counted(total, "checkpoint") if total else "no checkpoint yet"
        if total > ROWS:
            words += f", rows {self._page * ROWS + 1}–{self._page * ROWS + len(shown)}"
        _set(self._count, f"<span class='al-quiet'>{words}</span>")

    def _turn(self, by: int) -> None:
        with self.lock:
            self._page += by
            self._show()

    def tick(self, seq: int, on: bool) -> None:
        """A row was ticked: the newest two ticked ones are those to compare."""
        with self.lock:
            self._chosen = [s for s in self._chosen if s != seq] + ([seq] if on else [])
            self._chosen = self._chosen[-2:]
            self._show()

    # --- doing -------------------------------------------------------------------------------------------------------

    def restore(self, row: CheckpointRow) -> None:
        """Go back to a checkpoint: what came after it is superseded, not erased."""
        self._act("restore", "restore", row, lambda session: _restored(session, row.seq))

    def fork(self, row: CheckpointRow) -> None:
        """Begin a new session from a checkpoint."""
        self._act("fork", "fork", row, lambda session: _forked(session, row.seq))

    def _act(self, name: str, action: str, row: CheckpointRow, work: Callable[[Session], str]) -> None:
        words = f"{name} {row.seq}"

        def said(result: Any, complaint: str) -> None:
            self._say(f"{words}: {complaint or result}", bool(complaint))
            self._soon()

        def act() -> None:
            self._say(f"{words} …", False)
            self._deeds.do(work, said)

        self._judge.press(words, partial(why_not, action), act)

    def _do_compare(self) -> None:
        if len(self._chosen) != 2:
            self._say("compare: tick two rows first", True)
            return
        first, second = sorted(self._chosen)

        def said(result: Any, complaint: str) -> None:
            self._say(f"compare {first} and {second}: {complaint or 'see below'}", bool(complaint))
            if not complaint:
                _set(self._found, result)

        self._deeds.do(lambda session: comparison_html(session, first, second), said)


class _Row:
    """One row: a tick, the cells, two buttons."""

    def __init__(self, widgets: Any, owner: Checkpoints) -> None:
        self._owner = owner
        self._row: CheckpointRow | None = None
        self._tick = widgets.Checkbox(indent=False, tooltip="choose for comparison")
        self._cells = widgets.HTML()
        self._restore = widgets.Button(description="↶ restore")
        self._fork = widgets.Button(description="↳ fork here")
        self.box = widgets.HBox([self._tick, self._cells, self._restore, self._fork])
        self.box.add_class("al-ck")
        self.box.layout.display = "none"
        self._showing = False
        self._tick.observe(self._ticked, names="value")
        self._restore.on_click(lambda _: self._row and owner.restore(self._row))
        self._fork.on_click(lambda _: self._row and owner.fork(self._row))

    def _ticked(self, change: Any) -> None:
        with self._owner.lock:  # else a tick that comes while the panel's thread fills the row would pass for its own
            if not self._showing and self._row is not None:
                self._owner.tick(self._row.seq, bool(change["new"]))

    def show(self, row: CheckpointRow | None, now_us: float, chosen: list[int]) -> None:
        changed = row != self._row
        self._row = row
        display = "none" if row is None else "flex"
        if self.box.layout.display != display:
            self.box.layout.display = display
        if row is None:
            return
        _set(self._cells, _cells(row, now_us))
        self._showing = True
        try:
            if self._tick.value != (row.seq in chosen):
                self._tick.value = row.seq in chosen
        finally:
            self._showing = False
        if changed:
            self._restore.tooltip = f"go back to checkpoint {row.seq}; what came after it is superseded, not erased"
            self._fork.tooltip = f"begin a new session from checkpoint {row.seq}"


def _cells(row: CheckpointRow, now_us: float) -> str:
    age = max(0.0, (now_us - row.ts) / 1e6)
    coarse = age if age < 10 else age // 5 * 5  # not a new message every tick
    label = escape(row.label) or "<span class='al-quiet'>—</span>"
    why = escape(row.reason)
    cells = [
        f"<b class='al-num'>▣ {row.seq}</b>", f"<span title='{label if row.label else ''}'>{label}</span>",
        f"<span title='{why}'>{why}</span>", f"<span class='al-num'>{int(coarse)} s</span>" if age < 120
        else f"<span class='al-num'>{time_text(age)}</span>", f"<span class='al-num'>{time_text(row.cost_ms / 1000)}</span>",
        f"<span class='al-num'>{size_text(row.size)}</span>", f"<span title='{escape(row.holds)}'>{escape(row.holds)}</span>",
    ]  # fmt: skip
    return f"<div class='al-cells'>{''.join(cells)}</div>"


def _restored(session: Session, seq: int) -> str:
    session.restore(seq)
    return "asked; what came after it is superseded, not erased. A resting session does it at its next wake"


def _forked(session: Session, seq: int) -> str:
    made = session.fork(seq)
    return f"new session {made.id}; it rests until it is woken: %agent panel {made.id}"


def comparison_html(session: Session, first: int, second: int) -> str:
    """The two folded states side by side: every value in which they differ, :data:`DIFFERENCES` of them openly."""
    before, after = _state(session, first), _state(session, second)
    rows = [
        (name, before.get(name, "—"), after.get(name, "—"))
        for name in sorted(before.keys() | after.keys(), key=_rank)
        if before.get(name) != after.get(name)
    ]
    head = f"<tr><th>state</th><th>▣ {first}</th><th>▣ {second}</th></tr>"
    lines = [
        f"<tr><td>{escape(n)}</td><td class='al-num'>{_shown(a)}</td><td class='al-num'>{_shown(b)}</td></tr>"
        for n, a, b in rows
    ]
    first_ones, others = "".join(lines[:DIFFERENCES]), "".join(lines[DIFFERENCES:200])
    more = (
        f"<details><summary>{len(rows) - DIFFERENCES} more</summary><table>{others}</table></details>" if others else ""
    )
    return f"<table><thead>{head}</thead><tbody>{first_ones}</tbody></table>{more}"


_FIRST = ("turns", "plan", "effects", "calls", "sandbox", "context", "budget", "recovery", "loop", "model", "control")


def _rank(name: str) -> tuple[int, str]:
    """What a person looks for first comes first."""
    top = name.partition(".")[0]
    return (_FIRST.index(top) if top in _FIRST else len(_FIRST), name)


def _state(session: Session, seq: int) -> dict[str, str]:
    event = next(iter(session.replay(seq, seq)))
    data = json.loads(session.lab.store.blobs.get(event.payload["state"]))
    return dict(_leaves("", {name: data[name] for name in data if name not in _PLUMBING}))


_PLUMBING = ("hash", "baseline", "process", "faults")


def _leaves(path: str, value: Any) -> Any:
    if isinstance(value, dict) and value and len(path) < 60:
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}" if path else str(name), inner)
    else:
        yield path, json.dumps(value, sort_keys=True)


def _shown(text: str) -> str:
    return escape(text if len(text) <= 60 else text[:59] + "…")


def _set(widget: Any, value: str) -> None:
    if widget.value != value:
        widget.value = value
