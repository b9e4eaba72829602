"""What all plots share: axes without pyplot, colours with markers, elapsed time, and the marks of deaths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentlab.analysis.sources import Analysed, Frame

Axes = Any
"""A ``matplotlib.axes.Axes``."""

BLUE, ORANGE, PINK, SKY, BLACK, YELLOW = "#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#000000", "#F0E442"
RED, GREEN, GREY = "#D55E00", "#009E73", "#8C8C8C"
"""Okabe and Ito's colours; red and green are kept for deaths and recoveries."""
SERIES = ((BLUE, "o"), (ORANGE, "s"), (PINK, "^"), (SKY, "D"), (BLACK, "v"), (YELLOW, "P"))
"""Colour and marker of a series, in this order."""
OTHERS = (GREY, ".")
SMALL = 8.0
WIDTH = 8.0
"""Inches: a notebook's column."""
NARROW = 5.0
"""Inches below which a legend has half as many columns: axes beside others."""
MANY = 12
"""Deaths above which they are drawn as thin lines without bands."""


def new_axes(ax: Axes | None, height: float = 3.4) -> Axes:
    """``ax``, or the Axes of a new figure that shows itself in a notebook."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    made: Axes = figure.add_subplot()
    made._repr_mimebundle_ = lambda include=None, exclude=None: _bundle(made)
    return made


def _bundle(ax: Axes) -> dict[str, Any]:
    return {"text/plain": getattr(ax, "alt", "a plot"), "image/png": png(ax.figure)}


def png(figure: Any, dpi: int = 100) -> bytes:
    """The picture of a figure, the same bytes for the same figure."""
    import io

    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=dpi, metadata={"Software": None})
    return sink.getvalue()


def finish(ax: Axes, data: Frame, title: str, alt: str, legend: int = 0) -> Axes:
    """Title, light grid, legend below the axes in ``legend`` columns, and what was drawn as attributes."""
    ax.set_title(title, loc="left", fontsize=11)
    ax.grid(True, color="#E6E6E6", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    if legend and ax.get_legend_handles_labels()[0]:
        from matplotlib.transforms import ScaledTranslation

        # Below the axis's label, whose distance is in points while the height of the axes is anything.
        below = ax.transAxes + ScaledTranslation(0, -36 / 72, ax.figure.dpi_scale_trans)
        made = ax.legend(
            loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below, fontsize=SMALL,
            ncols=_columns(ax, legend),
            frameon=False, handletextpad=0.5, columnspacing=1.4,
        )  # fmt: skip
        _readable(made)
    ax.data = data
    ax.alt = alt
    return ax


def _columns(ax: Axes, most: int) -> int:
    """As many columns of a legend as stay within the figure, by the length of the labels."""
    labels = ax.get_legend_handles_labels()[1]
    widest = max(len(str(label)) for label in labels) * 0.6 * SMALL / 72 + 0.45
    room = float(ax.figure.get_size_inches()[0]) if inches(ax) > NARROW else inches(ax) + 0.8
    return max(1, min(most if inches(ax) > NARROW else (most + 1) // 2, int(room / widest)))


def inches(ax: Axes) -> float:
    """About how wide the axes are; layouts change it a little when they draw."""
    return float(ax.get_position().width * ax.figure.get_size_inches()[0])


def _readable(legend: Any) -> None:
    """Markers that are dots in a cloud are full-sized and opaque in the legend."""
    for handle in legend.legend_handles:
        if hasattr(handle, "set_markersize"):
            handle.set_markersize(max(5.0, handle.get_markersize()))
            handle.set_alpha(1.0)
        elif hasattr(handle, "set_sizes"):
            handle.set_sizes([26.0])


def nothing(ax: Axes, data: Frame, title: str, why: str) -> Axes:
    """Axes that say why there is nothing to see."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color=GREY, fontsize=10)
    ax.set_xticks([])
    ax.set_yticks([])
    return finish(ax, data, title, f"{title}: {why}")


@dataclass(frozen=True)
class Elapsed:
    """Time since each session's start, in a unit that fits the longest."""

    starts: dict[str, Any]
    divisor: float
    unit: str

    @classmethod
    def of(cls, found: Analysed) -> Elapsed:
        """The clock of the analysed sessions."""
        frame = found.frame("sessions")
        longest = float(frame.wall_s.max()) if len(frame) else 0.0
        units = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (0.5, "seconds"), (0.0, "milliseconds"))
        unit = next(name for least, name in units if longest >= 2 * least)
        divisor = {"seconds": 1.0, "milliseconds": 0.001}.get(unit) or next(
            least for least, name in units if name == unit
        )
        return cls(dict(zip(frame.session_id, frame.started_at, strict=True)), divisor, unit)

    def x(self, frame: Frame, column: str) -> Frame:
        """``column`` of ``frame`` (which has ``session_id``) as elapsed time."""
        since = frame[column] - frame["session_id"].map(self.starts).astype(frame[column].dtype)
        return since.dt.total_seconds() / self.divisor

    @property
    def label(self) -> str:
        """Words for the axis."""
        return f"{self.unit} since the session's start"


