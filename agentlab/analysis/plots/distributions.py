"""How latencies are distributed: for each tool and model, with p50, p95 and p99."""

from __future__ import annotations

from typing import Any

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.plots.latencies import latencies, ordered
from agentlab.analysis.sources import Analysed, Frame, Source, analysed

FEW = 80
"""Calls of a row up to which each is a point; more are a histogram."""
BINS = 60
_QUANTILES = ((0.5, "o", "p50"), (0.95, "D", "p95"), (0.99, "^", "p99"))


def latency(x: Source, *, ax: d.Axes | None = None, lab: Any = None) -> d.Axes:
    """The distribution of latencies, a row for each tool and model, those that took most time in all on top.

    Few calls are points, many a histogram over a logarithmic axis (each row scaled to its own highest bin); p50, p95
    and p99 are marked and said. Failed calls are crosses; ▼ are calls that were in progress when a harness died or a
    sandbox was lost, green diamonds those that were answered during a recovery. Data: as for
    :func:`agentlab.analysis.plots.latency_over_run`, with ``during`` (empty, *death* or *recovery*).
    """
    found = analysed(x, lab)
    data = latencies(found, d.Elapsed.of(found))
    title = f"Latency by tool and model: {d.whose(found)}"
    if data.empty:
        return d.nothing(d.new_axes(ax), data.assign(during=""), title, "no call has ended yet")
    data = data.assign(during=_during(found, data))
    groups = ordered(data)
    ax = d.new_axes(ax, 1.7 + 0.5 * len(groups))
    labels = []
    for row, (name, group) in enumerate(groups):
        color = d.OTHERS[0] if name == "other tools" else d.SERIES[row % len(d.SERIES)][0]
        labels.append(_row(ax, row, name, group, color))
    _events(ax, groups, data)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: d.seconds_text(value))
    ax.set_yticks(range(len(groups)), labels)
    ax.set_ylim(len(groups) - 0.45, -0.65)
    ax.set_xlabel("latency", fontsize=9)
    slow, worst = max(((g.latency_s.quantile(0.95), n) for n, g in groups), key=lambda pair: pair[0])
    alt = f"{title}. {len(data)} calls in {len(groups)} rows; {worst} has the highest p95 with {d.seconds_text(slow)}."
    return d.finish(ax, data, title, alt, legend=4)


def _row(ax: d.Axes, row: int, name: str, group: Frame, color: str) -> str:
    """One row: its calls and its quantiles; what its label says."""
    import numpy as np

    values = group.latency_s.to_numpy(dtype=float)
    if len(values) <= FEW:
        spread = (np.arange(len(values)) * 0.618034) % 1 * 0.5 - 0.25  # the golden ratio strews without chance
        ax.plot(values, row + spread, "o", color=color, markersize=4, alpha=0.75, markeredgewidth=0)
    else:
        edges = np.geomspace(values.min(), max(values.max(), values.min() * 1.01), BINS + 1)
        heights, _ = np.histogram(values, edges)
        top = row + 0.32 - 0.72 * np.append(heights, heights[-1]) / heights.max()
        ax.fill_between(edges, row + 0.32, top, step="post", color=color, alpha=0.55, linewidth=0)
    found = [float(np.quantile(values, q)) for q, _, _ in _QUANTILES]
    ax.plot([values.min(), values.max()], [row + 0.38] * 2, color=color, linewidth=1.0)
    for value, (_, marker, words) in zip(found, _QUANTILES, strict=True):
        ax.plot(value, row + 0.38, marker, color="white", markeredgecolor=d.BLACK, markersize=5.5, linestyle="none",
                label=words if row == 0 else "_", zorder=4)  # fmt: skip
    said = " · ".join(d.seconds_text(value) for value in found)
    return f"{d.shown(name, 26)}\nn={len(values)}  {said}"


def _events(ax: d.Axes, groups: list[tuple[str, Frame]], data: Frame) -> None:
    rows = {name: row for row, (name, _) in enumerate(groups)}
    at = data.series.map(rows)
    for chosen, marker, color, words in (
        (data.ok == False, "x", d.RED, "failed"),  # noqa: E712
        (data.during == "death", "v", d.RED, "in progress at a death"),
        (data.during == "recovery", "d", d.GREEN, "during a recovery"),
    ):
        picked = chosen.fillna(False).to_numpy(dtype=bool)
        if picked.any():
            many = picked.sum() > 60
            ax.plot(data.latency_s[picked], at[picked] - 0.42, marker, color=color, markersize=3.5 if many else 5.5,
                    linestyle="none", alpha=0.5 if many else 1.0, label=f"{words}: {picked.sum()}", zorder=4)  # fmt: skip


def _during(found: Analysed, data: Frame) -> Frame:
    """For each call whether a death cut it or a recovery was under way."""
    import pandas as pd

    said = pd.Series("", index=data.index, dtype="string")
    for row in found.frame("recoveries").itertuples():
        mine = data.session_id == row.session_id
        end = row.seq if pd.isna(row.end_seq) else row.end_seq
        said[mine & (data.seq > row.at_seq) & (data.seq <= end)] = "recovery"
        said[mine & (data.asked_seq <= row.at_seq) & (data.seq > row.at_seq)] = "death"
    return said
