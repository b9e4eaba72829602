"""sql, diagnose, plot and report as lines and cells, and their Python twins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

import agentlab as al
from agentlab.errors import UserError
from agentlab.notebook import agent
from agentlab.notebook.completion import complete
from agentlab.notebook.verbs.analysing import PLOTS, ViewsView
from agentlab.query import VIEWS
from tests.query.runs import short
from tests.query.stories import Story


@pytest.fixture
def told(here):
    """A lab with an ended and a running session in it, in hand."""
    short(here.lab.store, "report-1")
    Story(here.lab.store, "open-1", task='it\'s "open"').call("search")
    return here.lab


def test_sql_in_a_line_is_taken_as_it_stands(told, shell):
    frame = shell.run("%agent sql SELECT session_id, task FROM sessions WHERE task = 'report' -- and nothing else")
    assert isinstance(frame, pd.DataFrame) and frame.values.tolist() == [["report-1", "report"]]
    frame = shell.run("""%agent sql SELECT 'a  "b" --c' AS "x y", -1 AS n""")
    assert frame.columns.tolist() == ["x y", "n"] and frame.values.tolist() == [['a  "b" --c', -1]]
    assert shell.run("found = %agent sql SELECT count(*) AS n FROM sessions\nfound.n[0]") == 2


def test_sql_in_a_cell(told, shell):
    cell = "%%agent sql --into slow\nSELECT tool_name, max(latency_s) AS worst\nFROM calls -- all of them\nGROUP BY ALL ORDER BY 1"
    frame = shell.run(cell)
    assert frame.tool_name.tolist() == sorted(set(al.frames.calls(told).tool_name))
    assert shell.run("slow is _").__class__ is bool and shell.ip.user_ns["slow"].equals(frame)
    assert "can not be answered" in shell.complaint("%%agent sql\nSELECT * FROM no_such_view")
    assert "name a variable" in shell.complaint("%agent sql --into a-b SELECT 1")
    assert "no option --int" in shell.complaint("%agent sql --int a SELECT 1")


def test_a_running_session_and_an_empty_lab(here, shell):
    for view in VIEWS.values():
        frame = shell.run(f"%agent sql SELECT * FROM {view.name}")
        assert frame.empty and frame.columns.tolist() == view.names
    assert not here.lab.path.exists(), "asking made nothing"
    story = Story(here.lab.store, "r")
    assert shell.run("%agent sql SELECT max(seq) AS n FROM events").n[0] == story.head.seq
    story.call("search")
    assert shell.run("%agent sql SELECT max(seq) AS n FROM events").n[0] == story.head.seq


def test_the_views_are_listed_column_by_column(told, shell):
    shown = shell.run("%agent sql --views")
    assert isinstance(shown, ViewsView) and set(VIEWS) == {
        "events", "turns", "calls", "effects", "checkpoints", "recoveries", "budget", "decisions", "guard", "sessions",
    }  # fmt: skip
    for view in VIEWS.values():
        for column in view.columns:
            assert column.meaning in shown.text() and column.name in shown.html()
    one = shell.run("%agent sql --views calls")
    assert [view.name for view in one.views] == ["calls"] and "latency_s" in one.text()
    assert "did you mean calls" in shell.complaint("%agent sql --views cals")
    assert shell.run("%agent sql").text() == shown.text()


def test_completion_knows_views_and_plots(told):
    assert complete("%agent sql --views cal", {}) == ["calls"]
    assert complete("%agent plot time", {}) == ["timeline"]
    assert complete("%agent diagnose rep", {}) == ["report-1"]


def test_diagnose_plot_and_report(told, shell, tmp_path):
    session = told.session("report-1")
    found = shell.run("%agent diagnose report-1")
    assert str(found) == str(session.diagnose()) and found["repetition"].verdict == "found"
    assert "2 sessions" in str(shell.run("%agent diagnose --all"))
    assert shell.run("%agent diagnose").subject == "report-1", "the session in hand"
    for name in PLOTS:
        ax = shell.run(f"%agent plot {name}")
        assert "report-1" in ax.alt and "session_id" in ax.data
    assert "did you mean" in shell.complaint("%agent plot timelin")
    assert set(shell.run("%agent plot timeline report-1 open-1").data.session_id) == {"report-1", "open-1"}
    made = shell.run("%agent report")
    assert made.path == Path("report-report-1.html") and (tmp_path / made.path).stat().st_size == made.size_bytes
    assert str(tmp_path) not in repr(made) + made._repr_html_()
    assert shell.run("%agent report --all --to all.html").title == "2 sessions"
    assert session.report(tmp_path / "x.html").path.read_text() == (tmp_path / made.path).read_text()
    shutil.rmtree(tmp_path / "gone", ignore_errors=True)
    with pytest.raises(UserError, match="can not be written"):
        al.report(session, tmp_path / "gone" / "x.html")


def test_a_condition_means_the_lab_in_hand(told, here, shell):
    assert al.frames.sessions("task = 'report'").session_id.tolist() == ["report-1"]
    assert al.frames.sessions("status = 'running'", arrow=True)["session_id"].to_pylist() == ["open-1"]
    agent("lab other")
    with pytest.raises(UserError, match="there is none at"):
        al.frames.sessions("task = 'report'")
