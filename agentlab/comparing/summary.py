"""What a comparison found: means with intervals, paired differences against a baseline, and a recommendation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentlab import interval
from agentlab.errors import BadDefinition, UnknownName
from agentlab.experiments.columns import METRICS
from agentlab.experiments.fit import bootstrap_mean, proportion
from agentlab.experiments.stats import Comparison, Recommendation, compare, recommend

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95

SUMMARY_COLUMNS: Mapping[str, tuple[str, str]] = {
    "condition": ("string", "name of the condition"),
    "metric": ("string", "a column of the runs' frame"),
    "runs": ("Int64", "runs with a value; unfinished ones count only for completed"),
    "mean": ("float64", "mean of the metric, in its own unit"),
    "low": ("float64", "lower end of the mean's bootstrap interval (completed: Wilson's); missing under 6 runs"),
    "high": ("float64", "upper end"),
    "pairs": ("Int64", "seeds that this condition and the baseline both finished"),
    "difference": ("float64", "mean of condition minus baseline over those seeds; missing for the baseline itself"),
    "difference_low": ("float64", "lower end of the difference's paired bootstrap interval; missing under 6 pairs"),
    "difference_high": ("float64", "upper end"),
    "certain": ("boolean", "there is an interval, and it leaves out zero"),
    "runs_needed": (
        "Int64",
        "seeds that would tell this difference from zero with a power of 0.8; missing where there is none to speak of",
    ),
}
"""The summary's frame: name to pandas type and meaning."""


@dataclass(frozen=True)
class Summary:
    """A comparison in numbers and one sentence. ``table`` has the columns of :data:`SUMMARY_COLUMNS`."""

    baseline: str
    conditions: tuple[str, ...]
    table: pd.DataFrame
    recommendation: Recommendation
    theory: str
    runs: int
    failed: int

    def value(self, condition: str, metric: str, column: str = "mean") -> Any:
        """One number of the table.

        Raises:
            UnknownName: no such condition or metric.
        """
        rows = self.table[(self.table["condition"] == condition) & (self.table["metric"] == metric)]
        if rows.empty:
            raise UnknownName("condition or metric", f"{condition}, {metric}", [*self.conditions, *METRICS])
        return rows[column].iloc[0]

    def to_json(self) -> dict[str, Any]:
        """The summary as plain data; what is missing is null."""
        rows = [
            {k: None if v is None or v != v else v for k, v in row.items()}
            for row in self.table.astype(object).where(self.table.notna(), None).to_dict("records")
        ]
        return {
            "baseline": self.baseline,
            "recommendation": {
                "text": self.recommendation.text, "best": self.recommendation.best, "certain": self.recommendation.certain,
                "runs_needed": self.recommendation.runs_needed,
            },
            "theory": self.theory, "runs": self.runs, "failed": self.failed, "table": rows,
        }  # fmt: skip


def summarise(frame: pd.DataFrame, baseline: str | None = None, confidence: float = CONFIDENCE) -> Summary:
    """The summary of a frame of runs (:data:`agentlab.experiments.columns.RUN_COLUMNS`).

    ``baseline`` is a condition, the first one unless given. Unfinished runs count as such: their times are in no mean.

    Raises:
        UnknownName: no such baseline.
        BadDefinition: there is no run.
    """
    conditions = tuple(dict.fromkeys(frame["condition"]))
    if not conditions:
        raise BadDefinition("there is no run to summarise")
    base = baseline or conditions[0]
    if base not in conditions:
        raise UnknownName("condition", base, conditions)
    values = {metric: _values(frame, metric) for metric in METRICS}
    rows = [_row(c, metric, values[metric], base, confidence) for c in conditions for metric in METRICS]
    from agentlab.comparing.frames import typed

    return Summary(
        base, conditions, typed(rows, SUMMARY_COLUMNS), _cautious(_recommend(values["total_s"], base, confidence), frame),
        theory(frame),
        len(frame), int((frame["error"] != "").sum()),
    )  # fmt: skip


Values = dict[str, dict[int, float]]


