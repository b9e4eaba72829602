"""Budget burn: each dimension against its limit, and when it will be reached."""

from __future__ import annotations

from typing import Any

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.sources import Analysed, Frame, Source, analysed

_WORDS = {
    "input_tokens": "input tokens", "output_tokens": "output tokens", "cache_tokens": "cache tokens",
    "cost_usd": "cost", "model_calls": "model calls", "tool_calls": "tool calls", "active_s": "active time",
}  # fmt: skip
_UNLIMITED = ("input_tokens", "output_tokens", "cost_usd", "tool_calls")
FORECAST_SHARE = 0.34
"""The forecast goes on at the pace of this last share of the run."""


def burn(x: Source, *, ax: d.Axes | None = None, lab: Any = None) -> d.Axes:
    """Used share of each limited dimension over elapsed time; dashed: when it is reached at the newest pace.

    The forecast is for sessions that have not ended. Without any limit, shares are of what was used in the end. Data:
    session_id, seq, dimension, x, spent, used, limit, share (1.0 is the limit).
    """
    found = analysed(x, lab)
    clock = d.Elapsed.of(found)
    data, limited = _data(found, clock)
    title = f"Budget burn: {d.whose(found)}"
    ax = d.new_axes(ax, 3.6)
    if data.empty:
        return d.nothing(ax, data, title, "nothing has been spent yet")
    sessions = found.frame("sessions").set_index("session_id")
    dimensions = list(data.groupby("dimension").share.max().sort_values(ascending=False).index[: len(d.SERIES)])
    alone = data.session_id.nunique() == 1
    told = []
    for index, dimension in enumerate(dimensions):
        color, marker = d.SERIES[index]
        worst = data[data.dimension == dimension].share.max()
        label = _label(dimension, data[data.dimension == dimension], limited)
        for session_id, group in data[data.dimension == dimension].groupby("session_id"):
            ax.step(group.x, group.share, where="post", color=color, linewidth=1.6 if alone else 1.0, label=label,
                    marker=marker, markevery=max(1, len(group) // 8), markersize=4.5, alpha=1.0 if alone else 0.75)  # fmt: skip
            label = "_"
            if limited and sessions.status[session_id] != "ended":
                told += _forecast(ax, group, color, str(dimension), clock)
        told.append(f"{_WORDS.get(str(dimension), str(dimension))} {worst:.0%}")
    if limited:
        ax.axhline(1.0, color=d.BLACK, linewidth=1.2)
        ax.text(1.0, 1.0, "limit ", transform=ax.get_yaxis_transform(), ha="right", va="bottom", fontsize=d.SMALL)
    d.mark_deaths(ax, d.deaths(found, clock))
    ax.set_ylim(0, max(1.08, float(data.share.max()) * 1.06))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set_xlabel(clock.label, fontsize=9)
    ax.set_ylabel("share of the limit" if limited else "share of the total (no limits)", fontsize=9)
    return d.finish(ax, data, title, f"{title}. Used: {', '.join(told)}.", legend=3)


def _data(found: Analysed, clock: d.Elapsed) -> tuple[Frame, bool]:
    data = found.frame("budget")
    limited = bool(data["limit"].notna().any())
    if limited:
        data = data[data["limit"].notna() & (data["limit"] > 0)]
        share = data.used / data["limit"]
    else:
        data = data[data.dimension.isin(_UNLIMITED)]
        share = data.used / data.groupby(["session_id", "dimension"]).used.transform("max")
    data = data.assign(share=share.astype(float), x=clock.x(data, "ts"))
    names = ["session_id", "seq", "dimension", "x", "spent", "used", "limit", "share"]
    return data[names].reset_index(drop=True), limited


def _label(dimension: str, group: Frame, limited: bool) -> str:
    words = _WORDS.get(dimension, d.shown(dimension, 22))
    last = group.iloc[-1]
    amount = "{:,.2f} USD" if dimension == "cost_usd" else "{:,.0f} s" if dimension == "active_s" else "{:,.0f}"
    if group.session_id.nunique() > 1:
        return words
    used = amount.format(last.used)
    return f"{words}: {used} of {amount.format(last['limit'])}" if limited else f"{words}: {used}"


def _forecast(ax: d.Axes, group: Frame, color: str, dimension: str, clock: d.Elapsed) -> list[str]:
    """A dashed line from the newest value to the limit at the pace of the newest part of the run."""
    last = group.iloc[-1]
    recent = group[group.x >= last.x - (last.x - group.x.iloc[0]) * FORECAST_SHARE]
    gone = last.x - recent.x.iloc[0]
    pace = (last.share - recent.share.iloc[0]) / gone if gone > 0 else 0.0
    if pace <= 0 or last.share >= 1:
        return []
    reach = last.x + (1 - last.share) / pace
    end = min(reach, last.x * 2.0)  # further than the run is long is no forecast
    ax.plot([last.x, end], [last.share, last.share + (end - last.x) * pace], "--", color=color, linewidth=1.1)
    words = (
        f"{_WORDS.get(dimension, dimension)} reaches its limit in {d.seconds_text((reach - last.x) * clock.divisor)}"
    )
    if end == reach:
        ax.annotate(
            f"in {d.seconds_text((reach - last.x) * clock.divisor)}", (reach, 1.0), fontsize=d.SMALL, color=color,
            ha="center", va="bottom",
        )  # fmt: skip
    return [words]