_OTHER_FAULTS = """
SELECT session_id, seq AS at_seq, seq, NULL::BIGINT AS end_seq, 'fault' AS target,
    concat(_text(payload, '$.target'), ':', _text(payload, '$.action')) AS cause, NULL::BOOLEAN AS completed,
    NULL::DOUBLE AS seconds, coalesce(make_timestamptz(_int(payload, '$.at_us')), ts) AS died_at
FROM events WHERE type = 'fault_injected' AND (_text(payload, '$.action') = 'stop'
    OR NOT regexp_matches(_text(payload, '$.target'), '^(harness|sandbox)'))
ORDER BY session_id, seq
"""
"""Injected faults that are no death: a model that is down, a reply that is lost, a full disk, a process that is stopped."""


def deaths(found: Analysed, clock: Elapsed) -> Frame:
    """Where deaths, the ends of their recoveries, and other injected faults lie.

    Columns: session_id, at_seq, seq, end_seq, target (harness, sandbox or fault), cause, completed, seconds, x, x_end.
    """
    import pandas as pd

    frame = found.frame("recoveries")
    names = ["session_id", "at_seq", "seq", "end_seq", "target", "cause", "completed", "seconds", "died_at"]
    others = found.sql(_OTHER_FAULTS)
    if len(others):
        kinds = frame[names].dtypes
        frame = pd.concat([frame[names], others[names].astype(kinds)], ignore_index=True)
    frame["x"] = clock.x(frame, "died_at")
    frame["x_end"] = frame["x"] + frame["seconds"] / clock.divisor
    return frame[[*names[:-1], "x", "x_end"]]


@dataclass(frozen=True)
class Look:
    """How a kind of mark is drawn."""

    words: str
    marker: str
    style: str


LOOKS = {
    "harness": Look("harness died", "v", "--"), "sandbox": Look("sandbox lost", "X", ":"),
    "fault": Look("fault injected", "*", "-."),
}  # fmt: skip


def mark_deaths(ax: Axes, marks: Frame) -> None:
    """Deaths and other faults as lines with a sign on top, recoveries as bands; each appears in the legend once."""
    named: set[str] = set()
    few = len(marks) <= MANY
    alpha = 0.22 if marks.session_id.nunique() <= 1 else 0.08

    def once(words: str) -> str:
        known = words in named
        named.add(words)
        return "_" if known else words

    for row in marks.dropna(subset=["x"]).itertuples():
        look = LOOKS[row.target]
        ax.axvline(row.x, color=RED, linestyle=look.style, linewidth=1.0 if few else 0.6, zorder=1.5)
        ax.plot(
            [row.x], [1.0], marker=look.marker, color=RED, markersize=6 if few else 4, clip_on=False,
            transform=ax.get_xaxis_transform(), linestyle=look.style, label=once(look.words), zorder=5,
        )  # fmt: skip
        if row.x_end == row.x_end and row.target in ("harness", "sandbox"):
            ax.axvspan(row.x, row.x_end, color=GREEN, alpha=alpha, linewidth=0, label=once("recovering"), zorder=1)


def on_axis(marks: Frame, positions: Frame, seq: str = "seq") -> Frame:
    """``marks`` moved to another axis: ``positions`` gives ``x`` for events ``seq`` of each session."""
    import numpy as np

    moved = []
    for session_id, group in marks.groupby("session_id"):
        known = positions[positions.session_id == session_id]
        if len(known):
            seqs, xs = known[seq].astype(float), known["x"].astype(float)
            x = np.interp(group.at_seq.astype(float), seqs, xs)
            end = np.interp(group.end_seq.astype(float).fillna(group.at_seq.astype(float)), seqs, xs)
            moved.append(group.assign(x=x, x_end=end))
    import pandas as pd

    return pd.concat(moved) if moved else marks.iloc[:0]


def binned(x: Frame, bins: int) -> Frame:
    """For each value the middle of its bin, ``bins`` of them over the whole range."""
    import numpy as np

    edges = np.linspace(x.min(), x.max(), bins + 1)
    index = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, bins - 1)
    return x * 0.0 + (edges[index] + edges[index + 1]) / 2


def whole_numbers(ax: Axes) -> None:
    """Ticks of the lower axis at whole numbers only: there is no call 1.5."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))


def seconds_text(value: float) -> str:
    """Seconds for a person: 12 ms, 3.4 s, 5.2 min, 1.3 h."""
    if value < 0.0995:
        return f"{value * 1000:.0f} ms" if value >= 0.001 else f"{value * 1000:.2g} ms"
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def whose(found: Analysed) -> str:
    """The sessions in a few words, for titles."""
    ids = found.frame("sessions").session_id.tolist()
    if len(ids) == 1:
        return str(ids[0])
    return f"{len(ids)} sessions" if ids else "no session"


def shown(text: str, width: int = 34) -> str:
    """A text as a label: one line, shortened in the middle, without mathtext."""
    line = "".join(c if c.isprintable() else "·" for c in text).replace("$", r"\$")
    return line if len(line) <= width else f"{line[: width - 12]}…{line[-11:]}"
