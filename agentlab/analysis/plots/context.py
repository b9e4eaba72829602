"""The context over the run: sizes of the layers, what the model really read, and where scratch was compacted."""

from __future__ import annotations

from typing import Any

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.sources import Analysed, Frame, Source, analysed

DENSE, BINS = 600, 120
"""Requests above which means over that many stretches are drawn."""
_CUTS = "SELECT session_id, seq AS at_seq, seq AS end_seq FROM events WHERE type = 'context_compacted' ORDER BY 1, 2"
_DRIFT = """
SELECT session_id, seq AS at_seq, seq AS end_seq FROM events
WHERE type = 'drift_measured' AND _bool(payload, '$.restated') ORDER BY 1, 2
"""


def context(x: Source, *, ax: d.Axes | None = None, lab: Any = None) -> d.Axes:
    """Estimated tokens of each request by layer, over model calls, with the tokens that the model reported.

    *Fixed and task* are one area: their sizes are estimated together. Several sessions: one line each. Data:
    session_id, seq, x (number of the request), base_tokens (fixed and task), scratch_tokens, read_tokens (reported,
    cached ones included).
    """
    found = analysed(x, lab)
    data = _data(found)
    title = f"Context: {d.whose(found)}"
    ax = d.new_axes(ax, 3.4)
    if data.empty:
        return d.nothing(ax, data, title, "the model has not been asked yet")
    if data.session_id.nunique() == 1:
        _layers(ax, data)
    else:
        _lines(ax, data)
    for text, marker, color, words in ((_CUTS, "v", d.BLACK, "compacted"), (_DRIFT, "*", d.PINK, "goal restated")):
        at = d.on_axis(found.sql(text).assign(x=0.0, x_end=0.0), data)
        if len(at):
            ax.plot(at.x, [0.02] * len(at), marker, color=color, transform=ax.get_xaxis_transform(), label=words,
                    linestyle="none", markersize=5 if len(at) < 30 else 2.5, clip_on=False)  # fmt: skip
    d.mark_deaths(ax, d.on_axis(d.deaths(found, d.Elapsed.of(found)), data))
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=min(1, data.x.min()))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    d.whole_numbers(ax)
    ax.set_xlabel("request to the model", fontsize=9)
    ax.set_ylabel("tokens", fontsize=9)
    total = data.base_tokens + data.scratch_tokens
    alt = f"{title}. {len(data)} requests; the largest was estimated at {total.max():,.0f} tokens."
    return d.finish(ax, data, title, alt, legend=4)


def _data(found: Analysed) -> Frame:
    turns = found.frame("turns")
    turns = turns[(turns.purpose != "statement") & turns.tokens_estimate.notna()]
    scratch = turns.scratch_tokens.fillna(0).astype(float)
    read = (turns.input_tokens + turns.cache_read_tokens.fillna(0) + turns.cache_write_tokens.fillna(0)).astype(
        "Float64"
    )
    data = turns.assign(
        x=turns.groupby("session_id").cumcount() + 1,
        scratch_tokens=scratch,
        base_tokens=(turns.tokens_estimate.astype(float) - scratch).clip(lower=0),
        read_tokens=read.astype("float64"),
    )
    return data[["session_id", "seq", "x", "base_tokens", "scratch_tokens", "read_tokens"]].reset_index(drop=True)


def _layers(ax: d.Axes, data: Frame) -> None:
    if len(data) > DENSE:  # a saw of five thousand teeth is a black bar: means over stretches, and their peaks
        total = data.base_tokens + data.scratch_tokens
        peaks = total.groupby(d.binned(data.x.astype(float), BINS)).max()
        ax.plot(peaks.index, peaks, color=d.BLACK, linewidth=0.9, linestyle=":", label="largest of the stretch")
        data = data.groupby(d.binned(data.x.astype(float), BINS)).mean(numeric_only=True).drop(columns="x")
        data = data.rename_axis("x").reset_index()
    total = data.base_tokens + data.scratch_tokens
    ax.fill_between(
        data.x, 0, data.base_tokens, color=d.SKY, alpha=0.75, linewidth=0, label="fixed and task (estimated)"
    )
    ax.fill_between(
        data.x, data.base_tokens, total, color=d.ORANGE, alpha=0.75, hatch="//" if len(data) < 300 else None,
        edgecolor="white", linewidth=0, label="scratch (estimated)",
    )  # fmt: skip
    mark = {"marker": "o", "markersize": 3.5} if len(data) < 80 else {}
    ax.plot(data.x, data.read_tokens, color=d.BLACK, linewidth=1.2 if mark else 0.7, label="read by the model", **mark)


def _lines(ax: d.Axes, data: Frame) -> None:
    groups = list(data.groupby("session_id"))
    for index, (session_id, group) in enumerate(groups):
        color, marker = d.SERIES[index] if index < len(d.SERIES) else d.OTHERS
        label = d.shown(str(session_id), 26) if index < len(d.SERIES) else "others" if index == len(d.SERIES) else "_"
        ax.plot(group.x, group.base_tokens + group.scratch_tokens, color=color, marker=marker, markersize=4,
                markevery=max(1, len(group) // 8), linewidth=1.3, label=label)  # fmt: skip
