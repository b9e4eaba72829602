"""Loops: which call was made when, and how much of it is repetition."""

from __future__ import annotations

from typing import Any

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.plots.stretches import stretches
from agentlab.analysis.sources import Frame, Source, analysed

ROWS = 14
WINDOW = 20
NAMED = 12
"""Stretches of a session above which their lengths are not written beside them."""


def loops(x: Source, *, ax: d.Axes | None = None, lab: Any = None, window: int = WINDOW) -> d.Axes:
    """A raster of behaviour hashes (tool and canonical input) over calls; runs and cycles are outlined.

    One session: a row for each of the hashes that were called most, the rest in one row. Several: a row for each
    session. The curve on top is the repetition rate: the share of the last ``window`` calls whose hash stood among the
    ``window`` calls before. Data: session_id, seq, x (number of the call), hash, tool_name, row, times (calls with this
    hash in the session), repeat (within the window), rate, period (calls in the circle that it belongs to: 1 in a run of
    equal calls, 0 outside; see :mod:`agentlab.analysis.plots.stretches`).
    """
    found = analysed(x, lab)
    data = _data(found, window)
    title = f"Behaviour and repetition: {d.whose(found)}"
    if data.empty:
        return d.nothing(d.new_axes(ax), data, title, "no tool has been called yet")
    labels = _rows(data)
    ax = d.new_axes(ax, 2.2 + 0.2 * len(labels))
    single = data.session_id.nunique() == 1
    size = 30.0 if len(data) < 150 else 9.0 if len(data) < 1500 else 3.0
    fresh, again = data[~data.repeat], data[data.repeat]
    ax.scatter(fresh.x, fresh.row, s=size, marker="s", color=d.BLUE, linewidths=0, label="first or rare")
    ax.scatter(
        again.x, again.row, s=size * 1.6, marker="s", facecolors=d.ORANGE, edgecolors=d.BLACK,
        linewidths=0.8 if size > 4 else 0.4, label=f"repeated within {window} calls: {len(again)} of {len(data)}",
    )  # fmt: skip
    outlined = _outlines(ax, data)
    top = -1.2
    height = max(1.6, 0.18 * len(labels))
    for _, group in data.groupby("session_id"):
        ax.plot(group.x, top - height * group.rate, color=d.BLACK, linewidth=1.1, alpha=1.0 if single else 0.45)
    ax.axhline(top, color=d.GREY, linewidth=0.6)
    ax.set_yticks([*range(len(labels)), top, top - height], [*labels, "rate 0 %", "rate 100 %"])
    ax.set_ylim(len(labels) - 0.4, top - height - 0.5)
    marks = d.deaths(found, d.Elapsed.of(found))
    d.mark_deaths(ax, d.on_axis(marks, data))
    d.whole_numbers(ax)
    ax.set_xlabel("tool call", fontsize=9)
    peak = data.loc[data.rate.idxmax()]
    alt = (
        f"{title}. {len(again)} of {len(data)} calls repeat one of the {window} before; the rate is highest at call"
        f" {peak.x} of {peak.session_id} with {peak.rate:.0%}. {outlined}"
    )
    return d.finish(ax, data, title, alt, legend=4)


def _data(found: Any, window: int) -> Frame:
    import pandas as pd

    calls = found.frame("calls")
    calls = calls.assign(seq=calls.requested_seq, hash=calls.input_hash.fillna(calls.tool_name).fillna("?"))
    data = calls[["session_id", "seq", "hash", "tool_name"]].sort_values(["session_id", "seq"], ignore_index=True)
    by = data.groupby("session_id")
    data["x"] = by.cumcount() + 1
    data["times"] = data.groupby(["session_id", "hash"]).seq.transform("size").astype("int64")
    gap = data.x - data.groupby(["session_id", "hash"]).x.shift()
    data["repeat"] = (gap <= window).fillna(False).astype(bool)
    rate = data.repeat.astype(float).groupby(data.session_id).rolling(window, min_periods=1).mean()
    data["rate"] = rate.reset_index(level=0, drop=True) if len(data) else pd.Series(dtype=float)
    data["row"], data["period"] = 0, 0
    for _, group in by:
        for stretch in stretches(group.hash.tolist()):
            data.loc[group.index[stretch.start : stretch.end], "period"] = stretch.period
    return data


