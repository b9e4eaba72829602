"""DuckDB as an external effect: the key is written in the transaction of the work, so both are there or neither.

DuckDB is imported inside the functions: a tool host that never writes to one does not pay for its import.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentlab.effects.outside import Effect, OutsideError, completed, key_or_current, not_done, unknown

TABLE = "agentlab_effects"


def run_once(path: str | Path, key: str, work: Callable[[Any], Any]) -> Any:
    """Do ``work`` once per ``key`` in one transaction; for a key that is there already, its stored result.

    ``work`` gets the DuckDB connection, must not commit, and returns plain JSON. Raises OutsideError when the database
    can not be opened (DuckDB lets in one writing process at a time), and what ``work`` raises; nothing was written
    then.
    """
    import duckdb

    try:
        connection = duckdb.connect(str(path))
    except duckdb.Error as error:
        raise OutsideError(f"{path}: {error}", sent=False) from error
    with contextlib.closing(connection):
        connection.begin()
        try:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (key VARCHAR PRIMARY KEY, result VARCHAR NOT NULL)")
            row = connection.execute(f"SELECT result FROM {TABLE} WHERE key = ?", [key]).fetchone()
            if row is not None:
                connection.rollback()
                return json.loads(row[0])
            mine = _transaction(connection)
            result = json.dumps(work(connection))
            if _transaction(connection) != mine:
                raise OutsideError("the work ended the transaction that holds its key: it must not commit")
            connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?)", [key, result])
            connection.commit()
        except BaseException:
            # A failed commit has ended the transaction itself.
            with contextlib.suppress(duckdb.Error):
                connection.rollback()
            raise
        return json.loads(result)


def look_up(path: str | Path, key: str) -> tuple[bool, Any]:
    """Whether ``key`` is committed, and its result. Raises OutsideError when the database can not be read."""
    import duckdb

    place = Path(path).resolve()
    if not place.exists() and place.parent.is_dir():
        return False, None
    try:
        with contextlib.closing(duckdb.connect(str(place), read_only=True)) as connection:
            there = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [TABLE]).fetchone()
            if there is None:
                return False, None
            row = connection.execute(f"SELECT result FROM {TABLE} WHERE key = ?", [key]).fetchone()
    except duckdb.Error as error:
        raise OutsideError(f"{path}: {error}") from error
    return (False, None) if row is None else (True, json.loads(row[0]))


def verify_key(path: str | Path, key: str) -> dict[str, Any]:
    """Verify's answer from the database: completed, not_done, or unknown when it can not be read."""
    try:
        there, result = look_up(path, key)
    except (OutsideError, OSError) as error:
        return unknown(str(error))
    if there:
        return completed(result, f"{path} has {key} in {TABLE}")
    return not_done(f"{path} has no {key} in {TABLE}")


def duckdb_effect(path: str | Path, statement: str) -> Effect:
    """An effect that executes ``statement`` (one, with ``$name`` parameters) once per key; ``honours_key=True``.

    The effect raises OutsideError when the database is in use and duckdb.Error when it refuses the statement.
    """
    place = str(path)

    def write(parameters: dict[str, Any], idempotency_key: str = "") -> dict[str, Any]:
        """Execute the prepared statement with these parameters."""

        def work(connection: Any) -> dict[str, Any]:
            row = connection.execute(statement, parameters).fetchone()
            return {"rows": row[0] if row else 0}

        result: dict[str, Any] = run_once(place, key_or_current(idempotency_key), work)
        return result

    def verify(key: str) -> dict[str, Any]:
        """Whether the database has committed ``key``."""
        return verify_key(place, key)

    return Effect(write, verify, True)


def _transaction(connection: Any) -> int:
    return int(connection.execute("SELECT txid_current()").fetchone()[0])
