"""SQLite and DuckDB: a writer that is killed before or after its commit, and a retry, leave exactly one effect."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentlab.effects.outside import OutsideError
from tests.effects.helpers import Background, killed_child

KEY = "sitzung-ä 1#12"
BOTH = pytest.mark.parametrize("name", ["sqlite", "duckdb_write"])

CHILD = """
import importlib, os, signal, sys
adapter = importlib.import_module("agentlab.effects." + sys.argv[1])
path, key, moment = sys.argv[2:]
def work(connection):
    connection.execute("INSERT INTO sent VALUES ('ready')")
    if moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"rows": 1}
adapter.run_once(path, key, work)
os.kill(os.getpid(), signal.SIGKILL)
"""


def connect(name: str, path: Path) -> Any:
    return importlib.import_module({"sqlite": "sqlite3", "duckdb_write": "duckdb"}[name]).connect(str(path))


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        path = tmp_path / "outside.db"
        connection = connect(name, path)
        connection.execute("CREATE TABLE sent (message VARCHAR)")
        connection.commit() if name == "sqlite" else None
        connection.close()
        return path

    return make


def rows(name: str, path: Path) -> int:
    connection = connect(name, path)
    try:
        return int(connection.execute("SELECT count(*) FROM sent").fetchone()[0])
    finally:
        connection.close()


def insert(connection: Any) -> dict[str, Any]:
    connection.execute("INSERT INTO sent VALUES ('ready')")
    return {"rows": 1}


@BOTH
@pytest.mark.parametrize(("moment", "outcome"), [("before", "not_done"), ("after", "completed")])
def test_killed_around_the_commit(place: Callable[[str], Path], name: str, moment: str, outcome: str) -> None:
    adapter: Any = importlib.import_module(f"agentlab.effects.{name}")
    path = place(name)
    killed_child(CHILD, name, str(path), KEY, moment)
    assert adapter.verify_key(path, KEY)["outcome"] == outcome
    for _ in range(2):
        assert adapter.run_once(path, KEY, insert) == {"rows": 1}
    assert adapter.verify_key(path, KEY)["result"] == {"rows": 1}
    assert rows(name, path) == 1


@BOTH
def test_statement_effect(place: Callable[[str], Path], name: str) -> None:
    adapter: Any = importlib.import_module(f"agentlab.effects.{name}")
    path = place(name)
    make = adapter.sqlite_effect if name == "sqlite" else adapter.duckdb_effect
    effect = make(path, f"INSERT INTO sent VALUES ({':' if name == 'sqlite' else '$'}message)")
    assert effect.verify(KEY)["outcome"] == "not_done"
    results = [effect.run({"message": "ready"}, idempotency_key=KEY) for _ in range(3)]
    assert results == [{"rows": 1}] * 3 and rows(name, path) == 1
    assert effect.verify(KEY)["result"] == {"rows": 1}
    effect.run({"message": "ready"}, idempotency_key="another")
    assert rows(name, path) == 2


@BOTH
def test_failing_work_leaves_nothing(place: Callable[[str], Path], name: str) -> None:
    adapter: Any = importlib.import_module(f"agentlab.effects.{name}")
    path = place(name)

    def fail(connection: Any) -> None:
        insert(connection)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        adapter.run_once(path, KEY, fail)
    assert adapter.verify_key(path, KEY)["outcome"] == "not_done" and rows(name, path) == 0


@BOTH
def test_work_that_commits_is_told_so(place: Callable[[str], Path], name: str) -> None:
    adapter: Any = importlib.import_module(f"agentlab.effects.{name}")
    path = place(name)

    def commit(connection: Any) -> None:
        insert(connection)
        connection.execute("COMMIT")

    with pytest.raises(OutsideError, match="must not commit"):
        adapter.run_once(path, KEY, commit)


@BOTH
def test_missing_or_foreign_files(tmp_path: Path, name: str) -> None:
    adapter: Any = importlib.import_module(f"agentlab.effects.{name}")
    assert adapter.verify_key(tmp_path / "none.db", KEY)["outcome"] == "not_done"
    assert not (tmp_path / "none.db").exists()
    assert adapter.verify_key(tmp_path / "no folder" / "none.db", KEY)["outcome"] == "unknown"
    (tmp_path / "text.db").write_text("this is no database " * 300)
    assert adapter.verify_key(tmp_path / "text.db", KEY)["outcome"] == "unknown"
    with pytest.raises(OutsideError):
        adapter.run_once(tmp_path / "text.db", KEY, insert)


def test_simultaneous_sqlite_writers_with_one_key(place: Callable[[str], Path]) -> None:
    from agentlab.effects import sqlite

    path = place("sqlite")
    tries = [Background(lambda: sqlite.run_once(path, KEY, insert)) for _ in range(6)]
    assert [one.ended() for one in tries] == [None] * 6
    assert rows("sqlite", path) == 1


def test_busy_sqlite_sends_nothing(place: Callable[[str], Path]) -> None:
    from agentlab.effects import sqlite

    path = place("sqlite")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(OutsideError, match="locked") as caught:
        sqlite.run_once(path, KEY, insert, timeout_s=0.05)
    assert not caught.value.sent
    other.close()
