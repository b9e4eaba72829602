"""Plots, by what is drawn: positions, labels, marks of deaths."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from agentlab import analysis, interval
from agentlab.analysis import plots
from agentlab.analysis.plots import drawing
from agentlab.analysis.plots.forecast import forecast
from agentlab.analysis.plots.stretches import stretches
from agentlab.errors import UserError
from agentlab.events import Draft
from agentlab.log import ParquetStore
from agentlab.query import Query
from tests.query.runs import long, short
from tests.query.stories import Story


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ParquetStore:
    store = ParquetStore(tmp_path_factory.mktemp("lab"))
    short(store, "report-1")
    short(store, "report-2", seed=2).log.seal()
    open_ = Story(store, "open-1", limits={"input_tokens": 20_000}, seed=9)
    for number in range(12):
        open_.call("search", number)
    long(store, "long-1", steps=1300)
    return store


def one(store: ParquetStore, *ids: str) -> analysis.Analysed:
    return analysis.analysed(Query(store, ids))


def words(ax: Any) -> list[str]:
    return [text.get_text() for text in (ax.get_legend().get_texts() if ax.get_legend() else [])]


@pytest.mark.parametrize("name", plots.OF_SESSIONS)
@pytest.mark.parametrize("ids", [("report-1",), ("long-1",), ("report-1", "report-2", "open-1"), ("open-1",), ()])
def test_every_plot_draws_every_kind_of_run(
    name: str, ids: tuple[str, ...], store: ParquetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # whoever imports it from here on fails
    figure = Figure()
    given = figure.add_subplot()
    ax = getattr(plots, name)(one(store, *ids), ax=given)
    assert ax is given
    assert isinstance(ax.data, pd.DataFrame) and "session_id" in ax.data
    assert ax.alt.startswith(ax.get_title(loc="left").split(" (")[0])
    if ids[:1] in (("report-1",), ("long-1",)) and not ax.data.empty and name not in ("recovery", "latency"):
        assert "harness died" in words(ax) and "sandbox lost" in words(ax) and "recovering" in words(ax)
    figure.canvas.draw()


def test_an_own_figure_shows_itself(store: ParquetStore) -> None:
    ax = plots.recovery(one(store, "report-1"))
    shown = ax._repr_mimebundle_()
    assert shown["image/png"][:4] == b"\x89PNG" and shown["text/plain"] == ax.alt
    assert ax.figure.get_size_inches()[0] == drawing.WIDTH


def test_latency_draws_each_call_where_it_ended(store: ParquetStore) -> None:
    found = one(store, "report-1")
    ax = plots.latency_over_run(found)
    calls, turns = found.frame("calls"), found.frame("turns")
    line = next(line for line in ax.lines if str(line.get_label()).startswith("clean:"))
    clean = calls[calls.tool_name == "clean"]
    assert list(line.get_ydata()) == pytest.approx(list(clean.latency_s))
    start = found.frame("sessions").started_at[0]
    assert list(line.get_xdata()) == pytest.approx(list((clean.ended_at - start).dt.total_seconds()))
    assert len(ax.data) == calls.latency_s.notna().sum() + turns.latency_s.notna().sum()
    assert any(text.startswith(f"clean: n={len(clean)}, p50") for text in words(ax))
    assert "failed: 1" in words(ax)


def test_latency_says_the_quantiles_of_each_tool_and_model(store: ParquetStore) -> None:
    found = one(store, "long-1")
    ax = plots.latency(found)
    calls = found.frame("calls")
    label = next(t.get_text() for t in ax.get_yticklabels() if t.get_text().startswith("run_tests"))
    mine = calls[calls.tool_name == "run_tests"].latency_s
    assert label.split("\n")[1] == f"n={len(mine)}  " + " · ".join(
        drawing.seconds_text(mine.quantile(q)) for q in (0.5, 0.95, 0.99)
    )
    assert any(t.get_text().startswith("model story") for t in ax.get_yticklabels())
    marks = {line.get_marker(): line.get_xdata()[0] for line in ax.lines if line.get_marker() in ("o", "D", "^")}
    assert marks["o"] < marks["D"] < marks["^"]
    short_ = plots.latency(one(store, "report-1"))
    assert (short_.data.during == "death").sum() == 1, "the effect that was pending when the harness died"
    assert short_.data[short_.data.during == "death"].tool_name.tolist() == ["send"]
    assert (short_.data.during == "recovery").sum() == 2, "the statements"
    assert {"in progress at a death: 1", "during a recovery: 2", "failed: 1"} <= set(words(short_))


def test_deaths_are_where_they_were(store: ParquetStore) -> None:
    found = one(store, "report-1")
    marks = drawing.deaths(found, drawing.Elapsed.of(found))
    ax = plots.burn(found)
    shown = [line for line in ax.lines if line.get_marker() in ("v", "X") and line.get_color() == drawing.RED]
    drawn = sorted(float(line.get_xdata()[0]) for line in shown)
    assert drawn == pytest.approx(sorted(marks.x))
    assert marks.target.tolist() == ["harness", "sandbox", "harness"]


@pytest.mark.parametrize("name", ["burn", "context", "effects", "latency_over_run", "loops", "timeline"])
def test_faults_that_kill_nobody_are_marked_too(name: str, tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "f", sandbox=True)
    story.effect("send")
    mark = {"id": "m", "fault": "f1", "target": "model", "action": "529", "point": ""}
    story.add(Draft("fault_injected", mark))
    story.call("search")
    ax = getattr(plots, name)(ParquetStore(tmp_path))
    assert "fault injected" in words(ax) and "harness died" not in words(ax) and "recovering" not in words(ax)
    marks = drawing.deaths(one(ParquetStore(tmp_path), "f"), drawing.Elapsed.of(one(ParquetStore(tmp_path), "f")))
    assert marks.cause.tolist() == ["model:529"] and marks.x_end.isna().all()


def test_burn_reaches_the_share_that_was_used(store: ParquetStore) -> None:
    found = one(store, "open-1")
    ax = plots.burn(found)
    used = found.frame("turns").input_tokens.sum()
    line = next(line for line in ax.lines if str(line.get_label()).startswith("input tokens"))
    assert float(line.get_ydata()[-1]) == pytest.approx(used / 20_000)
    assert "reaches its limit in" in ax.alt
    ended = plots.burn(one(store, "report-1"))
    assert "reaches" not in ended.alt


def test_loops_find_the_circle(store: ParquetStore) -> None:
    data = plots.loops(one(store, "report-1")).data
    again = data[data.repeat]
    assert again.tool_name.tolist() == ["clean", "check", "check"]
    assert data.rate.iloc[-1] == pytest.approx(3 / 15)
    several = plots.loops(one(store, "report-1", "report-2"))
    assert [t.get_text() for t in several.get_yticklabels()][:2] == ["report-1", "report-2"]
    patches = plots.loops(one(store, "report-1")).patches
    (frame,) = [patch for patch in patches if patch.get_label() == "run of equal calls"]
    (first, last) = (data[data.period == 1].x.iloc[i] for i in (0, -1))
    assert (first, last) == (8, 10) and frame.get_x() < first and frame.get_x() + frame.get_width() > last


def test_how_often_a_loop_went_round_is_written_where_nothing_else_is(tmp_path: Path) -> None:
    """A run right below the end of another, a circle with a run right behind it: no label on a frame, a call, or another."""
    store = ParquetStore(tmp_path)
    looping = Story(store, "looping-1", seed=3)
    for tool, rounds in (("job", 9), ("page", 6), ("read", 1)):
        for _ in range(rounds):
            looping.call(tool, 1)
    for tools in (("check", "clean"),) * 4 + (("check",),) * 5:
        for tool in tools:
            looping.call(tool, 1)
    ax = plots.loops(one(store, "looping-1"))
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    labels = [text.get_window_extent() for text in ax.texts if "×" in text.get_text()]
    frames = [patch for patch in ax.patches if not patch.get_fill()]
    assert len(labels) == len(frames) == 4
    for label in labels:
        assert sum(label.overlaps(other) for other in labels) == 1, "itself"
        for corners in (frame.get_path().transformed(frame.get_transform()) for frame in frames):
            assert not corners.intersects_bbox(label, filled=False)
        calls = ax.transData.transform(ax.data[["x", "row"]].to_numpy(float))
        assert not any(label.padded(2).contains(*call) for call in calls)


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ("", []),
        ("abcdefg", []),
        ("abab", []),
        ("aab", []),
        ("aaa", [(0, 3, 1)]),
        ("xababab", [(1, 7, 2)]),
        ("xabcabcabcaby", [(1, 12, 3)]),
        ("aaabcbcbcddd", [(0, 3, 1), (3, 9, 2), (9, 12, 1)]),
        ("abcdefghabcdefghabcdefgh", [(0, 24, 8)]),
        ("aaaaaaaaa", [(0, 9, 1)]),
    ],
)
def test_stretches(items: str, found: list[tuple[int, int, int]]) -> None:
    assert stretches(items) == found


def test_forecast() -> None:
    steady = forecast([float(i) for i in range(11)], [i / 20 for i in range(11)])
    assert steady is not None and steady == pytest.approx((10.0, 10.0, 10.0))
    uneven = forecast([0, 6, 7, 8, 9, 10, 11, 12], [0, 0.1, 0.1, 0.3, 0.3, 0.3, 0.5, 0.5])
    assert uneven is not None and uneven.early < uneven.middle < uneven.late
    assert uneven == forecast([0, 6, 7, 8, 9, 10, 11, 12], [0, 0.1, 0.1, 0.3, 0.3, 0.3, 0.5, 0.5])
    for nothing in (([0.0, 1.0], [0.1, 0.2]), ([0.0, 1.0, 2.0], [0.5, 1.0, 1.5]), ([0.0, 1.0, 9.0], [0.2, 0.2, 0.2])):
        assert forecast(*nothing) is None


def test_burn_shows_what_is_set_aside_and_alerts(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    story = Story(store, "b", limits={"input_tokens": 10_000})
    for number in range(3):
        story.call("search", number)
    told = {"dimension": "input_tokens", "used": 3000, "limit": 10_000, "threshold": 0.3}
    story.add(Draft("budget_alert", told))
    story.ask(answered=False)
    story.crash()
    story.call("search", 9)
    ax = plots.burn(store)
    assert {"reserved", "at risk", "alert"} <= set(words(ax)) and ax.alt.endswith("1 alert.")
    asked = [e.payload["tokens_estimate"] for e in story.events if e.type == "model_request"]
    assert ax.data.reserved.dropna().tolist() == [a for i, a in enumerate(asked) if i != 3], "all that were answered"
    alert = next(line for line in ax.lines if line.get_label() == "alert")
    assert alert.get_ydata()[0] == pytest.approx(ax.data.share[ax.data.seq < told["used"]].iloc[2])
    risky = next(bar for bar in ax.patches if bar.get_hatch())
    assert risky.get_height() == pytest.approx(asked[3] / 10_000)


def comparison(**columns: Any) -> pd.DataFrame:
    rows = [
        {"condition": name, "seed": seed, "overhead_s": over, "lost_s": lost + seed / 10, "redone_s": 1.0, "work_s": 100.0}
        for name, over, lost in (("every=1", 40.0, 1.0), ("every=5", 8.0, 5.0), ("never", 0.0, 60.0))
        for seed in range(4)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**columns)


def test_policies_against_the_curve() -> None:
    frame = comparison(checkpoint_s=0.5, mtbf_s=50.0, faults=2, recovery_s=3.0, completed=True, policy="x")
    figure = Figure()
    given = figure.add_subplot()
    ax = plots.policies(frame, ax=given)
    assert ax is given and ax.data.condition.nunique() == 3
    means = ax.data.groupby("condition")[["overhead", "lost"]].mean()
    assert means.loc["every=5"].tolist() == pytest.approx([0.08, 0.0615])
    shown = {text.split(":")[0]: text for text in words(ax)}
    assert shown["every=1"] == "every=1: 4/4 done, 2 crashes, 3 s recovering"
    tau = interval.young(0.5, 50.0)
    star = next(line for line in ax.lines if str(line.get_label()).startswith("Young"))
    assert star.get_xdata()[0] == pytest.approx(0.5 / tau)
    both = star.get_xdata()[0] + star.get_ydata()[0]
    assert both == pytest.approx(interval.overhead(tau, 0.5, 50.0)), "the two parts are the whole overhead of theory"
    figure.canvas.draw()


def test_the_curve_of_policies_counts_each_checkpoint_once() -> None:
    cost = [0.1] * 4 + [0.4] * 4 + [float("nan")] * 4
    ax = plots.policies(comparison(checkpoint_s=cost, checkpoints=[8] * 4 + [1] * 4 + [0] * 4, mtbf_s=50.0))
    (label,) = [text for text in words(ax) if text.startswith("theory")]
    assert "checkpoint 0.133 s" in label  # (8 * 0.1 + 1 * 0.4) / 9


def test_policies_of_a_frame_with_less_in_it() -> None:
    frame = comparison().rename(columns={"condition": "policy"})[["policy", "seed", "overhead_s", "lost_s"]]
    ax = plots.policies(frame)
    assert "seconds" in ax.get_xlabel() and not any("theory" in text for text in words(ax))
    assert plots.policies(comparison().iloc[:0]).data.empty
    with pytest.raises(UserError, match="no lost_s, policy"):
        plots.policies(pd.DataFrame({"overhead_s": [1.0]}))
    broken = plots.policies(comparison(completed=[False] * 12, checkpoint_s=float("nan"), mtbf_s=9.0))
    broken.figure.canvas.draw()
    assert "every=1: 0/4 done" in words(broken)


def test_recovery_stacks_to_the_whole(store: ParquetStore) -> None:
    found = one(store, "report-1")
    ax = plots.recovery(found)
    ends: dict[float, float] = {}
    for bar in ax.patches:
        y = bar.get_y() + bar.get_height() / 2
        ends[y] = max(ends.get(y, 0.0), bar.get_x() + bar.get_width())
    assert [ends[y] for y in sorted(ends)] == pytest.approx(found.frame("recoveries").seconds.tolist())
    labels = [text.get_text() for text in ax.texts]
    assert "2 commands again" in labels[1] and "1 effect verified" in labels[2]


def test_timeline_lanes(store: ParquetStore) -> None:
    ax = plots.timeline(one(store, "report-1"))
    assert [t.get_text() for t in ax.get_yticklabels()] == ["harness", "model", "tools", "sandbox", "checkpoints"]
    data = ax.data
    assert (data.lane == "harness").sum() == 3 and (data.lane == "checkpoints").sum() == 5
    assert (data.width >= 0).all()


def test_context_layers_add_up(store: ParquetStore) -> None:
    found = one(store, "report-1")
    data = plots.context(found).data
    turns = found.frame("turns")
    turns = turns[turns.purpose == "act"]
    assert (data.base_tokens + data.scratch_tokens).tolist() == turns.tokens_estimate.tolist()
    assert data.read_tokens.tolist() == (turns.input_tokens + turns.cache_read_tokens).tolist()
    assert "compacted" in words(plots.context(one(store, "long-1")))


def test_effects_show_their_end(store: ParquetStore, tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "e")
    for number, outcome in enumerate(("completed", "in_doubt", "pending")):
        story.effect("send", number, outcome)
    ax = plots.effects(ParquetStore(tmp_path))
    assert {"completed: 1", "in doubt: 1", "pending: 1"} <= set(words(ax))
    assert plots.effects(one(store, "report-1")).data.verified.tolist() == [1]


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "$x^2$ <b>\n")
    story.call("$\\frac{1}{0}$<script>")
    story.crash("$a$")
    for name in plots.OF_SESSIONS:
        getattr(plots, name)(ParquetStore(tmp_path)).figure.canvas.draw()


def test_the_legend_of_many_policies_stays_in_the_picture_and_the_optima_on_the_curve() -> None:
    rng = np.random.default_rng(5)
    rows = [
        {
            "condition": f"every={n} ({scheme})", "seed": seed, "work_s": 10.0, "overhead_s": 0.02 + 0.002 * rng.random(),
            "lost_s": 1 + rng.random(), "redone_s": 0.0, "recovery_s": 9.62, "checkpoint_s": 0.007, "mtbf_s": 5.0,
            "faults": 5, "completed": True,
        }
        for n in (1, 5, 20, 50) for scheme in ("hybrid", "snapshot") for seed in range(5)
    ]  # fmt: skip
    ax = plots.policies(pd.DataFrame(rows))
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert box.x0 >= 0 and box.x1 <= ax.figure.bbox.width and box.y0 >= 0
    curve = next(line for line in ax.lines if str(line.get_label()).startswith("theory"))
    for line in ax.lines:
        if "interval" in str(line.get_label()):
            (x,), (y,) = line.get_data()
            assert min(curve.get_xdata()) <= x <= max(curve.get_xdata())
            assert y == pytest.approx(np.interp(x, curve.get_xdata()[::-1], curve.get_ydata()[::-1]), rel=0.02)
