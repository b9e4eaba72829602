"""sql, diagnose, report, seal on the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentlab.counting import counted
from agentlab.errors import UnknownName, UserError


def add_verbs(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verbs of this module; ``verb`` makes a sub-parser."""
    asking = verb("sql", sql, "ask all sessions of a lab in SQL")
    asking.add_argument("query", nargs="?", help="DuckDB's SQL; - reads it from the standard input")
    asking.add_argument(
        "--views", action="store_true", help="what can be asked, column by column (or of one view: QUERY)"
    )
    asking.add_argument("--csv", action="store_true", help="print comma-separated values")
    look = verb("diagnose", diagnose, "look for the known symptoms: evidence, cause, cure")
    look.add_argument("session", nargs="*", help="ids of sessions; all of the lab without any")
    page = verb("report", report, "write one HTML page with pictures, tables and the diagnosis")
    page.add_argument("session", nargs="*", help="ids of sessions; all of the lab without any")
    page.add_argument("--to", metavar="PATH", help="where it goes (default: report-SESSION.html or report.html)")
    verb("seal", seal, "merge the small files of sessions that have ended")


def _lab(options: argparse.Namespace) -> Any:
    from agentlab.lab import Lab

    if not Path(options.lab).is_dir():
        raise UserError(f"there is no lab at {options.lab}: name its folder with --lab")
    return Lab(options.lab)


def _subject(options: argparse.Namespace) -> Any:
    lab = _lab(options)
    return [lab.session(session_id) for session_id in options.session] or lab


def _telling() -> Any:
    """Damaged sessions are said on the standard error."""
    from agentlab.query.damage import telling

    return telling(lambda text: print(f"agentlab: {text}", file=sys.stderr))


def sql(options: argparse.Namespace) -> int:
    """``agentlab sql QUERY``: the answer as a table, as CSV, or as a JSON list with one object per row."""
    if options.views or options.query is None:
        return _views(options)
    query = sys.stdin.read() if options.query == "-" else options.query
    with _telling():
        frame = _lab(options).sql(query)
    if options.json:
        print(frame.to_json(orient="records", date_format="iso", date_unit="us", force_ascii=False))
    elif options.csv:
        print(frame.to_csv(index=False, date_format="%Y-%m-%dT%H:%M:%S.%fZ"), end="")
    else:
        print(frame.to_string(index=False) if len(frame) else f"no rows; columns: {', '.join(frame.columns)}")
    return 0


def _views(options: argparse.Namespace) -> int:
    from agentlab.query.views import VIEWS

    if options.query is not None and options.query not in VIEWS:
        raise UnknownName("view", options.query, VIEWS)
    chosen = [VIEWS[options.query]] if options.query else list(VIEWS.values())
    if options.json:
        print(json.dumps({v.name: {c.name: {"type": c.type, "meaning": c.meaning} for c in v.columns} for v in chosen}))
        return 0
    for view in chosen:
        print(f"{view.name}: {view.meaning}")
        for column in view.columns:
            print(f"  {column.name:<19} {column.type:<5} {column.meaning}")
    return 0


def diagnose(options: argparse.Namespace) -> int:
    """``agentlab diagnose``: 0 when no symptom was found, 1 otherwise."""
    from agentlab.analysis import diagnose as look

    with _telling():
        found = look(_subject(options))
    print(json.dumps(found.to_json(), ensure_ascii=False) if options.json else found)
    return 1 if found.found else 0


def report(options: argparse.Namespace) -> int:
    """``agentlab report``"""
    from agentlab.analysis import report as write

    with _telling():
        made = write(_subject(options), options.to)
    print(json.dumps({"path": str(made.path), "bytes": made.size_bytes}) if options.json else made)
    return 0


def seal(options: argparse.Namespace) -> int:
    """``agentlab seal``"""
    merged = _lab(options).seal()
    print(json.dumps({"files": merged}) if options.json else f"{counted(merged, 'file')} merged")
    return 0
