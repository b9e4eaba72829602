"""The data sets are what their maker makes, and are found by name."""

from __future__ import annotations

import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import agentlab.tasks.data as data
from agentlab.errors import UnknownName

HOME = Path(__file__).resolve().parents[2] / "datasets"
SALES, SEA = "sales_2023.csv", "elnino_sst_1950_2010.csv"


def run(script: Path, *arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    # Another hash seed and a bare C locale: neither may change a byte.
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "LC_ALL": "C"}
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("hash_seed", ["0", "77"])
def test_the_committed_export_is_what_the_script_makes(hash_seed: str) -> None:
    done = run(HOME / "make_sales.py", "--check", hash_seed=hash_seed)
    assert done.returncode == 0, done.stderr


def test_check_notices_one_changed_byte_and_a_missing_file(tmp_path: Path) -> None:
    script = shutil.copy(HOME / "make_sales.py", tmp_path)
    assert run(script, "--check").returncode == 1
    assert run(script).returncode == 0
    made = tmp_path / SALES
    assert made.read_bytes() == (HOME / SALES).read_bytes()
    made.write_bytes(made.read_bytes().replace(b"paid", b"Paid", 1))
    done = run(script, "--check")
    assert done.returncode == 1
    assert SALES in done.stderr
    assert run(script, "--chekc").returncode == 2


def test_the_export_has_the_dirt_that_its_description_promises() -> None:
    raw = (HOME / SALES).read_bytes()
    assert len(raw) < 900_000
    assert raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    text = raw.decode("utf-8-sig")
    lines = list(csv.reader(text.splitlines(keepends=True)))
    rows = [line for line in lines[1:] if line]
    assert 5_900 < len(rows) < 6_200
    assert sum(not line for line in lines) == 30
    assert len(set(map(tuple, rows))) < len(rows)  # exact duplicates
    full = [line for line in rows if len(line) == 11]
    assert max(map(len, rows)) == 11  # so that a plain reader of data frames takes the file
    for name in ("José", "Łukasz", "山田", "Zoë", "Ólafur"):
        assert any(name in line[3] for line in full), name
    for form in ("2023-05-..", "../05/2023", "[0-9]+ May 2023", "2023-05-..T.*Z", "..-..-2022|2022-05-.."):
        assert any(re.fullmatch(form, line[1]) for line in full), form
    for region in (" north ", "NORTH", "Nord", "", "N/A", "Nroth"):
        assert any(region == line[2] for line in full), region
    groups = (r"-?\d,\d{3}\.\d\d", r"\d\.\d{3},\d\d", r"\d\u00a0\d{3},\d\d", r"\d+,\d{3}")
    for form in (*groups, r"\d+,\d\d", r"\(\d+\.\d\d\)", "€.*", ""):
        assert any(re.fullmatch(form, line[7]) for line in full), form
    assert any(line[5].startswith("-") for line in full)
    assert any(line[9] == "refund" and not line[5].startswith("-") for line in full)
    assert any("\n" in line[10] for line in full)
    assert any("," in line[10] for line in full)


def test_the_sea_table_is_unchanged_since_its_source() -> None:
    raw = (HOME / SEA).read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    assert digest == "b647be00e0fd264be9764e317e6b963f35030014ecca2b21b204521716e463ad"
    assert digest in (HOME / "README.md").read_text("utf-8")
    assert len(raw) < 150_000


def test_every_data_set_is_described() -> None:
    described = (HOME / "README.md").read_text("utf-8")
    assert data.dataset_names() == [SEA, SALES]
    assert all(f"## {name}" in described for name in data.dataset_names())


@pytest.mark.parametrize("name", [SALES, SEA])
def test_a_known_name_gives_the_file(name: str) -> None:
    assert data.dataset_path(name).read_bytes() == (HOME / name).read_bytes()


def test_the_packaged_file_comes_before_that_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "agentlab"
    for folder in (package / "_datasets", package / "tasks", tmp_path / "datasets"):
        folder.mkdir(parents=True)
        (folder / SALES).write_text(folder.name)
    monkeypatch.setattr(data, "__file__", str(package / "tasks" / "data.py"))
    assert data.dataset_path(SALES).read_text() == "_datasets"
    # Without the script beside it, a folder called datasets is somebody else's.
    (package / "_datasets" / SALES).unlink()
    with pytest.raises(UnknownName):
        data.dataset_path(SALES)
    (tmp_path / "datasets" / "make_sales.py").touch()
    assert data.dataset_path(SALES).read_text() == "datasets"


@pytest.mark.parametrize("name", ["sales_2023", "sales_2032.csv"])
def test_a_near_miss_is_told_the_right_name(name: str) -> None:
    with pytest.raises(UnknownName, match=r"did you mean sales_2023\.csv") as caught:
        data.dataset_path(name)
    assert (caught.value.what, caught.value.name) == ("dataset", name)


@pytest.mark.parametrize("name", ["", ".", "../datasets/sales_2023.csv", "make_sales.py", "README.md", "/etc/hosts"])
def test_nothing_else_is_a_data_set(name: str) -> None:
    with pytest.raises(UnknownName):
        data.dataset_path(name)
