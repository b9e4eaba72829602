"""How the lab's own objects show themselves: text for a terminal, the same as escaped HTML with inline styles."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from agentlab.events import readable

_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"padding:3px 14px 3px 0;text-align:left;vertical-align:top;border-bottom:{_LINE}"


class Rich:
    """Base of objects that a notebook shows by themselves: a head line and tables of text."""

    def head(self) -> str:
        """What it is, in one line."""
        raise NotImplementedError

    def tables(self) -> Sequence[tuple[Sequence[str], Sequence[Sequence[Any]]]]:
        """Tables below the head: column names (none for pairs of name and value) and rows."""
        raise NotImplementedError

    def __str__(self) -> str:
        return readable("\n".join([self.head(), *(_text(heads, rows) for heads, rows in self.tables() if rows)]))

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        style = f"border:{_LINE};border-radius:6px;padding:9px 14px;margin:2px 0;max-width:64em;line-height:1.45"
        body = "".join(_html(heads, rows) for heads, rows in self.tables() if rows)
        return readable(f"<div style='{style}'><div style='font-weight:600'>{escape(self.head())}</div>{body}</div>")


def _text(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [[str(v) for v in row] for row in ([heads, *rows] if heads else rows)]
    widths = [max(len(row[i]) for row in lines) for i in range(len(lines[0]))]
    return "\n".join("  " + "  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in lines)


def _html(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th style='{_CELL};font-weight:600'>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td style='{_CELL}'>{escape(str(v))}</td>" for v in row) + "</tr>" for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if heads else ""
    return (
        f"<table style='border-collapse:collapse;margin:7px 0 0 0;font-size:.95em'>{top}<tbody>{body}</tbody></table>"
    )
