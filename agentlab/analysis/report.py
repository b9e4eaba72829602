"""A report: one HTML page that needs nothing else, with tables, pictures and the diagnosis."""

from __future__ import annotations

import base64
import html
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentlab.analysis import plots
from agentlab.analysis.diagnose import diagnose, diagnosis_html
from agentlab.analysis.plots.drawing import png
from agentlab.analysis.sources import Analysed, Frame, Source, analysed
from agentlab.errors import UserError, refusal

MOST_ROWS = 40
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #ddd;padding-bottom:.2rem}
table{border-collapse:collapse;font-size:13px}td,th{padding:2px 10px 2px 0;text-align:left;vertical-align:top}
.wide{overflow-x:auto}th{border-bottom:1px solid #999}img{max-width:100%;height:auto}p.note{color:#555}
"""
_TABLES = (
    ("Sessions", "sessions", "session_id task model status outcome events turns tool_calls tool_errors tokens cost_usd wall_s crashes"),
    ("What each crash cost", "recoveries", "session_id target cause at_seq seconds lost_steps commands_again effects_verified tokens"),
    ("External effects", "effects", "session_id tool_name effect_key state tries verified decision completed_seq"),
    ("Checkpoints", "checkpoints", "session_id seq reason cursor duration_s size_bytes loads"),
)  # fmt: skip
_PICTURES = ("timeline", "recovery", "latency", "latency_over_run", "burn", "effects", "loops", "context")
_TOOLS = """
SELECT tool_name AS tool, count(*) AS calls, count(*) FILTER (NOT ok) AS failed,
    round(quantile_cont(latency_s, 0.5), 4) AS p50_s, round(quantile_cont(latency_s, 0.95), 4) AS p95_s,
    round(sum(latency_s), 2) AS total_s
FROM calls GROUP BY tool_name ORDER BY total_s DESC NULLS LAST
"""
_WHERE = """
SELECT session_id, step, count(*) AS calls, count(*) FILTER (NOT ok) AS failed, round(sum(elapsed_s), 2) AS elapsed_s
FROM calls WHERE step IS NOT NULL GROUP BY ALL HAVING count(*) FILTER (NOT ok) > 0 ORDER BY failed DESC, session_id, step
"""


@dataclass(frozen=True, slots=True)
class Report:
    """A page that was written. It is a path: ``open(report)`` and ``shutil.copy(report, …)`` work."""

    path: Path
    title: str
    size_bytes: int

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __str__(self) -> str:
        return f"{self.title}: {self.path.name}, one page that needs nothing else"

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        link = f'<a href="{_e(quote(str(self.path)))}">{_e(self.path.name)}</a>'
        return f"<div>{_e(self.title)}: {link}, one page that needs nothing else</div>"


def report(x: Source, path: str | os.PathLike[str] | None = None, *, lab: Any = None, title: str = "") -> Report:
    """Write the report on ``x`` as one self-contained HTML page: pictures, tables, diagnosis.

    Without ``path`` it is ``report-<session>.html``, or ``report.html`` for several, in the working folder. Payloads
    stay out of it: metadata, numbers, names of tools and causes only.

    Raises:
        UserError: the page can not be written there.
    """
    found = analysed(x, lab)
    names = found.frame("sessions").session_id.tolist()
    title = title or (f"Session {names[0]}" if len(names) == 1 else f"{len(names)} sessions")
    if path is None:
        path = f"report-{_file_name(names[0])}.html" if len(names) == 1 else "report.html"
    target = Path(path)
    text = page(found, title=title).encode(errors="backslashreplace")
    try:
        target.write_bytes(text)
    except (OSError, ValueError) as error:
        raise UserError(f"the report can not be written to {str(target)!r}: {refusal(error)}") from error
    return Report(target, title, len(text))


def _file_name(session_id: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in session_id)[:100]


def page(x: Source, *, lab: Any = None, title: str = "") -> str:
    """The page that :func:`report` writes, as text."""
    found = analysed(x, lab)
    sessions = found.frame("sessions")
    names = sessions.session_id.tolist()
    title = title or (f"Session {names[0]}" if len(names) == 1 else f"{len(names)} sessions")
    parts = [_summary(sessions), "<h2>Diagnosis</h2>", diagnosis_html(diagnose(found))]
    parts += [_picture(found, name) for name in _PICTURES if names]
    parts += [
        "<h2>Tools</h2>",
        _table(found.sql(_TOOLS)),
        "<h2>Steps with failed calls</h2>",
        _table(found.sql(_WHERE)),
    ]
    for heading, view, columns in _TABLES:
        parts += [f"<h2>{heading}</h2>", _table(found.frame(view)[columns.split()])]
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{_e(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{_e(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def _summary(sessions: Frame) -> str:
    if sessions.empty:
        return '<p class="note">There is no session to report on.</p>'
    ended = sessions.outcome.fillna("not ended").value_counts()
    words = ", ".join(f"{n} {outcome}" for outcome, n in ended.items())
    cost = f", {sessions.cost_usd.sum():.4f} USD" if sessions.cost_usd.notna().any() else ""
    return (
        f"<p>{len(sessions)} session{'s' if len(sessions) > 1 else ''} ({_e(words)}), {sessions.events.sum():,} events,"
        f" {sessions.tokens.sum():,} tokens{cost}, {sessions.crashes.sum()} deaths of a harness,"
        f" {sessions.sandbox_losses.sum()} of a sandbox.</p>"
    )


def _picture(found: Analysed, name: str) -> str:
    ax = getattr(plots, name)(found)
    data = base64.b64encode(png(ax.figure)).decode()
    return (
        f'<h2>{_e(name.capitalize().replace("_", " "))}</h2><img alt="{_e(ax.alt)}" src="data:image/png;base64,{data}">'
    )


def _table(frame: Frame) -> str:
    if frame.empty:
        return '<p class="note">None.</p>'
    head = "".join(f"<th>{_e(str(name))}</th>" for name in frame.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>"
        for row in frame.head(MOST_ROWS).itertuples(index=False)
    )
    more = f'<p class="note">{len(frame) - MOST_ROWS} more rows.</p>' if len(frame) > MOST_ROWS else ""
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>{more}'


def _cell(value: Any) -> str:
    import pandas as pd

    if pd.isna(value):
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return _e(str(value)[:200])


def _e(text: str) -> str:
    return html.escape(text, quote=True)
