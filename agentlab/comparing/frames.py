"""Rows of runs as data frames whose columns and types do not depend on what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agentlab.comparing.running import Done
from agentlab.events import readable
from agentlab.experiments.columns import RUN_COLUMNS

if TYPE_CHECKING:
    import pandas as pd


def run_frame(results: Iterable[Done], mode: str, mtbf_s: float | None) -> pd.DataFrame:
    """One row per run with the columns of :data:`RUN_COLUMNS`, sorted as the conditions and seeds were given."""
    rows = []
    for done in results:
        rows.append({
            "completed": False, "outcome": "error", "session_id": "", **done.row,
            "condition": done.condition.name, "policy": done.condition.values["policy"],
            "scheme": done.condition.values["scheme"], "mode": mode, "seed": done.seed, "mtbf_s": mtbf_s,
            "error": done.error,
        })  # fmt: skip
    return typed(rows, RUN_COLUMNS)


def typed(rows: list[dict[str, Any]], columns: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """A frame with exactly these columns and types; what a row lacks is missing."""
    import pandas as pd

    series: Any = pd.Series
    return pd.DataFrame(
        {n: series([shown(row.get(n)) for row in rows], dtype=kind) for n, (kind, _) in columns.items()}
    )


def shown(value: Any) -> Any:
    """A cell as a frame can hold it: half a surrogate pair in a text (the log keeps it) is a backslash escape, as in SQL."""
    return readable(value) if isinstance(value, str) else value


def sorted_runs(frame: pd.DataFrame, conditions: Iterable[str]) -> pd.DataFrame:
    """The rows in the order of the conditions, then by seed."""
    place = {name: number for number, name in enumerate(conditions)}
    order = frame.assign(_place=frame["condition"].map(place)).sort_values(["_place", "seed"], kind="stable").index
    return frame.loc[order].reset_index(drop=True)
