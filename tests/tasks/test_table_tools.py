"""The table tools on the real table and on spoiled ones; the averages are worked out here with pandas."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.tasks import table_tools as table
from agentlab.tasks.data import dataset_path


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(dataset_path(table.TABLE), tmp_path)
    return tmp_path


@pytest.fixture()
def finished(folder: Path) -> Path:
    table.aggregate(table.TABLE, table.AVERAGES)
    table.write_report(table.AVERAGES, table.REPORT)
    return folder


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def spoil(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_the_table_is_whole(folder: Path) -> None:
    found = table.load_table(table.TABLE)
    assert found == {
        "ok": True, "reasons": [], "first_year": 1950, "last_year": 2010, "years": 61, "values": 732, "gaps": 0,
    }  # fmt: skip


@pytest.mark.parametrize("by", ["decade", "year"])
def test_averages_agree_with_pandas(folder: Path, by: str) -> None:
    done = table.aggregate(table.TABLE, "out.csv", by)
    long = pd.read_csv(table.TABLE).melt(id_vars="YEAR")
    period = (long.YEAR // 10 * 10).astype(str) + "s" if by == "decade" else long.YEAR.astype(str)
    expected = long.groupby(period).value.agg(["count", "mean", "min", "max"])
    lines = read(folder / "out.csv")
    assert done["periods"] == len(lines) == len(expected)
    for line, (name, values) in zip(lines, expected.iterrows(), strict=True):
        assert (line["period"], int(line["months"])) == (name, values["count"])
        assert abs(float(line["mean"]) - values["mean"]) <= 0.0005001
        assert (float(line["lowest"]), float(line["highest"])) == (values["min"], values["max"])


def test_the_finished_task_satisfies_every_validator(finished: Path) -> None:
    assert (table.table_ok(), table.averages_ok(), table.report_ok()) == ([], [], [])
    assert table.check_report(table.REPORT, table.TABLE) == {"ok": True, "reasons": []}
    text = (finished / table.REPORT).read_text("utf-8")
    assert "Coldest: 1960s (22.769)" in text
    assert "Warmest: 1990s (23.596)" in text


def test_running_again_gives_the_same_bytes(finished: Path) -> None:
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    (finished / f"{table.REPORT}.part").write_text("cut short by a crash")
    done = [table.aggregate(table.TABLE, table.AVERAGES), table.write_report(table.AVERAGES, table.REPORT)]
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before
    assert json.loads(json.dumps(done)) == done


def test_a_report_by_year_is_true_but_not_the_task(folder: Path) -> None:
    table.aggregate(table.TABLE, table.AVERAGES, "year")
    table.write_report(table.AVERAGES, table.REPORT)
    assert table.check_report(table.REPORT, table.TABLE)["ok"] is True
    assert "1950 is no decade" in table.averages_ok()[0]
    assert "1950 is no decade" in table.report_ok()[0]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("1951,24.190", "1951,", ""),  # a gap is counted, not a fault
        ("1951,24.190", "1951,-99.99", "JAN 1951"),
        ("1951,24.190", "1951,24190", "JAN 1951"),
        ("1951,24.190", "1951,warm", "JAN 1951"),
        ("1951,", "1950,", "year 1950 stands there twice"),
        ("1951,", "51,", "row 2"),
        ("1951,24.190,", "1951,", "row 2"),
    ],
)
def test_faults_of_the_table_are_found(folder: Path, old: str, new: str, reason: str) -> None:
    spoil(folder / table.TABLE, old, new)
    found = table.load_table(table.TABLE)
    assert found["ok"] is (not reason)
    assert reason in "; ".join(table.table_ok())
    if reason:
        with pytest.raises(ValueError, match=reason):
            table.aggregate(table.TABLE, "out.csv")
        assert not (folder / "out.csv").exists()
    else:
        assert found["gaps"] == 1
        table.aggregate(table.TABLE, table.AVERAGES)
        assert read(folder / table.AVERAGES)[0]["months"] == "119"
        assert table.averages_ok() == []


def test_a_year_that_is_missing_is_noticed(folder: Path) -> None:
    path = folder / table.TABLE
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("1977")))
    assert table.table_ok() == ["1 years are missing in between"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("22.827", "22.829"), ("18.950", "18.951"), ("| 120 ", "| 12 "), ("| 1950s", "| 1940s"), ("22.827", "warm"),
     ("Coldest: 1960s", "Coldest: 1950s"), ("Warmest", "Hottest"), ("| period", "| decade"),
     ("| 2010s | 12 | 22.798 | 19.280 | 26.540 |\n", "")],
)  # fmt: skip
def test_a_report_that_says_what_is_not_so_fails(finished: Path, old: str, new: str) -> None:
    spoil(finished / table.REPORT, old, new)
    assert table.report_ok()


@pytest.mark.parametrize(
    ("old", "new"), [("22.827", "22.826"), ("1960s", "1950s"), ("2010s,12,22.798,19.280,26.540\n", "")]
)
def test_wrong_averages_fail(finished: Path, old: str, new: str) -> None:
    spoil(finished / table.AVERAGES, old, new)
    assert table.averages_ok()


def test_before_the_work_every_validator_names_the_missing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {table.table_ok: table.TABLE, table.averages_ok: table.AVERAGES, table.report_ok: table.REPORT}
    for check, name in names.items():
        (reason,) = check()
        assert name in reason


CALLS: list[Callable[[str], object]] = [
    table.load_table,
    lambda name: table.aggregate(name, "out.csv"),
    lambda name: table.write_report(name, "out.md"),
    lambda name: table.check_report(name, table.TABLE),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_file_or_one_of_another_kind_is_named(folder: Path, call: Callable[[str], object]) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.csv"):
        call("gone.csv")
    for content in (b"", b"a,b\n1,2\n", b"\xff\xfe"):
        (folder / "odd.csv").write_bytes(content)
        with pytest.raises(ValueError, match=r"odd\.csv"):
            call("odd.csv")


def test_what_can_not_be_meant_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="century"):
        table.aggregate(table.TABLE, "out.csv", "century")
    with pytest.raises(ValueError, match="same file"):
        table.aggregate(table.TABLE, table.TABLE)
    (folder / table.AVERAGES).write_text(",".join(table.AVERAGE_COLUMNS) + "\n1950s,120\n")
    with pytest.raises(ValueError, match=r"by_decade\.csv.*1950s"):
        table.write_report(table.AVERAGES, table.REPORT)


YEAR = st.lists(st.one_of(st.none(), st.integers(10_001, 39_999)), min_size=12, max_size=12)  # thousandths of a degree


@settings(max_examples=40, deadline=None)
@given(st.integers(1850, 2090), st.lists(YEAR, min_size=1, max_size=25), st.sampled_from(["decade", "year"]))
def test_any_sound_table_gives_exact_averages(
    tmp_path_factory: pytest.TempPathFactory, first: int, rows: list[list[int | None]], by: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    cells = [["" if v is None else f"{v // 1000}.{v % 1000:03d}" for v in row] for row in rows]
    lines = [[str(first + i), *row] for i, row in enumerate(cells)]
    expected: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        name = str(first + i)[:3] + "0s" if by == "decade" else str(first + i)
        expected.setdefault(name, []).extend(v for v in row if v is not None)
    expected = {name: values for name, values in expected.items() if values}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with open("t.csv", "w", newline="") as file:
            csv.writer(file).writerows([["YEAR", *table.MONTHS], *lines])
        table.aggregate("t.csv", "a.csv", by)
        found = {line["period"]: Fraction(line["mean"]) for line in read(folder / "a.csv")}
        assert set(found) == set(expected)
        for name, values in expected.items():
            assert abs(found[name] - Fraction(sum(values), 1000 * len(values))) <= Fraction(1, 2000)
        if expected:
            table.write_report("a.csv", "r.md")
            assert table.check_report("r.md", "t.csv") == {"ok": True, "reasons": []}
