"""Checkpoint policies against each other: what checkpoints cost, what crashes lose, and what theory expects."""

from __future__ import annotations

from typing import NamedTuple

from agentlab.analysis.plots import drawing as d
from agentlab.analysis.sources import Frame
from agentlab.errors import UserError
from agentlab.interval import daly, segment_time, young

FEWEST = 6
"""Runs that a 95 % interval is made of at least, as :func:`agentlab.experiments.fit.values_for` says why."""
_OPTIMA = (("Young", "*", young), ("Daly", "p", daly))

NEEDED = ("overhead_s", "lost_s")
WIDE = 40.0
"""Largest over smallest value above which an axis is logarithmic around its zero."""


class _Theory(NamedTuple):
    delta: float
    mtbf: float
    work: float

    def point(self, tau: float) -> tuple[float, float]:
        """Shares of the work that an interval of ``tau`` spends on checkpoints and loses by crashes.

        Daly's expected time of a segment, restarts left out: ``M (exp((tau + delta)/M) - 1)``; what is neither work nor
        a finished checkpoint is lost.
        """
        total = segment_time(tau, self.delta, self.mtbf)
        return self.delta / tau, max(0.0, (total - tau - self.delta) / tau)


def policies(frame: Frame, *, ax: d.Axes | None = None) -> d.Axes:
    """Checkpoint overhead (across) against lost work (up), both as shares of the useful work; left and low is good.

    Takes the frame of ``al.compare(…)``: one row per run with ``condition`` (or ``policy``), ``overhead_s``, ``lost_s``,
    and where there are ``redone_s`` (counted as lost), ``work_s``, ``checkpoint_s``, ``mtbf_s``, ``faults``,
    ``recovery_s``, ``completed``. Pale marks are runs, crosses those that did not complete; a full mark is a condition's
    mean with its 95 % interval (normal, over runs; none under 6). The curve is what theory expects of every interval, for the mean
    cost of a checkpoint and the mean time between failures of these runs, with Young's and Daly's intervals on it
    (:mod:`agentlab.interval`). Data: condition, overhead, lost (shares of the work), completed, faults, recovery_s.

    Raises:
        UserError: the frame lacks a column that is needed.
    """
    data, shares = _data(frame)
    title = "Checkpoint policies: overhead against lost work"
    ax = d.new_axes(ax, 3.4 + 0.17 * (data.condition.nunique() + 3))
    if data.empty:
        return d.nothing(ax, data, title, "no run to compare")
    told = [_condition(ax, str(name), group, index) for index, (name, group) in enumerate(_conditions(data))]
    theory = _theory(frame) if shares else None
    if theory is not None:
        told.append(_curve(ax, theory, data))
    _scale(ax, data)
    unit = "of the useful work" if shares else "seconds"
    ax.set_xlabel(f"checkpoint overhead ({unit})", fontsize=9)
    ax.set_ylabel(f"lost and redone work ({unit})", fontsize=9)
    if shares:
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value * 100:.3g}%")
    return d.finish(ax, data, title, f"{title}. {' '.join(told)}", legend=2)


def _data(frame: Frame) -> tuple[Frame, bool]:
    import pandas as pd

    name = "condition" if "condition" in frame else "policy"
    missing = [column for column in (*NEEDED, name) if column not in frame]
    if missing:
        raise UserError(f"policies() draws the frame of a comparison; this one has no {', '.join(missing)}")
    lost = frame.lost_s.astype(float)
    if "redone_s" in frame:
        lost = lost + frame.redone_s.astype(float).fillna(0.0)
    shares = "work_s" in frame and bool((frame.work_s.astype(float) > 0).all())
    unit = frame.work_s.astype(float) if shares else 1.0
    empty = pd.Series(float("nan"), index=frame.index)
    data = pd.DataFrame(
        {
            "condition": frame[name].astype("string"),
            "overhead": frame.overhead_s.astype(float) / unit,
            "lost": lost / unit,
            "completed": frame.completed.fillna(False).astype(bool) if "completed" in frame else True,
            "faults": frame.faults.astype(float) if "faults" in frame else empty,
            "recovery_s": frame.recovery_s.astype(float) if "recovery_s" in frame else empty,
        }
    )
    return data.dropna(subset=["overhead", "lost"]).reset_index(drop=True), shares


def _conditions(data: Frame) -> list[tuple[str, Frame]]:
    return [(name, data[data.condition == name]) for name in dict.fromkeys(data.condition)]


