"""What each crash cost, stage by stage."""

from __future__ import annotations

from typing import Any

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.sources import Source, analysed

STAGES = (
    ("detect_s", "until a new harness is awake", d.GREY, ""),
    ("load_s", "load the log and the checkpoint", d.BLUE, "//"),
    ("sandbox_s", "take up or restore the sandbox", d.ORANGE, "\\\\"),
    ("rebuild_s", "rebuild the context", d.BLACK, ""),
    ("verify_s", "verify pending effects", d.SKY, ".."),
    ("statement_s", "check the model's statement", d.PINK, "xx"),
)
MOST = 24


def recovery(x: Source, *, ax: d.Axes | None = None, lab: Any = None) -> d.Axes:
    """One bar for each death of a harness or sandbox: seconds by stage, and in words what was done again.

    Data: the view ``recoveries`` (see :func:`agentlab.analysis.recoveries`); with more than twenty-four deaths the ones
    that took longest are drawn.
    """
    found = analysed(x, lab)
    data = found.frame("recoveries")
    title = f"What each crash cost: {d.whose(found)}"
    if data.empty:
        return d.nothing(d.new_axes(ax, 2.0), data, title, "nothing crashed")
    rows = data
    if len(data) > MOST:
        rows = data.sort_values("seconds", ascending=False, na_position="first").head(MOST).sort_index()
        title += f" (the longest {MOST} of {len(data)})"
    ax = d.new_axes(ax, 1.9 + 0.32 * len(rows))
    left = [0.0] * len(rows)
    positions = list(range(len(rows)))
    for column, words, color, hatch in STAGES:
        widths = rows[column].fillna(0.0).astype(float).tolist()
        if any(widths):
            ax.barh(
                positions, widths, left=left, height=0.62, color=color, hatch=hatch, edgecolor="white", linewidth=0.5,
                label=words,
            )  # fmt: skip
        left = [a + b for a, b in zip(left, widths, strict=True)]
    longest = max(left) or 1.0
    several = data.session_id.nunique() > 1
    for y, end, row in zip(positions, left, rows.itertuples(), strict=True):
        ax.text(end + longest * 0.01, y, _words(row), va="center", fontsize=d.SMALL)
        ax.plot([0], [y], marker="v" if row.target == "harness" else "X", color=d.RED, markersize=6, clip_on=False)
    ax.set_yticks(positions, [_name(row, several) for row in rows.itertuples()])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    # Room for the words behind the longest bar: about a sixteenth of an inch for each letter.
    room, width = 0.066 * max(len(_words(row)) for row in rows.itertuples()), d.inches(ax)
    ax.set_xlim(0, longest * width / max(0.35 * width, width - room - 0.15))
    ax.set_xlabel("seconds from the last sign of life (▼ harness, ✖ sandbox)", fontsize=9)
    done = data.seconds.dropna()
    alt = (
        f"{title}. {len(data)} deaths; recovery took {d.seconds_text(done.median()) if len(done) else 'unknown time'}"
        f" in the median, {int(data.lost_steps.sum())} steps lost, {int(data.commands_again.sum())} commands run again."
    )
    ax = d.finish(ax, data, title, alt, legend=2)
    ax.grid(axis="y", visible=False)
    return ax


def _name(row: Any, several: bool) -> str:
    where = f"{d.shown(row.session_id, 20)} · " if several else ""
    return f"{where}{d.shown(row.cause, 32)} (event {row.at_seq})"


def _words(row: Any) -> str:
    if not row.completed:
        return "cut by another death" if row.seconds == row.seconds else "not over"
    parts = [d.seconds_text(row.seconds)]
    for count, one, many in (
        (row.lost_steps, "step lost", "steps lost"),
        (row.commands_again, "command again", "commands again"),
        (row.effects_verified, "effect verified", "effects verified"),
    ):
        if count:
            parts.append(f"{count} {one if count == 1 else many}")
    if row.tokens:
        parts.append(f"{row.tokens:,} tokens")
    return ", ".join(parts)
