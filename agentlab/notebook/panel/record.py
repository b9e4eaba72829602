"""The static record of a panel: a picture and a plain table that stay in a saved notebook, where widgets do not.

Time runs along event numbers, not seconds: the same session gives the same picture.
"""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from agentlab.counting import counted
from agentlab.notebook.display import card, columns, fold, mode, paragraph, stable, table
from agentlab.notebook.panel.crashes import Crash
from agentlab.notebook.panel.digest import CheckpointRow, Digest, Mark, size_text, time_text
from agentlab.notebook.panel.feed import Feed
from agentlab.notebook.panel.lanes import LANES
from agentlab.notebook.panel.plots import _drawing

_CHECKPOINTS = ("checkpoint", "label", "why", "step", "what it holds")
_CRASHES = ("crash", "where", "at event", "steps of the recovery", "redone", "effects verified", "lost steps")
SHOWN = 12


def record_html(feed: Feed) -> str:
    """The record as tables."""
    with feed.digest.lock:
        return _html(feed)


def _html(feed: Feed) -> str:
    digest, status = feed.digest, feed.moment.status
    head = f"{status.steps_done} of {status.steps} steps done, {counted(digest.seq, 'event')}"
    parts = [paragraph(head, quiet=True)]
    if digest.crashes:
        parts.append(table(_CRASHES, _crash_rows(digest)))
    if digest.checkpoints:
        parts.append(table(_CHECKPOINTS, _checkpoint_rows(digest)))
    return card(feed.session.id, *parts, status=feed.moment.word)


def record_text(feed: Feed) -> str:
    """The record as text."""
    with feed.digest.lock:
        return _text(feed)


def _text(feed: Feed) -> str:
    digest, status = feed.digest, feed.moment.status
    lines = [
        f"{feed.session.id}: {feed.moment.word}, {status.steps_done} of {status.steps} steps done, {counted(digest.seq, 'event')}"
    ]
    if digest.crashes:
        lines.append(columns(_CRASHES, _crash_rows(digest)))
    if digest.checkpoints:
        lines.append(columns(_CHECKPOINTS, _checkpoint_rows(digest)))
    return "\n".join(lines)


def _crash_rows(digest: Digest) -> list[tuple[Any, ...]]:
    return [
        (c.target, stable(c.cause), c.seq, _steps(c), c.redone, "; ".join(c.verified) or "—", c.lost_steps)
        for c in list(digest.crashes)[-SHOWN:]
    ]


def _steps(crash: Crash) -> str:
    if crash.target == "sandbox":
        return "restored" if crash.over else "restoring"
    words = []
    for name, (outcome, took) in crash.steps.items():
        timed = "" if mode() == "plain" else f" {time_text(took / 1000)}"
        words.append(f"{name} {'✓' if outcome == 'done' else outcome}{timed}")
    return ", ".join(words) or "…"


def _checkpoint_rows(digest: Digest) -> list[tuple[Any, ...]]:
    return [_checkpoint_row(row) for row in list(digest.checkpoints)[-SHOWN:]]


def _checkpoint_row(row: CheckpointRow) -> tuple[Any, ...]:
    # Sizes of states change by a few bytes from run to run (clocks are in them): plain mode leaves them out.
    holds = row.holds if mode() == "plain" else f"{row.holds} · state {size_text(row.size)}"
    return (f"▣ {row.seq}", row.label or "—", row.reason, row.step or "—", holds)


def record_png(feeds: list[Feed]) -> bytes:
    """The timelines of the sessions as one picture, readable on light and dark pages."""
    from matplotlib.figure import Figure

    from agentlab.analysis.plots.drawing import png

    with _drawing:
        figure = Figure(figsize=(9.0, 2.0 * len(feeds) + 0.35), layout="constrained", facecolor="white")
        axes = figure.subplots(len(feeds), 1, squeeze=False)[:, 0]
        for ax, feed in zip(axes, feeds, strict=True):
            with feed.digest.lock:
                marks, seq = list(feed.digest.marks), feed.digest.seq
            _lanes(ax, marks, seq)
            ax.set_title(f"{feed.session.id}: {feed.moment.word}", loc="left", fontsize=10)
        axes[-1].set_xlabel("event", fontsize=8.5)
        return png(figure, dpi=100)


def _lanes(ax: Any, marks: list[Mark], seq: int) -> None:
    for number, lane in enumerate(LANES):
        found = [mark.seq for mark in marks if mark.lane == number]
        ax.plot(found, [number] * len(found), lane.marker, color=lane.colour, markersize=5.2, markeredgewidth=1.1)
    first = marks[0].seq if marks else 1
    ax.set_xlim(first - 1, max(seq, first + 10) + 1)
    ax.set_ylim(len(LANES) - 0.4, -0.6)
    ax.set_yticks(range(len(LANES)), [lane.name for lane in LANES], fontsize=8.5)
    ax.tick_params(axis="x", labelsize=8)
    ax.grid(True, axis="x", color="#E6E6E6", linewidth=0.6)
    for number in range(len(LANES)):
        ax.axhline(number, color="#EEEEEE", linewidth=0.8, zorder=0)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)


def folded(feeds: list[Feed], picture: bool = True) -> str:
    """The whole record as one closed fold, the picture inside: what a live panel leaves below itself."""
    image = ""
    if picture:
        alt = escape("; ".join(record_text(feed).splitlines()[0] for feed in feeds), quote=True)
        source = base64.b64encode(record_png(feeds)).decode()
        image = f"<img alt='{alt}' src='data:image/png;base64,{source}' style='max-width:100%;margin:4px 0'>"
    names = ", ".join(feed.session.id for feed in feeds)
    return fold(f"record of {names}: stays in the saved notebook", image + "".join(map(record_html, feeds)))