def _condition(ax: d.Axes, name: str, group: Frame, index: int) -> str:
    color, marker = d.SERIES[index % len(d.SERIES)]
    fill = "full" if index < len(d.SERIES) else "none"
    done, broken = group[group.completed], group[~group.completed]
    few = len(group) <= 200
    ax.plot(done.overhead, done.lost, marker, color=color, markersize=4 if few else 2, alpha=0.25, markeredgewidth=0)
    ax.plot(broken.overhead, broken.lost, "x", color=color, markersize=5, alpha=0.5)
    x, y = float(group.overhead.mean()), float(group.lost.mean())
    label = f"{d.shown(name, 24)}: {len(done)}/{len(group)} done"
    if group.faults.notna().any():
        label += f", {group.faults.mean():.3g} crashes"
    if group.recovery_s.notna().any():
        label += f", {d.seconds_text(group.recovery_s.mean())} recovering"
    bars = {"xerr": [[min(_half(group.overhead), x)], [_half(group.overhead)]],
            "yerr": [[min(_half(group.lost), y)], [_half(group.lost)]]}  # fmt: skip
    ax.errorbar([x], [y], **bars, fmt=marker, color=color, markersize=9, markeredgecolor=d.BLACK, markeredgewidth=0.7,
                fillstyle=fill, elinewidth=1.3, capsize=3, label=label, zorder=5)  # fmt: skip
    return f"{name}: overhead {x:.1%}, lost {y:.1%}."


def _half(values: Frame) -> float:
    """Half the width of the 95 % interval of a mean; 0 of so few runs that there is none."""
    return 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) >= FEWEST else 0.0


def _theory(frame: Frame) -> _Theory | None:
    if not {"checkpoint_s", "mtbf_s"} <= set(frame.columns):
        return None
    cost, mtbf = frame.checkpoint_s.astype(float), frame.mtbf_s.astype(float).median()
    if "checkpoints" in frame:  # each checkpoint counts once, as in the summary's sentence
        count = frame.checkpoints.astype(float).where(cost.notna())
        delta = float((cost * count).sum() / count.sum()) if count.sum() > 0 else float("nan")
    else:
        delta = float(cost.mean())
    work = float(frame.work_s.astype(float).mean())
    return _Theory(delta, float(mtbf), work) if delta > 0 and mtbf > 0 else None  # NaN compares as false


def _curve(ax: d.Axes, theory: _Theory, data: Frame) -> str:
    import numpy as np

    optimal = [(name, marker, find(theory.delta, theory.mtbf)) for name, marker, find in _OPTIMA]
    widest = max(float(data.overhead.max()), 1e-6, *(theory.point(tau)[0] for _, _, tau in optimal)) * 1.5
    longest = max(theory.work, theory.delta / widest * 4)
    points = [theory.point(float(tau)) for tau in np.geomspace(theory.delta / widest, longest, 400)]
    highest = max(float(data.lost.max()), *(theory.point(tau)[1] for _, _, tau in optimal)) * 1.3
    shown = [(x, y) for x, y in points if y <= highest]
    ax.plot([x for x, _ in shown], [y for _, y in shown], color=d.GREY, linewidth=1.4, zorder=1.5,
            label=f"theory: checkpoint {d.seconds_text(theory.delta)}, crash every {d.seconds_text(theory.mtbf)}")  # fmt: skip
    told = []
    for name, marker, tau in optimal:
        x, y = theory.point(tau)
        ax.plot([x], [y], marker, color="white", markeredgecolor=d.BLACK, markersize=11 if marker == "*" else 8,
                linestyle="none", label=f"{name}'s interval: {d.seconds_text(tau)}", zorder=4)  # fmt: skip
        told.append(f"{name}'s interval is {d.seconds_text(tau)} of work.")
    return " ".join(told)


def _scale(ax: d.Axes, data: Frame) -> None:
    """Axes from zero; logarithmic above a small linear part where the means are far apart."""
    means = data.groupby("condition")[["overhead", "lost"]].mean()
    for column, scale, limit in (("overhead", ax.set_xscale, ax.set_xlim), ("lost", ax.set_yscale, ax.set_ylim)):
        values = means[column][means[column] > 0]
        if len(values) and values.max() / values.min() > WIDE:
            scale("symlog", linthresh=max(float(values.min()), float(values.max()) / WIDE), linscale=1.0)
        limit(left=0) if column == "overhead" else limit(bottom=0)
