"""External effects: registered, tried, verified, completed."""

from __future__ import annotations

from typing import Any

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.sources import Frame, Source, analysed

MOST = 24
STATES = {
    "completed": (d.BLUE, "o"), "pending": (d.ORANGE, "s"), "failed": (d.BLACK, "x"), "in_doubt": (d.RED, "P"),
    "settled": (d.PINK, "D"),
}  # fmt: skip
_LOOKED = """
SELECT session_id, coalesce(effect_key, _text(payload, '$.key')) AS effect_key, seq, ts, type FROM events
WHERE type IN ('effect_pending', 'effect_verified') ORDER BY session_id, seq
"""


def effects(x: Source, *, ax: d.Axes | None = None, lab: Any = None) -> d.Axes:
    """A row for each external effect, from its registration to its end: tool, key, how often it was tried.

    Every try and verification is marked.

    With more than twenty-four, those that did not simply complete are drawn first. Data: the view ``effects`` with
    ``x`` and ``x_end`` (elapsed time in the axis's unit).
    """
    found = analysed(x, lab)
    clock = d.Elapsed.of(found)
    data = found.frame("effects")
    title = f"External effects: {d.whose(found)}"
    if data.empty:
        return d.nothing(d.new_axes(ax, 2.0), data.assign(x=[], x_end=[]), title, "no effect was registered")
    data = data.assign(x=clock.x(data, "started_at"), x_end=clock.x(data, "completed_at"))
    rows = _chosen(data)
    if len(rows) < len(data):
        title += f" ({len(rows)} of {len(data)})"
    ax = d.new_axes(ax, 2.0 + 0.26 * len(rows))
    moments = found.sql(_LOOKED)
    moments = moments.assign(x=clock.x(moments, "ts"))
    places = {key: i for i, key in enumerate(zip(rows.session_id, rows.effect_key, strict=True))}
    moments["y"] = [places.get(key) for key in zip(moments.session_id, moments.effect_key, strict=True)]
    now = float(max(moments.x.max(), data.x_end.max()))
    for y, row in enumerate(rows.itertuples()):
        ended = row.x_end == row.x_end
        ax.plot([row.x, row.x_end if ended else now], [y, y], "-" if ended else ":", color=d.GREY, linewidth=1.4)
    looks = (("effect_pending", "|", d.BLACK, "registered and tried"), ("effect_verified", "d", d.GREEN, "verified"))
    for kind, marker, color, words in looks:
        part = moments[(moments.type == kind) & moments.y.notna()]
        if len(part):
            # Above the line: what was verified as completed is recorded in the same moment.
            y = part.y.astype(float) - (0.0 if marker == "|" else 0.26)
            ax.plot(part.x, y, marker, color=color, markersize=9 if marker == "|" else 6, label=words, zorder=3)
    for state, (color, marker) in STATES.items():
        of_state = rows.reset_index(drop=True).query("state == @state")
        if len(of_state):
            label = f"{state.replace('_', ' ')}: {(data.state == state).sum()}"
            ax.plot(
                of_state.x_end.fillna(now), of_state.index, marker, color=color, markersize=7, label=label, zorder=4
            )
    d.mark_deaths(ax, d.deaths(found, clock))
    ax.set_yticks(
        range(len(rows)),
        [f"{row.tool_name} {d.shown(row.effect_key, 26)}, {_tries(row.tries)}" for row in rows.itertuples()],
    )
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(clock.label, fontsize=9)
    counts = ", ".join(f"{n} {state}" for state, n in data.state.value_counts().items())
    twice = int((data.tries > 1).sum())
    return d.finish(ax, data, title, f"{title}. {counts}; {twice} begun more than once.", legend=4)


def _tries(number: int) -> str:
    return "1 try" if number == 1 else f"{number} tries"


def _chosen(data: Frame) -> Frame:
    if len(data) <= MOST:
        return data
    plain = (data.state == "completed") & (data.tries == 1) & (data.verified == 0)
    kept = data.assign(plain=plain).sort_values(["plain", "session_id", "seq"]).head(MOST)
    return kept.sort_values(["session_id", "seq"]).drop(columns="plain")
