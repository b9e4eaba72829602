"""DuckDB reads the files of a session by an explicit list, with the right types and each event once."""

from __future__ import annotations

from pathlib import Path

import duckdb

from agentlab.contracts.log import write
from agentlab.events import Draft, canonical, seal
from agentlab.events.codec import NAMES
from agentlab.log import ParquetStore

TYPES = {
    "ts": "TIMESTAMP WITH TIME ZONE", "seq": "BIGINT", "step": "BIGINT", "attempt": "BIGINT", "incarnation": "BIGINT",
    "input_tokens": "BIGINT", "output_tokens": "BIGINT", "cache_read_tokens": "BIGINT", "cache_write_tokens": "BIGINT",
    "parent_seq": "BIGINT", "schema_version": "BIGINT", "duration_ms": "DOUBLE", "cost_usd": "DOUBLE",
}  # fmt: skip


def test_types_and_values(tmp_path: Path) -> None:
    session_id = "session=2024-01-01/[x]'"
    log = ParquetStore(tmp_path).create(session_id)
    for text in ("one", "é\0日本", "three"):
        write(log, text)
    log.seal()
    head = log.head()
    draft = Draft("note_added", {"id": "4", "text": "x" * 100_000}, tool_name="t", duration_ms=2.5, cost_microusd=1_500)
    log.append(
        seal([draft], head, session_id=session_id, incarnation=2, commit_id="c", now_us=1_711_843_200_000_001), 4
    )
    write(log, "five", "six")
    files = [path for path, _ in log.commit_files()]
    with duckdb.connect() as con:
        con.execute("SET TimeZone='UTC'")
        relation = "read_parquet($files, hive_partitioning=false)"
        described = con.execute(f"DESCRIBE SELECT * FROM {relation}", {"files": files}).fetchall()
        assert {row[0]: row[1] for row in described} == {name: TYPES.get(name, "VARCHAR") for name in NAMES}
        rows = con.execute(f"SELECT seq, session_id, payload FROM {relation} ORDER BY seq", {"files": files}).fetchall()
        assert rows == [(event.seq, session_id, canonical(event.payload)) for event in log.replay()]
        one = con.execute(
            f"SELECT tool_name, duration_ms, cost_usd, ts::VARCHAR, error, step FROM {relation} WHERE seq = 4",
            {"files": files},
        ).fetchone()
        assert one == ("t", 2.5, 0.0015, "2024-03-31 00:00:00.000001+00", None, None)


def test_lone_surrogates_do_not_break_queries(tmp_path: Path) -> None:
    log = ParquetStore(tmp_path).create("\ud800")
    write(log, "\udfff")
    write(log, "two")
    files = [path for path, _ in log.commit_files()]
    with duckdb.connect() as con:
        rows = con.execute("SELECT count(*), count(DISTINCT session_id) FROM read_parquet($1)", [files]).fetchone()
    assert rows == (2, 1)
