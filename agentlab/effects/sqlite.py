"""SQLite as an external effect: the key is written in the transaction of the work, so both are there or neither."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentlab.effects.outside import Effect, OutsideError, completed, key_or_current, not_done, unknown

TABLE = "agentlab_effects"
TIMEOUT_S = 30.0


def run_once(
    path: str | Path, key: str, work: Callable[[sqlite3.Connection], Any], timeout_s: float = TIMEOUT_S
) -> Any:
    """Do ``work`` once per ``key`` in one transaction; for a key that is there already, its stored result.

    ``work`` gets the connection, must not commit, and returns plain JSON. ``timeout_s`` (seconds) is the wait for
    another writer. Raises OutsideError when the database refuses, and what ``work`` raises; nothing was written then.
    """
    try:
        connection = sqlite3.connect(str(path), timeout=timeout_s, isolation_level=None)
    except sqlite3.Error as error:
        raise OutsideError(f"{path}: {error}", sent=False) from error
    with contextlib.closing(connection):
        try:
            connection.execute("PRAGMA synchronous=FULL")
            # Immediate: two writers with one key meet here, and the second finds the first one's row.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY, result TEXT NOT NULL)")
            row = connection.execute(f"SELECT result FROM {TABLE} WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise OutsideError(f"{path}: {error}", sent=False) from error
        if row is not None:
            connection.rollback()
            return json.loads(row[0])
        try:
            result = json.dumps(work(connection))
            if not connection.in_transaction:
                raise OutsideError("the work ended the transaction that holds its key: it must not commit")
            connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?)", (key, result))
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
        return json.loads(result)


def look_up(path: str | Path, key: str, timeout_s: float = TIMEOUT_S) -> tuple[bool, Any]:
    """Whether ``key`` is committed, and its result. Raises OutsideError when the database can not be read."""
    place = Path(path).resolve()
    if not place.exists() and place.parent.is_dir():
        return False, None
    try:
        # Read-write, because only a writer may roll back what a killed process left half done; never created here.
        with contextlib.closing(
            sqlite3.connect(f"{place.as_uri()}?mode=rw", timeout=timeout_s, uri=True)
        ) as connection:
            there = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,))
            if there.fetchone() is None:
                return False, None
            row = connection.execute(f"SELECT result FROM {TABLE} WHERE key = ?", (key,)).fetchone()
    except sqlite3.Error as error:
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


def sqlite_effect(path: str | Path, statement: str) -> Effect:
    """An effect that executes ``statement`` (one, with named parameters) once per key; ``honours_key=True``.

    The effect raises OutsideError when the database is busy and sqlite3.Error when it refuses the statement.
    """
    place = str(path)

    def write(parameters: dict[str, Any], idempotency_key: str = "") -> dict[str, Any]:
        """Execute the prepared statement with these parameters."""

        def work(connection: sqlite3.Connection) -> dict[str, Any]:
            return {"rows": connection.execute(statement, parameters).rowcount}

        result: dict[str, Any] = run_once(place, key_or_current(idempotency_key), work)
        return result

    def verify(key: str) -> dict[str, Any]:
        """Whether the database has committed ``key``."""
        return verify_key(place, key)

    return Effect(write, verify, True)