def _values(frame: pd.DataFrame, metric: str) -> Values:
    """Condition to seed to value; infinite where the run did not finish."""
    found: Values = {}
    columns = frame[["condition", "seed", "completed", metric]].itertuples(index=False, name=None)
    for condition, seed, completed, value in columns:
        done = completed is True or completed == True  # noqa: E712 (numpy's and pandas's booleans)
        number = float(done) if metric == "completed" else float(value) if done and value == value else math.inf
        found.setdefault(str(condition), {})[int(seed)] = number
    return found


def _row(condition: str, metric: str, values: Values, baseline: str, confidence: float) -> dict[str, Any]:
    finite = [v for v in values[condition].values() if math.isfinite(v)]
    row: dict[str, Any] = {"condition": condition, "metric": metric, "runs": len(finite)}
    if finite:
        low, high = (
            proportion(round(sum(finite)), len(finite), confidence) if metric == "completed"
            else bootstrap_mean(finite, confidence, 0)
        )  # fmt: skip
        row |= {"mean": math.fsum(finite) / len(finite), "low": low, "high": high}
    paired = None if condition == baseline else _paired(values, condition, baseline, confidence)
    if paired is not None:
        row |= {
            "pairs": paired.seeds, "difference": paired.difference, "difference_low": paired.low,
            "difference_high": paired.high, "certain": paired.certain, "runs_needed": paired.runs_needed,
        }  # fmt: skip
    return row


def _paired(values: Values, condition: str, baseline: str, confidence: float) -> Comparison | None:
    try:
        return compare(values, condition, baseline, confidence)
    except BadDefinition:
        return None  # no seed that both finished


def _recommend(values: Values, baseline: str, confidence: float) -> Recommendation:
    if len(values) < 2:
        return Recommendation(f"Only {baseline} was run: there is nothing to compare it with.", baseline, False, ())
    if not any(math.isfinite(value) for by_seed in values.values() for value in by_seed.values()):
        return Recommendation("No recommendation: no run was finished under any condition.", baseline, False, ())
    try:
        return recommend(values, baseline, what="total time", confidence=confidence)
    except BadDefinition as error:
        return Recommendation(f"No recommendation: {error}.", baseline, False, ())


FEW_CRASHES = 10


def _cautious(found: Recommendation, frame: pd.DataFrame) -> Recommendation:
    """The recommendation, with a word on how few crashes it rests on where crashes were asked for."""
    struck = int(frame["faults"].fillna(0).sum())
    if frame["mtbf_s"].dropna().empty or struck >= FEW_CRASHES or len(found.comparisons) == 0:
        return found
    how_many = f"only {struck} crash{'es' if struck != 1 else ''}" if struck else "no crash"
    text = (
        f"In {len(frame)} runs {how_many} struck, so this is about what checkpoints cost rather than what they save: "
    )
    return replace(found, text=text + found.text[:1].lower() + found.text[1:])


def theory(frame: pd.DataFrame) -> str:
    """What Young and Daly would do with the checkpoint cost that was measured, in a sentence; empty where nothing is known."""
    mtbf = frame["mtbf_s"].dropna()
    written = frame[frame["checkpoints"].fillna(0) > 0]
    if mtbf.empty or written.empty:
        return ""
    cost = float(written["overhead_s"].sum() / written["checkpoints"].sum())
    done = frame[frame["completed"].fillna(False).astype(bool)]  # what an unfinished run did is not the whole work
    failures, work = float(mtbf.iloc[0]), float(done["work_s"].dropna().mean())
    if not (cost > 0 and failures > 0):
        return ""
    daly = interval.daly(cost, failures)
    text = (
        f"At {cost:.3g} s for a checkpoint and a crash every {failures:.4g} s, Young's interval is"
        f" {interval.young(cost, failures):.3g} s of work and Daly's {daly:.3g} s"
    )
    if math.isnan(work):
        return text + "; no run did the whole work."
    return text + (
        f"; the whole work is {work:.3g} s." if work > daly else f", longer than the whole work ({work:.3g} s)."
    )
