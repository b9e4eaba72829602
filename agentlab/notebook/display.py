"""How things are shown: live, plain or not at all; and the small HTML that every object shares.

HTML is escaped, needs no network, and carries inline styles only: a notebook from elsewhere loses ``<style>`` and
``<script>``. Colours of text are inherited, so that it reads in light and dark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal

from agentlab.events import readable

Mode = Literal["live", "plain", "none"]
MODES: tuple[Mode, ...] = ("live", "plain", "none")
ROWS = 20
"""Rows shown openly; the rest is in a fold (HTML) or counted (text)."""

_chosen: str = ""


def choose(mode: str) -> None:
    """Override AGENTLAB_DISPLAY for this process; an empty text gives it back."""
    global _chosen
    _chosen = mode


def mode() -> Mode:
    """``live``, ``plain`` or ``none``: as chosen, as AGENTLAB_DISPLAY says, else live where somebody can look.

    Under CI and without a kernel it is plain: one final static output, without clocks and without ids that change.
    """
    for word in (_chosen, os.environ.get("AGENTLAB_DISPLAY", "")):
        if word in MODES:
            return word
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return "plain"
    return "live" if _kernel() else "plain"


def _kernel() -> bool:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:  # the views work without IPython
        return False
    return getattr(get_ipython(), "kernel", None) is not None


_CHANGING = (
    (re.compile(r"\bsb-[0-9a-f]{8,}"), "sb-…"),
    (re.compile(r"\bprocess \d+"), "its process"),
    (re.compile(r" ?\(pid \d+\)"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)?"), "…"),
    (re.compile(r"\b\d+ s\b"), "… s"),
)


def stable(text: str) -> str:
    """The text without what changes from run to run (process ids, sandbox ids, clocks), in plain mode."""
    if mode() != "plain":
        return text
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return text


class Shown:
    """Base of everything that a verb returns: text for a terminal, HTML for a notebook, both made without side effects.

    Half a surrogate pair in a payload is shown as an escape: a kernel can send no other, and the cell would fail.
    """

    def text(self) -> str:
        """The object as plain text."""
        raise NotImplementedError

    def html(self) -> str:
        """The object as HTML."""
        return f"<pre style='margin:0;white-space:pre-wrap'>{escape(self.text())}</pre>"

    def __repr__(self) -> str:
        return readable(self.text())

    def _repr_html_(self) -> str:
        return readable(self.html())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _ipython_display_(self) -> None:
        if mode() != "none":
            raise NotImplementedError  # IPython then asks for the representations above


# --- HTML ----------------------------------------------------------------------------------------------------------------

_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"padding:3px 12px 3px 0;text-align:left;vertical-align:top;border-bottom:{_LINE};white-space:normal"
_COLOURS = {
    "completed": "#009e73", "running": "#0072b2", "paused": "#e69f00", "waiting": "#cc79a7", "crashed": "#d55e00",
    "failed": "#d55e00", "new": "#56b4e9", "recovering": "#56b4e9", "queued": "#56b4e9",
}  # fmt: skip
SIGNS = {
    "completed": "✓", "running": "▶", "paused": "‖", "waiting": "?", "crashed": "✗", "failed": "✗", "new": "○",
    "recovering": "♻", "unknown": "…", "queued": "…",
}  # fmt: skip
"""One sign for each status, to be told apart without colour."""


def badge(status: str) -> str:
    """A status as a sign and a word in a coloured frame."""
    colour = _COLOURS.get(status, "#888888")
    style = (
        f"border:1px solid {colour};border-left:6px solid {colour};border-radius:3px;padding:1px 8px;font-weight:600"
    )
    return f"<span style='{style}'>{SIGNS.get(status, '·')} {escape(status)}</span>"


def card(title: str, *parts: str, status: str = "") -> str:
    """A titled block; ``parts`` are HTML."""
    head = f"<span style='font-weight:600;font-size:1.05em'>{escape(title)}</span>"
    body = "".join(f"<div style='margin-top:7px'>{part}</div>" for part in parts if part)
    style = f"border:{_LINE};border-radius:6px;padding:9px 14px;margin:2px 0;max-width:64em;line-height:1.45"
    return f"<div style='{style}'><div>{head}{' &nbsp; ' + badge(status) if status else ''}</div>{body}</div>"


def paragraph(text: str, quiet: bool = False) -> str:
    """Escaped text; ``quiet`` makes it paler."""
    return f"<span style='opacity:.72'>{escape(text)}</span>" if quiet else escape(text)


def code(text: str) -> str:
    """Something to type."""
    return f"<code style='background:rgba(128,128,128,.14);padding:1px 5px;border-radius:3px'>{escape(text)}</code>"


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of escaped values; what is over :data:`ROWS` rows goes into a fold."""
    shown = _table(heads, rows[:ROWS])
    more = rows[ROWS:]
    return shown + (fold(f"{len(more)} more", _table(heads, more)) if more else "")


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th style='{_CELL};font-weight:600'>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr style='background:transparent'>"
        + "".join(f"<td style='{_CELL}'>{escape(str(v))}</td>" for v in row)
        + "</tr>"
        for row in rows
    )
    style = "border-collapse:collapse;margin:0;font-size:.95em"
    return f"<table style='{style}'><thead><tr style='background:transparent'>{head}</tr></thead><tbody>{body}</tbody></table>"


def fold(title: str, inner: str) -> str:
    """A closed fold; ``inner`` is HTML."""
    return f"<details style='margin-top:5px'><summary style='cursor:pointer'>{escape(title)}</summary>{inner}</details>"


def lines_html(lines: Sequence[str]) -> str:
    """Lines in a fixed-width face."""
    style = "margin:0;white-space:pre;overflow-x:auto;font-size:.92em;line-height:1.4;background:transparent"
    return f"<pre style='{style}'>{escape(chr(10).join(lines))}</pre>"


def commands_html(commands: Mapping[str, str]) -> str:
    """What can be done next: each command with what it does."""
    if not commands:
        return ""
    items = " &nbsp;·&nbsp; ".join(f"{code(line)} {paragraph(what, quiet=True)}" for line, what in commands.items())
    return f"{paragraph('next:', quiet=True)} {items}"


# --- text ----------------------------------------------------------------------------------------------------------------


def columns(heads: Sequence[str], rows: Sequence[Sequence[Any]], more: str = "") -> str:
    """A table as text: :data:`ROWS` rows, then how many more there are and ``more`` (how to see them)."""
    texts = [[str(value) for value in row] for row in rows[:ROWS]]
    widths = [max(len(name), *(len(row[i]) for row in texts)) if texts else len(name) for i, name in enumerate(heads)]
    out = ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in [list(heads), *texts]]
    if len(rows) > ROWS:
        out.append(f"… and {len(rows) - ROWS} more{': ' + more if more else ''}")
    return "\n".join(out)


def commands_text(commands: Mapping[str, str]) -> str:
    """What can be done next, one command a line."""
    if not commands:
        return ""
    width = max(map(len, commands))
    return "\n".join(["next:", *(f"  {line:<{width}}  {what}" for line, what in commands.items())])


def joined(*parts: str) -> str:
    """The parts that are not empty, one below the other."""
    return "\n".join(part for part in parts if part)
