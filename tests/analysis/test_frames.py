"""Frames: what they take, and that their columns and types never change."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest

from agentlab import analysis
from agentlab.errors import UserError
from agentlab.lab import Lab
from agentlab.log import ParquetStore
from agentlab.query import VIEWS
from tests.query.runs import short
from tests.query.stories import Story

FRAMES = [name for name in VIEWS]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    lab = Lab(tmp_path_factory.mktemp("lab"))
    for number in (2, 1):
        short(lab.store, f"report-{number}", seed=number)
    Story(lab.store, "00123", task="other")
    return lab


def test_what_a_source_may_be(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = lab.session("report-1")
    assert set(analysis.calls(one).session_id) == {"report-1"}
    assert list(analysis.sessions([lab.session("report-2"), one]).session_id) == ["report-1", "report-2"]
    assert list(analysis.sessions(lab).session_id) == ["00123", "report-1", "report-2"]
    assert list(analysis.sessions(lab.store).session_id) == ["00123", "report-1", "report-2"]
    assert list(analysis.sessions("task = 'other'", lab=lab).session_id) == ["00123"]
    assert list(analysis.sessions("crashes > 1 AND session_id LIKE '%-2'", lab=lab).session_id) == ["report-2"]
    assert list(analysis.sessions("report-2", lab=lab).session_id) == ["report-2"]
    assert len(analysis.events([], lab=lab)) == 0
    assert len(analysis.sessions(analysis.analysed(one))) == 1
    monkeypatch.setattr("agentlab.analysis.sources._in_hand", None)
    monkeypatch.chdir(tmp_path)
    for wrong, words in (("crashes > 1", "pass lab="), ([], "no session"), (7, "no session"), ([7], "pass sessions")):
        with pytest.raises(UserError, match=words):
            analysis.sessions(wrong)
    Story(Lab("lab").store, "here")
    assert list(analysis.sessions("true").session_id) == ["here"]
    other = SimpleNamespace(id="x", lab=SimpleNamespace(store=ParquetStore("elsewhere")))
    with pytest.raises(UserError, match="several labs"):
        analysis.sessions([one, other])


@pytest.mark.parametrize("name", FRAMES)
def test_columns_types_and_order(name: str, lab: Lab, tmp_path: Path) -> None:
    frame = getattr(analysis, name)(lab)
    empty = getattr(analysis, name)(ParquetStore(tmp_path))
    assert len(empty) == 0 and len(frame) > 0
    assert empty.columns.tolist() == frame.columns.tolist() == VIEWS[name].names
    assert empty.dtypes.tolist() == frame.dtypes.tolist()
    kinds = {"text": "string", "json": "string", "int": "Int64", "float": "float64", "bool": "boolean"}
    for column in VIEWS[name].columns:
        expected = kinds.get(column.type, "datetime64[us, UTC]")
        assert str(frame[column.name].dtype) == expected, column.name
    keys = VIEWS[name].order.split(", ")
    pd.testing.assert_frame_equal(frame[keys], frame[keys].sort_values(keys, ignore_index=True))
    table = getattr(analysis, name)(lab, arrow=True)
    assert isinstance(table, pa.Table) and table.column_names == VIEWS[name].names
    assert table.schema == getattr(analysis, name)(ParquetStore(tmp_path), arrow=True).schema


def test_the_lab_answers_sql(lab: Lab) -> None:
    assert lab.sql("SELECT count(*) AS n FROM sessions WHERE task = ?", ["report"]).n[0] == 2
    assert set(lab.query.views().view) == set(VIEWS)
    assert len(analysis.calls(lab)) == lab.sql("SELECT count(*) AS n FROM calls").n[0]


def test_a_damaged_session_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from agentlab.cli import main
    from agentlab.comparing import fit
    from agentlab.query import DamagedSession

    lab = Lab(tmp_path / "lab")
    short(lab.store, "whole")
    story = Story(lab.store, "broken")
    Path(story.log.folder, "commits", "000000000002.parquet").write_bytes(b"junk")
    with pytest.warns(DamagedSession, match="broken") as caught:
        found = analysis.diagnose(lab)
    assert len(caught) == 1  # however many views it reads
    assert found.subject == "whole (damaged and left out: broken)"
    with pytest.warns(DamagedSession, match="broken"):
        assert set(analysis.calls("crashes >= 0", lab=lab).session_id) == {"whole"}
    with pytest.warns(DamagedSession, match="broken"):
        assert fit(lab).sessions == 1
    assert main(["sql", "--lab", str(lab.path), "--json", "SELECT session_id FROM sessions"]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == '[{"session_id":"whole"}]'
    assert said.err.count("session broken is damaged") == 1
