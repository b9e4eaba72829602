"""Latency of tools and model over the run."""

from __future__ import annotations

from typing import Any

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.sources import Frame, Source, analysed

MOST = 5
"""Tools with a series of their own."""
MODELS = 2


def latency_over_run(x: Source, *, ax: d.Axes | None = None, lab: Any = None) -> d.Axes:
    """How long each tool call and model call took, over elapsed time, on a log scale.

    Models and the tools that took most time have a series each, the rest is *other tools*; failed ones wear a red cross.
    Above four hundred calls a line goes through the median of each series. Data: session_id, seq (of the answer),
    asked_seq, series, tool_name, x (elapsed time in the axis's unit), latency_s (seconds), ok.
    """
    found = analysed(x, lab)
    clock = d.Elapsed.of(found)
    data = latencies(found, clock)
    ax = d.new_axes(ax, 3.8)
    title = f"Latency over the run: {d.whose(found)}"
    if data.empty:
        return d.nothing(ax, data, title, "no call has ended yet")
    small = len(data) > 400
    for index, (name, group) in enumerate(ordered(data)):
        color, marker = d.OTHERS if name == "other tools" else d.SERIES[index % len(d.SERIES)]
        p50, p95 = group.latency_s.quantile([0.5, 0.95])
        label = f"{d.shown(name, 24)}: n={len(group)}, p50 {d.seconds_text(p50)}, p95 {d.seconds_text(p95)}"
        ax.plot(
            group.x, group.latency_s, marker, color=color, label=label, markersize=2.2 if small else 5,
            alpha=0.3 if small else 0.9, markeredgewidth=0 if small else 0.4, markeredgecolor="white",
        )  # fmt: skip
        if small and len(group) > 100:  # a cloud says little: its middle is drawn through it
            middle = group.latency_s.groupby(d.binned(group.x, 40)).median()
            ax.plot(middle.index, middle, color=color, linewidth=1.8, zorder=3)
    failed = data[data.ok == False]  # noqa: E712
    if len(failed):
        ax.plot(
            failed.x, failed.latency_s, "x", color=d.RED, markersize=4 if small else 7, label=f"failed: {len(failed)}"
        )
    d.mark_deaths(ax, d.deaths(found, clock))
    ax.set_yscale("log")
    ax.set_xlabel(clock.label, fontsize=9)
    ax.set_ylabel("latency (s)", fontsize=9)
    worst = data.loc[data.latency_s.idxmax()]
    alt = (
        f"{title}. {len(data)} calls, {len(failed)} failed; the slowest is {worst.series} with"
        f" {d.seconds_text(worst.latency_s)} at event {worst.seq} of {worst.session_id}."
    )
    return d.finish(ax, data, title, alt, legend=2)


def latencies(found: Any, clock: d.Elapsed) -> Frame:
    """Every answered call of a tool or model; see :func:`latency_over_run` for the columns."""
    import pandas as pd

    calls = found.frame("calls")
    calls = calls.dropna(subset=["latency_s"]).assign(
        at=calls.ended_at, seq=calls.result_seq, asked_seq=calls.requested_seq
    )
    turns = found.frame("turns")
    turns = turns.dropna(subset=["latency_s"]).assign(
        at=turns.answered_at, asked_seq=turns.seq, seq=turns.answered_seq, tool_name="model " + turns.model.fillna("?")
    )
    names = ["session_id", "seq", "asked_seq", "tool_name", "at", "latency_s", "ok"]
    data = pd.concat([calls[names].assign(tool=True), turns[names].assign(tool=False)], ignore_index=True)
    total = data.groupby(["tool", "tool_name"]).latency_s.sum().sort_values(ascending=False)
    kept = {name for flag in (True, False) if flag in total for name in total[flag].index[: MOST if flag else MODELS]}
    data["series"] = data.tool_name.where(data.tool_name.isin(kept), "other tools")
    data["x"] = clock.x(data, "at")
    data["latency_s"] = data.latency_s.clip(lower=1e-5)  # a log scale has no zero
    order = ["session_id", "seq", "asked_seq", "series", "tool_name", "x", "latency_s", "ok"]
    return data[order].sort_values(["session_id", "seq"], ignore_index=True)


def ordered(data: Frame) -> list[tuple[str, Frame]]:
    """Series with the most time first, other tools last."""
    groups = [(str(name), group) for name, group in data.groupby("series")]
    return sorted(groups, key=lambda g: (g[0] == "other tools", -g[1].latency_s.sum()))
