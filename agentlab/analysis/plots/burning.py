"""Budget burn: each dimension against its limit, what is set aside, and when the limit will be reached."""

from __future__ import annotations

import math
from typing import Any

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.plots.forecast import Forecast, forecast
from agentlab.analysis.sources import Analysed, Frame, Source, analysed

_WORDS = {
    "input_tokens": "input tokens", "output_tokens": "output tokens", "cache_tokens": "cache tokens",
    "cost_usd": "cost", "model_calls": "model calls", "tool_calls": "tool calls", "active_s": "active time",
}  # fmt: skip
_UNLIMITED = ("input_tokens", "output_tokens", "cost_usd", "tool_calls")
MANY = 300
"""Reservations of a dimension above which their highest over stretches of the run are drawn instead of each."""
_RESERVED = """
WITH asked AS (
    SELECT e.session_id, e.seq, e.ts, answered_at AS until, coalesce(at_risk, false) AS at_risk, payload, '$.reserved' AS path
    FROM events e LEFT JOIN turns t ON e.session_id = t.session_id AND e.seq = t.seq WHERE type = 'model_request'
    UNION ALL
    SELECT r.session_id, r.seq, r.ts, s.ts, false, r.payload, '$.amounts'
    FROM (FROM events WHERE type = 'budget_reserved') r LEFT JOIN (FROM events WHERE type = 'budget_settled') s
        ON r.session_id = s.session_id AND _text(r.payload, '$.reservation') = _text(s.payload, '$.reservation')
),
parts AS (
    SELECT session_id, seq, ts, until, at_risk, _amount(name,
        TRY_CAST(_text(payload, concat(path, '."', name, '"')) AS DOUBLE)) AS part
    FROM (SELECT *, unnest(json_keys(_clean(payload), path)) AS name FROM asked)
)
SELECT session_id, seq, ts, until, at_risk, part.dimension AS dimension, part.spent AS reserved FROM parts
WHERE part.spent > 0 ORDER BY session_id, seq
"""
_ALERTS = """
SELECT session_id, seq, ts, part.dimension AS dimension, threshold FROM (
    SELECT session_id, seq, ts, _amount(_text(payload, '$.dimension'), 0) AS part,
        TRY_CAST(_text(payload, '$.threshold') AS DOUBLE) AS threshold FROM events WHERE type = 'budget_alert')
ORDER BY session_id, seq
"""


def burn(x: Source, *, ax: d.Axes | None = None, lab: Any = None) -> d.Axes:
    """Used share of each limited dimension over elapsed time, with what was reserved on top; alerts; a forecast.

    Lines are what is settled; pale bars what was set aside while the model was asked, hatched where a crash cut the
    call (at risk: nobody knows whether it was spent). The forecast is for sessions that have not ended: dashed at the
    middle pace of the newest half of the run, the wedge from the 10th to the 90th percentile
    (:func:`agentlab.analysis.plots.forecast.forecast`). Without any limit, shares are of what was used in the end.

    Data: session_id, seq, dimension, x (elapsed time in the axis's unit), spent, used, limit, share (1.0 is the
    limit), reserved (set aside beforehand for what this event spent; NaN when nothing was).
    """
    found = analysed(x, lab)
    clock = d.Elapsed.of(found)
    held = found.sql(_RESERVED)
    data, limited = _data(found, clock, held)
    title = f"Budget burn: {d.whose(found)}"
    ax = d.new_axes(ax, 3.6)
    if data.empty:
        return d.nothing(ax, data, title, "nothing has been spent yet")
    dimensions = list(data.groupby("dimension").share.max().sort_values(ascending=False).index[: len(d.SERIES)])
    alone = data.session_id.nunique() == 1
    told = [part for i, name in enumerate(dimensions) for part in _dimension(ax, found, data, name, i, limited, clock)]
    if limited and alone:
        _reserved(ax, data, held, dimensions, clock)
    if limited:
        ax.axhline(1.0, color=d.BLACK, linewidth=1.2)
        ax.text(0.0, 1.0, " limit", transform=ax.get_yaxis_transform(), ha="left", va="bottom", fontsize=d.SMALL)
    alerts = _alerts(ax, found, data, clock)
    d.mark_deaths(ax, d.deaths(found, clock))
    ax.set_ylim(0, max(1.08, float(data.share.max()) * 1.06))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set_xlabel(clock.label, fontsize=9)
    ax.set_ylabel("share of the limit" if limited else "share of the total (no limits)", fontsize=9)
    rang = f" {alerts} alert{'s' if alerts > 1 else ''}." if alerts else ""
    return d.finish(ax, data, title, f"{title}. Used: {', '.join(told)}.{rang}", legend=3)


def _data(found: Analysed, clock: d.Elapsed, held: Frame) -> tuple[Frame, bool]:
    data = found.frame("budget")
    limited = bool(data["limit"].notna().any())
    if limited:
        data = data[data["limit"].notna() & (data["limit"] > 0)]
        share = data.used / data["limit"]
    else:
        data = data[data.dimension.isin(_UNLIMITED)]
        share = data.used / data.groupby(["session_id", "dimension"]).used.transform("max")
    data = data.assign(share=share.astype(float), x=clock.x(data, "ts"))
    answered = found.frame("turns")[["session_id", "seq", "answered_seq"]].dropna()
    amounts = held.merge(answered, on=["session_id", "seq"])[["session_id", "answered_seq", "dimension", "reserved"]]
    amounts = amounts.rename(columns={"answered_seq": "seq"})
    data = data.merge(amounts, on=["session_id", "seq", "dimension"], how="left")
    names = ["session_id", "seq", "dimension", "x", "spent", "used", "limit", "share", "reserved"]
    return data[names].astype({"reserved": float}).reset_index(drop=True), limited