def _outlines(ax: d.Axes, data: Frame) -> str:
    """A frame around each run of equal calls and each cycle; in words, how many and the longest."""
    from matplotlib.patches import Rectangle

    told: list[tuple[int, str]] = []
    named: set[str] = set()
    labels: list[tuple[str, Box]] = []
    for session_id, group in data.groupby("session_id"):
        found = stretches(group.hash.tolist())
        for stretch in found:
            part = group.iloc[stretch.start : stretch.end]
            low, high = part.row.min() - 0.46, part.row.max() + 0.46
            words = "run of equal calls" if stretch.period == 1 else "cycle of calls"
            frame = Rectangle(
                (part.x.iloc[0] - 0.6, low), stretch.end - stretch.start + 0.2, high - low, fill=False, zorder=4,
                edgecolor=d.BLACK, linewidth=1.3, linestyle="-" if stretch.period == 1 else (0, (3, 1.5)),
                label="_" if words in named else words,
            )  # fmt: skip
            ax.add_patch(frame)
            named.add(words)
            times = (
                f"{stretch.rounds:.0f}×"
                if stretch.period == 1
                else f"{stretch.period} in circle, {stretch.rounds:.0f}×"
            )
            if len(found) <= NAMED:
                labels.append(
                    (times, (part.x.iloc[0] - 0.6, part.x.iloc[0] - 0.4 + stretch.end - stretch.start, low, high))
                )
            told.append((stretch.end - stretch.start, f"from call {part.x.iloc[0]} of {session_id}, {times}"))
    _write(ax, data, labels)
    return f"{len(told)} runs or cycles; the longest {max(told)[1]}." if told else "No run or cycle."


Box = tuple[float, float, float, float]
"""Left, right, top and bottom in the units of the axes: calls and rows."""


def _write(ax: d.Axes, data: Frame, labels: list[tuple[str, Box]]) -> None:
    """Each label beside its frame, where neither a call, nor a frame, nor another label is; above it where no place is free."""
    calls = float(data.x.max() - data.x.min()) * 1.1 + 1.0
    letter, half = calls * 0.62 * (d.SMALL - 1) / 72 / d.inches(ax), 0.3
    taken: list[Box] = [(x - 0.3, x + 0.3, row - 0.3, row + 0.3) for x, row in zip(data.x, data.row, strict=True)]
    for _, (left, right, top, bottom) in labels:
        taken += [
            (left, left, top, bottom),
            (right, right, top, bottom),
            (left, right, top, top),
            (left, right, bottom, bottom),
        ]
    for text, (left, right, top, bottom) in labels:
        wide = letter * len(text)
        rows = (bottom - 0.46, top + 0.46)  # beside the last row of the frame, or the first
        places = [(x, row) for row in rows for x in (right + letter / 2, left - letter / 2 - wide)]
        boxes = [(x, x + wide, row - half, row + half) for x, row in (*places, (left, top - half))]
        box = next((box for box in boxes if not any(_meet(box, other) for other in taken)), boxes[-1])
        taken.append(box)
        ax.annotate(text, (box[0], (box[2] + box[3]) / 2), fontsize=d.SMALL - 1, va="center", zorder=6)


def _meet(one: Box, other: Box) -> bool:
    return one[0] <= other[1] and other[0] <= one[1] and one[2] <= other[3] and other[2] <= one[3]


def _rows(data: Frame) -> list[str]:
    """Give every call its row; the labels of the rows from top to bottom."""
    if data.session_id.nunique() > 1:
        ids = list(dict.fromkeys(data.session_id))
        data["row"] = data.session_id.map({session_id: i for i, session_id in enumerate(ids)}).astype("int64")
        return [d.shown(session_id, 26) for session_id in ids]
    first = data.groupby("hash").agg(times=("times", "first"), x=("x", "min"), tool=("tool_name", "first"))
    most = first.sort_values(["times", "x"], ascending=[False, True]).head(ROWS)
    if len(first) > ROWS:  # rows are for what is repeated; a long tail of singles shares one
        most = most[most.times > 1]
    kept = most.sort_values("x")
    rows = {digest: i for i, digest in enumerate(kept.index)}
    data["row"] = data.hash.map(rows).fillna(len(rows)).astype("int64")
    labels = [f"{d.shown(str(r.tool), 18)} {_short(str(h))} ×{r.times}" for h, r in kept.iterrows()]
    rest = len(first) - len(kept)
    return [*labels, f"{rest} others"] if rest else labels


def _short(digest: str) -> str:
    return d.shown(digest.removeprefix("sha256:")[:4], 6)
