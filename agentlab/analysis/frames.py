"""Data frames of a session, several, a lab, or a choice of its sessions: the views of :mod:`agentlab.query`.

Each function takes the same ``x`` (:data:`agentlab.analysis.sources.Source`) and gives the same columns and types
whatever is in the log, also when nothing is: text ``string``, integers ``Int64``, truth ``boolean``, floats
``float64``, times ``datetime64[us, UTC]``; rows sorted by session and event. What each column means, with units:
``agentlab.query.VIEWS`` or ``lab.query.views()``. With ``arrow=True`` an Arrow table comes back instead
(large_string, int64, bool, double, timestamp[us, UTC]).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from agentlab.analysis.sources import Source, analysed
from agentlab.query.views import VIEWS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def _view(name: str, x: Source, lab: Any, arrow: bool) -> Any:
    found = analysed(x, lab)
    return found.table(name) if arrow else found.frame(name)


@overload
def events(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def events(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def events(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """Every event as written.

    Columns: session_id, seq, ts, type, tool_name, payload (JSON text), error_type, duration_ms, step, …, superseded.
    """
    return _view("events", x, lab, arrow)


@overload
def turns(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def turns(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def turns(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """One row for each request to the model.

    Columns: session_id, seq, answered_seq, turn, purpose, latency_s, ok, tokens, cost_usd, tokens_estimate, scratch_tokens, ….
    """
    return _view("turns", x, lab, arrow)


@overload
def calls(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def calls(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def calls(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """One row for each tool call, request and result joined.

    Columns: session_id, call_id, tool_name, effect, step, requested_seq, result_seq, latency_s, elapsed_s, ok, error_type, reused, ….
    """
    return _view("calls", x, lab, arrow)


@overload
def effects(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def effects(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def effects(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """One row for each external effect.

    Columns: session_id, effect_key, tool_name, seq, state, tries, verified, decision, completed_seq, ….
    """
    return _view("effects", x, lab, arrow)


@overload
def checkpoints(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def checkpoints(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def checkpoints(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """One row for each checkpoint.

    Columns: session_id, seq, ts, reason, cursor, duration_s, size_bytes, snapshot_new_bytes, loads, ….
    """
    return _view("checkpoints", x, lab, arrow)


@overload
def recoveries(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def recoveries(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def recoveries(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """One row for each death of a harness or sandbox, with what it cost.

    Columns: session_id, seq, target, cause, at_seq, seconds, detect_s … statement_s, lost_steps, commands_again, tokens, cost_usd.
    """
    return _view("recoveries", x, lab, arrow)


@overload
def budget(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def budget(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def budget(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """One row for each event and dimension that it spent from.

    Columns: session_id, seq, ts, dimension, spent, used, limit.
    """
    return _view("budget", x, lab, arrow)


@overload
def guard(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def guard(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def guard(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """One row for each verdict of the loop guard.

    Columns: session_id, seq, ts, rule, action, evidence (JSON text), message, step.
    """
    return _view("guard", x, lab, arrow)


@overload
def decisions(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def decisions(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def decisions(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """One row for each decision.

    Columns: session_id, seq, ts, action, why, last_result, alternatives (JSON text), model, step.
    """
    return _view("decisions", x, lab, arrow)


@overload
def sessions(x: Source, *, lab: Any = ..., arrow: Literal[False] = ...) -> pd.DataFrame: ...
@overload
def sessions(x: Source, *, lab: Any = ..., arrow: Literal[True]) -> pa.Table: ...
def sessions(x: Source, *, lab: Any = None, arrow: bool = False) -> Any:
    """One row for each session.

    Columns: session_id, task, model, status, outcome, events, started_at, ended_at, turns, tokens, cost_usd, crashes, ….
    """
    return _view("sessions", x, lab, arrow)


def _document() -> None:
    """Put every column with its type and meaning into the help of each function: ``help(al.frames.calls)``."""
    for name, view in VIEWS.items():
        function: Any = globals()[name]
        width = max(len(column.name) for column in view.columns)
        lines = [f"    {column.name:<{width}}  {column.type:<5}  {column.meaning}" for column in view.columns]
        head = (function.__doc__ or "").split("Columns:")[0].rstrip()
        arguments = (
            "    Args:\n        x: a session, several, a lab, or an SQL condition over the columns of the view ``sessions``\n"
            "        lab: whose sessions a condition means; the one in hand (in a notebook) or ``./lab`` without it\n"
            "        arrow: give an Arrow table instead of a pandas data frame"
        )
        function.__doc__ = "\n".join(
            [head, "", arguments, "", f"    One row is {view.meaning}. Columns:", "", *lines, "    "]
        )


_document()