def _dimension(
    ax: d.Axes, found: Analysed, data: Frame, dimension: str, index: int, limited: bool, clock: d.Elapsed
) -> list[str]:
    """The lines of one dimension and their forecasts; in words, how much is used and when the limit comes."""
    color, marker = d.SERIES[index]
    mine = data[data.dimension == dimension]
    label = _label(dimension, mine, limited)
    alone = data.session_id.nunique() == 1
    status = found.frame("sessions").set_index("session_id").status
    told = [f"{_WORDS.get(dimension, dimension)} {mine.share.max():.0%}"]
    for session_id, group in mine.groupby("session_id"):
        ax.step(group.x, group.share, where="post", color=color, linewidth=1.6 if alone else 1.0, label=label,
                marker=marker, markevery=max(1, len(group) // 8), markersize=4.5, alpha=1.0 if alone else 0.75)  # fmt: skip
        label = "_"
        if limited and status[session_id] != "ended":
            coming = forecast(group.x.tolist(), group.share.tolist())
            if coming is not None:
                told.append(_wedge(ax, group, coming, color, dimension, clock))
    return told


def _label(dimension: str, group: Frame, limited: bool) -> str:
    words = _WORDS.get(dimension, d.shown(dimension, 22))
    last = group.iloc[-1]
    amount = "{:,.2f} USD" if dimension == "cost_usd" else "{:,.0f} s" if dimension == "active_s" else "{:,.0f}"
    if group.session_id.nunique() > 1:
        return words
    used = amount.format(last.used)
    return f"{words}: {used} of {amount.format(last['limit'])}" if limited else f"{words}: {used}"


def _wedge(ax: d.Axes, group: Frame, coming: Forecast, color: str, dimension: str, clock: d.Elapsed) -> str:
    """Where the limit is reached if it goes on like this, from the early to the late end of what may be."""
    last = group.iloc[-1]
    span = max(float(last.x) - float(group.x.iloc[0]), 1e-9)
    end = float(last.x) + min(coming.middle, span)  # further than the run is long is no forecast
    at = [float(last.x), end]
    lines = [[float(last.share), float(last.share) + (1 - float(last.share)) * (end - last.x) / w] for w in coming]
    ax.fill_between(at, lines[2], [min(1.0, v) for v in lines[0]], color=color, alpha=0.16, linewidth=0)
    ax.plot(at, lines[1], "--", color=color, linewidth=1.1)
    early, middle, late = (w * clock.divisor for w in coming)
    between = f"{d.seconds_text(early)} to {'never' if math.isinf(late) else d.seconds_text(late)}"
    if coming.middle <= span:
        ax.annotate(f"in {d.seconds_text(middle)}", (end, 1.0), fontsize=d.SMALL, color=color, ha="center", va="bottom")
    return f"{_WORDS.get(dimension, dimension)} reaches its limit in {d.seconds_text(middle)} ({between})"


def _reserved(ax: d.Axes, data: Frame, held: Frame, dimensions: list[str], clock: d.Elapsed) -> None:
    """What was set aside, on top of what was used at that moment."""
    import numpy as np

    end = float(data.x.max())
    named: set[str] = set()
    for index, dimension in enumerate(dimensions):
        mine, rows = data[data.dimension == dimension], held[held.dimension == dimension]
        if rows.empty:
            continue
        limit = float(mine["limit"].iloc[-1])
        used = np.concatenate([[0.0], mine.share.to_numpy(dtype=float)])
        low = used[np.searchsorted(mine.seq.to_numpy(dtype=float), rows.seq.to_numpy(dtype=float))]
        x = clock.x(rows, "ts")
        till = (clock.x(rows, "until") if rows.until.notna().any() else x * np.nan).fillna(end).clip(upper=end)
        high = low + rows.reserved.to_numpy(dtype=float) / limit
        color = d.SERIES[index][0]
        if len(rows) > MANY:
            top = rows.assign(high=high).groupby(d.binned(x, 120)).high.max()
            ax.plot(top.index, top, color=color, linewidth=0.8, linestyle=":", label=_once("reserved, highest", named))
            continue
        for risk, hatch, words in ((False, None, "reserved"), (True, "////", "at risk")):
            part = (rows.at_risk == risk).to_numpy(dtype=bool)
            if part.any():
                ax.bar(x[part], (high - low)[part], (till - x)[part], bottom=low[part], align="edge", color=color,
                       alpha=0.3, hatch=hatch, linewidth=0, label=_once(words, named), zorder=1.8)  # fmt: skip


def _once(words: str, named: set[str]) -> str:
    known = words in named
    named.add(words)
    return "_" if known else words


def _alerts(ax: d.Axes, found: Analysed, data: Frame, clock: d.Elapsed) -> int:
    """A bell on the line at each alert; how many there were."""
    alerts = found.sql(_ALERTS)
    if alerts.empty:
        return 0
    drawn = 0
    xs = clock.x(alerts, "ts")
    for x, row in zip(xs, alerts.itertuples(), strict=True):
        line = data[(data.session_id == row.session_id) & (data.dimension == row.dimension) & (data.seq <= row.seq)]
        if len(line):
            label = "_" if drawn else "alert"
            ax.plot([x], [line.share.iloc[-1]], "^", color=d.YELLOW, markeredgecolor=d.BLACK, markersize=9, label=label,
                    linestyle="none", zorder=6)  # fmt: skip
            drawn += 1
    return drawn
