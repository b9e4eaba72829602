"""The result of a comparison: the frame of runs and the summary in one object that shows itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from agentlab.comparing.summary import Summary
from agentlab.experiments.columns import METRICS

if TYPE_CHECKING:
    import pandas as pd

HEADS = (
    "condition",
    "completed",
    "total",
    "overhead",
    "lost",
    "redone",
    "recovery",
    "calls again",
    "money again",
    "written",
)
_KEYS = tuple(METRICS)


@dataclass(frozen=True, repr=False)
class Compared:
    """``frame`` has one row per run, ``summary`` the numbers; ``frame, summary = al.compare(…)`` takes it apart.

    ``session_id`` is the experiment's own session (empty when no lab keeps it).
    """

    title: str
    frame: pd.DataFrame
    summary: Summary
    session_id: str = ""
    remarks: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter((self.frame, self.summary))

    @property
    def recommendation(self) -> str:
        """Which condition to use, in a sentence that says how sure that is."""
        return self.summary.recommendation.text

    def plot(self, ax: Any = None) -> Any:
        """Overhead against lost work with Young's and Daly's curve; a matplotlib Axes."""
        from agentlab.analysis import plots

        frame, done = self.frame, self.frame["completed"].fillna(False).astype(bool)
        if done.any():  # shares are of the whole work, also for runs that did not get through it
            whole = float(frame.loc[done, "work_s"].mean())
            frame = frame.assign(work_s=frame["work_s"].where(done, whole))
        return plots.policies(frame, ax=ax)

    def to_json(self) -> dict[str, Any]:
        """Rows and summary as plain data; what is missing is null."""
        rows = self.frame.astype(object).where(self.frame.notna(), None).to_dict("records")
        return {
            "title": self.title, "session": self.session_id, "remarks": list(self.remarks), "rows": rows,
            "summary": self.summary.to_json(),
        }  # fmt: skip

    # --- showing ---

    def rows(self) -> list[tuple[str, ...]]:
        """The table of means as texts, one row per condition, under :data:`HEADS`."""
        return [self._means(condition) for condition in self.summary.conditions]

    def differences(self) -> list[tuple[str, ...]]:
        """Differences in total time against the baseline as texts, with intervals and the seeds needed to be sure."""
        s = self.summary
        return [self._difference(c) for c in s.conditions if c != s.baseline]

    def _heads(self) -> tuple[str, ...]:
        """Heads of the differences. Each interval is taken alone; the recommendation widens them to hold together."""
        return (
            f"total time against {self.summary.baseline}",
            "difference",
            "95 % interval",
            "certain alone",
            "seeds needed",
        )

    def _means(self, condition: str) -> tuple[str, ...]:
        runs = self.frame[self.frame["condition"] == condition]
        done = f"{int(runs['completed'].sum())}/{len(runs)}"
        cells = [condition, done]
        for metric in _KEYS[1:]:
            mean, low, high = (self.summary.value(condition, metric, c) for c in ("mean", "low", "high"))
            cells.append("–" if _missing(mean) else _cell(metric, float(mean), float(low), float(high)))
        return tuple(cells)

    def _difference(self, condition: str) -> tuple[str, ...]:
        s = self.summary
        got = {
            c: s.value(condition, "total_s", c) for c in ("pairs", "difference", "difference_low", "difference_high")
        }
        if _missing(got["difference"]):
            return (condition, "–", "–", "–", "no seed that both finished")
        base = float(s.value(s.baseline, "total_s"))
        needed = s.value(condition, "total_s", "runs_needed")
        sure = "yes" if bool(s.value(condition, "total_s", "certain")) else "no"
        if _missing(got["difference_low"]):
            span = f"none from {int(got['pairs'])} pair{'s' if got['pairs'] != 1 else ''}"
        else:
            span = f"{_signed(got['difference_low'], base)} to {_signed(got['difference_high'], base)}"
        text = "–" if _missing(needed) else f"{int(needed):,}"
        return (condition, _signed(got["difference"], base), span, sure, text)

    def _verdict(self) -> list[str]:
        return [line for line in (self.recommendation, self._unfinished(), self.summary.theory, *self.remarks) if line]

    def _unfinished(self) -> str:
        """How the runs ended that did not get through the task, with the first error; empty where all of them did."""
        left = self.frame[~self.frame["completed"].fillna(False).astype(bool)]
        if left.empty:
            return ""
        ends = ", ".join(f"{count} {outcome}" for outcome, count in left["outcome"].value_counts().sort_index().items())
        errors = [text for text in left["error"].fillna("") if text]
        told = f"; the first error: {' '.join(errors[0].split())}" if errors else ""
        return f"{len(left)} of {len(self.frame)} runs did not finish: {ends}{told}."

    def text(self) -> str:
        """Everything for a terminal."""
        parts = [self.title, *self._verdict(), "", _columns(HEADS, self.rows())]
        if self.differences():
            heads = self._heads()
            parts += ["", _columns(heads, self.differences())]
        return "\n".join(parts)

    __repr__ = text
    __str__ = text

    def html(self, picture: bool = True) -> str:
        """Everything for a notebook: escaped, offline, inline styles only."""
        heads = self._heads()
        parts = [f"<div style='font-weight:600;font-size:1.05em'>{escape(self.title)}</div>"]
        for number, line in enumerate(self._verdict()):
            style = "margin-top:6px" + (";font-weight:600" if number == 0 else ";opacity:.75")
            parts.append(f"<div style='{style}'>{escape(line)}</div>")
        parts.append(_table(HEADS, self.rows()))
        if self.differences():
            parts.append(_table(heads, self.differences()))
        parts += [self._picture()] if picture else []
        line = "1px solid rgba(128,128,128,.35)"
        return f"<div style='border:{line};border-radius:6px;padding:9px 14px;margin:2px 0;line-height:1.45'>{''.join(parts)}</div>"

    def _picture(self) -> str:
        import base64

        from agentlab.analysis.plots.drawing import png

        try:
            ax = self.plot()
        except Exception:  # a broken plot never hides the numbers
            return ""
        alt = escape(str(getattr(ax, "agentlab_alt", "overhead against lost work")), quote=True)
        data = base64.b64encode(png(ax.figure)).decode()
        return f"<img alt='{alt}' style='max-width:100%;margin-top:10px' src='data:image/png;base64,{data}'>"

    def _repr_html_(self) -> str:
        return self.html()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text())


def _missing(value: Any) -> bool:
    import pandas as pd

    return bool(pd.isna(value))


def _cell(metric: str, mean: float, low: float, high: float) -> str:
    if metric == "cost_repeated_usd":
        return f"${mean:.4f}" if mean else "$0"
    known = high == high  # too few runs have no interval
    if metric == "model_calls_repeated":
        return f"{mean:.2f}" + (f" ±{(high - low) / 2:.2f}" if known else "")
    if metric == "bytes_written":
        return _bytes(mean)
    return _s(mean) + (f" ±{_s((high - low) / 2)}" if known else "") + " s"


def _s(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.3g} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1000
    return ""


def _signed(value: float, base: float) -> str:
    return f"{value:+.3g} s" + (f" ({100 * value / base:+.1f} %)" if base else "")


def _columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    return "\n".join("  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    line = "1px solid rgba(128,128,128,.35)"
    cell = f"padding:3px 14px 3px 0;text-align:left;white-space:nowrap;border-bottom:{line}"
    head = "".join(f"<th style='{cell};font-weight:600'>{escape(h)}</th>" for h in heads)
    body = "".join(
        "<tr style='background:transparent'>" + "".join(f"<td style='{cell}'>{escape(v)}</td>" for v in row) + "</tr>"
        for row in rows
    )
    style = "border-collapse:collapse;margin:10px 0 0 0;font-size:.93em"
    return (
        f"<div style='overflow-x:auto'><table style='{style}'><thead><tr style='background:transparent'>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
