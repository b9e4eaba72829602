"""The run as swim lanes: harness, model, tools, sandbox, checkpoints."""

from __future__ import annotations

from typing import Any

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.sources import Analysed, Frame, Source, analysed
from agentlab.events import KINDS

LANES = ("harness", "model", "tools", "sandbox", "checkpoints")
MOST = 6
"""Sessions that one timeline can show legibly."""
DENSE, BINS = 400, 160
"""Bars of a lane above which the lane shows how busy it was, in that many stretches of time."""
_COLOURS = {"harness": d.GREY, "model": d.SKY, "tools": d.BLUE, "sandbox": d.ORANGE, "checkpoints": d.PINK}
_NOT_LIFE = ", ".join(f"'{name}'" for name, kind in KINDS.items() if kind.cls == "input")
_INCARNATIONS = f"""
SELECT session_id, 'harness' AS lane, min(seq) AS seq, min(ts) AS began, max(ts) AS ended,
    concat('incarnation ', incarnation) AS what, true AS ok
FROM events WHERE incarnation > 0 AND type NOT IN ({_NOT_LIFE}) GROUP BY session_id, incarnation
"""
_SANDBOXES = """
SELECT e.session_id, 'sandbox' AS lane, e.seq, e.ts AS began, coalesce(l.ts, s.last_at) AS ended,
    'sandbox' AS what, true AS ok
FROM (FROM events WHERE type = 'sandbox_ready') e
ASOF LEFT JOIN (FROM events WHERE type IN ('sandbox_lost', 'sandbox_destroyed')) l
    ON e.session_id = l.session_id AND e.seq < l.seq
JOIN sessions s ON s.session_id = e.session_id
"""


def timeline(x: Source, *, ax: d.Axes | None = None, lab: Any = None) -> d.Axes:
    """Who was busy when: a lane each for harness, model, tools, sandbox and checkpoints, for up to six sessions.

    Failed calls are red and hatched. A lane with very many bars shows their density instead. Data: session_id, lane,
    seq, what, ok, x, width (elapsed time in the axis's unit).
    """
    found = analysed(x, lab)
    clock = d.Elapsed.of(found)
    data = _data(found, clock)
    title = f"Timeline: {d.whose(found)}"
    ids = list(dict.fromkeys(data.session_id))
    ax = d.new_axes(ax, 2.9 if len(ids) <= 1 else 1.6 + 1.25 * min(len(ids), MOST))
    if data.empty:
        return d.nothing(ax, data, title, "nothing has happened yet")
    drawn = ids[:MOST]
    if len(ids) > MOST:
        title += f" (the first {MOST})"
    span = float((data.x + data.width).max()) or 1.0
    marks = d.deaths(found, clock)
    ticks, labels, told = [], [], set[str]()
    for row, session_id in enumerate(drawn):
        base = -row * (len(LANES) + 0.8)
        for index, lane in enumerate(LANES):
            group = data[(data.session_id == session_id) & (data.lane == lane)]
            _lane(ax, lane, group, base - index, span)
            ticks.append(base - index)
            labels.append(lane)
        if len(drawn) > 1:
            ax.text(0, base + 0.55, d.shown(session_id), fontsize=d.SMALL, fontweight="bold", va="bottom")
        _marks(ax, marks[marks.session_id == session_id], base, told)
    ax.set_yticks(ticks, labels)
    ax.set_ylim(ticks[-1] - 0.7, 1.4 if len(drawn) > 1 else 0.9)
    ax.set_xlim(-0.01 * span, 1.02 * span)
    ax.set_xlabel(clock.label, fontsize=9)
    counts = data.lane.value_counts()
    alt = f"{title}. " + ", ".join(f"{counts.get(lane, 0)} bars in lane {lane}" for lane in LANES) + "."
    return d.finish(ax, data, title, alt, legend=5)


