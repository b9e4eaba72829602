"""Plots, by what is drawn: positions, labels, marks of deaths."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from agentlab import analysis
from agentlab.analysis import plots
from agentlab.analysis.plots import drawing
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


@pytest.mark.parametrize("name", plots.__all__)
@pytest.mark.parametrize("ids", [("report-1",), ("long-1",), ("report-1", "report-2", "open-1"), ("open-1",), ()])
def test_every_plot_draws_every_kind_of_run(name: str, ids: tuple[str, ...], store: ParquetStore) -> None:
    figure = Figure()
    given = figure.add_subplot()
    ax = getattr(plots, name)(one(store, *ids), ax=given)
    assert ax is given
    assert isinstance(ax.data, pd.DataFrame) and "session_id" in ax.data
    assert ax.alt.startswith(ax.get_title(loc="left").split(" (")[0])
    if ids[:1] in (("report-1",), ("long-1",)) and not ax.data.empty and name != "recovery":
        assert "harness died" in words(ax) and "sandbox lost" in words(ax) and "recovering" in words(ax)
    figure.canvas.draw()
    assert "matplotlib.pyplot" not in sys.modules


def test_an_own_figure_shows_itself(store: ParquetStore) -> None:
    ax = plots.recovery(one(store, "report-1"))
    shown = ax._repr_mimebundle_()
    assert shown["image/png"][:4] == b"\x89PNG" and shown["text/plain"] == ax.alt
    assert ax.figure.get_size_inches()[0] == drawing.WIDTH


def test_latency_draws_each_call_where_it_ended(store: ParquetStore) -> None:
    found = one(store, "report-1")
    ax = plots.latency(found)
    calls, turns = found.frame("calls"), found.frame("turns")
    line = next(line for line in ax.lines if str(line.get_label()).startswith("clean:"))
    clean = calls[calls.tool_name == "clean"]
    assert list(line.get_ydata()) == pytest.approx(list(clean.latency_s))
    start = found.frame("sessions").started_at[0]
    assert list(line.get_xdata()) == pytest.approx(list((clean.ended_at - start).dt.total_seconds()))
    assert len(ax.data) == calls.latency_s.notna().sum() + turns.latency_s.notna().sum()
    assert any(text.startswith(f"clean: n={len(clean)}, p50") for text in words(ax))
    assert "failed: 1" in words(ax)


def test_deaths_are_where_they_were(store: ParquetStore) -> None:
    found = one(store, "report-1")
    marks = drawing.deaths(found, drawing.Elapsed.of(found))
    ax = plots.burn(found)
    shown = [line for line in ax.lines if line.get_marker() in ("v", "X") and line.get_color() == drawing.RED]
    drawn = sorted(float(line.get_xdata()[0]) for line in shown)
    assert drawn == pytest.approx(sorted(marks.x))
    assert marks.target.tolist() == ["harness", "sandbox", "harness"]


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
    for name in plots.__all__:
        getattr(plots, name)(ParquetStore(tmp_path)).figure.canvas.draw()