def _data(found: Analysed, clock: d.Elapsed) -> Frame:
    import pandas as pd

    calls, turns, points = found.frame("calls"), found.frame("turns"), found.frame("checkpoints")
    calls = calls[(calls.not_run == False) & (calls.reused == False)]  # noqa: E712
    # The result's time and the measured duration say when a tool ran; the request may be much older.
    took = pd.to_timedelta(calls.latency_s.fillna(0.0), unit="s").astype("timedelta64[us]")
    asked = pd.to_timedelta(turns.latency_s.fillna(0.0), unit="s").astype("timedelta64[us]")
    written = pd.to_timedelta(points.duration_s.fillna(0.0), unit="s").astype("timedelta64[us]")
    parts = [
        found.sql(_INCARNATIONS),
        turns.assign(lane="model", began=turns.answered_at - asked, ended=turns.answered_at, what=turns.purpose),
        calls.assign(lane="tools", seq=calls.result_seq, began=calls.ended_at - took, ended=calls.ended_at, what=calls.tool_name),
        found.sql(_SANDBOXES),
        points.assign(lane="checkpoints", began=points.ts - written, ended=points.ts, what=points.reason, ok=True),
    ]  # fmt: skip
    names = ["session_id", "lane", "seq", "what", "ok", "began", "ended"]
    data = pd.concat([part[names] for part in parts], ignore_index=True).dropna(subset=["began", "ended"])
    data["ok"] = data.ok.astype("boolean").fillna(True)
    data["x"] = clock.x(data, "began")
    data["width"] = clock.x(data, "ended") - data["x"]
    data["lane"] = pd.Categorical(data.lane, LANES, ordered=True)
    data = data.sort_values(["session_id", "lane", "seq"], ignore_index=True)
    return data.drop(columns=["began", "ended"]).astype({"lane": "string"})


def _lane(ax: d.Axes, lane: str, group: Frame, y: float, span: float) -> None:
    if lane == "checkpoints":
        ax.plot(group.x, [y] * len(group), "D", color=_COLOURS[lane], markersize=6 if len(group) < 60 else 3)
        return
    if len(group) > DENSE:
        _density(ax, lane, group, y, span)
        return
    for ok, color, hatch in ((True, _COLOURS[lane], None), (False, d.RED, "////")):
        part = group[group.ok == ok]
        if len(part):
            # A bar narrower than a pixel would vanish.
            widths = part.width.clip(lower=span * 0.0015)
            edge = "white" if lane == "harness" or not ok else color
            ax.broken_barh(
                list(zip(part.x, widths, strict=True)), (y - 0.36, 0.72), facecolors=color, hatch=hatch,
                edgecolor=edge, linewidth=0.4 if len(part) < 200 else 0, zorder=2.5,
            )  # fmt: skip


def _density(ax: d.Axes, lane: str, group: Frame, y: float, span: float) -> None:
    """Too many bars to be told apart: how much of each stretch of time was busy, and ticks where calls failed."""
    import numpy as np

    edges = np.linspace(0, span, BINS + 1)
    starts, ends = group.x.to_numpy(dtype=float), (group.x + group.width).to_numpy(dtype=float)
    # Busy time up to each edge; the differences are what lies between two edges.
    upto = np.array([np.clip(np.minimum(ends, edge) - starts, 0, None).sum() for edge in edges])
    share = np.clip(np.diff(upto) / (span / BINS), 0, 1)
    heights = np.append(share, share[-1]) * 0.72
    ax.fill_between(edges, y - 0.36, y - 0.36 + heights, step="post", color=_COLOURS[lane], linewidth=0, zorder=2.5)
    failed = group[~group.ok]
    ax.plot(failed.x, [y + 0.4] * len(failed), "|", color=d.RED, markersize=4, zorder=3)


def _marks(ax: d.Axes, marks: Frame, base: float, told: set[str]) -> None:
    """Deaths and other faults within one session's lanes."""
    low, high = base - len(LANES) + 0.55, base + 0.5
    for row in marks.itertuples():
        look = d.LOOKS[row.target]
        label = look.words if look.words not in told else "_"
        told.add(look.words)
        ax.plot(
            [row.x, row.x], [low, high], look.style, color=d.RED, linewidth=1.1, marker=look.marker, markevery=[1],
            markersize=6, label=label, zorder=4,
        )  # fmt: skip
        if row.x_end == row.x_end:
            band = "recovering" if "recovering" not in told else "_"
            told.add("recovering")
            ax.fill_between([row.x, row.x_end], low, high, color=d.GREEN, alpha=0.22, linewidth=0, label=band, zorder=1)
