"""Events as Parquet bytes and back: the fixed schema of a log file.

Two forms with the same columns. A *commit* is written plain by :mod:`agentlab.events.plain_parquet`, in
microseconds and without Arrow; a *segment* is written by Arrow with compression, statistics and dictionaries.
Arrow's arrays are made from buffers: ``pa.array``, ``pa.table``, ``from_pylist`` and ``pa.scalar`` import pandas
behind the caller's back, which costs a fifth of a second at every start.

The footer names the format, the schema version, the first and last seq, and a check of the first row, so that a
file can be verified by itself: a flipped byte in Parquet is otherwise a silent wrong value.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentlab.errors import LogCorrupt, SchemaTooNew
from agentlab.events.event import (
    COLUMNS_V1,
    EVENT_SCHEMA_VERSION,
    Event,
    chain_hash,
    column_values,
    from_columns,
)
from agentlab.events.plain_parquet import Column, Kind, PlainTable
from agentlab.events.upcast import UPCASTERS, Upcaster, lift

if TYPE_CHECKING:
    import pyarrow as pa

Source = bytes | str | os.PathLike[str]
FileRow = tuple[Any, ...]

COMMIT, SEGMENT = "agentlab commit", "agentlab segment"
_KEY_FORMAT, _KEY_VERSION = b"agentlab.format", b"agentlab.schema_version"
_KEY_START, _KEY_END = b"agentlab.start_seq", b"agentlab.end_seq"
_KEY_CHECK, _KEY_ESCAPED = b"agentlab.check", b"agentlab.escaped"

_INTS = {
    "seq", "step", "attempt", "incarnation", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_tokens", "parent_seq", "schema_version",
}  # fmt: skip
_REQUIRED = {"session_id", "seq", "ts", "type", "payload", "incarnation", "commit_id", "schema_version", "hash"}
_KINDS: dict[str, Kind] = {"ts": "time", "duration_ms": "float", "cost_usd": "float"}

NAMES = (*COLUMNS_V1, "hash")
"""The columns of a file, in order."""
COLUMNS = tuple(Column(n, _KINDS.get(n, "int" if n in _INTS else "text"), n in _REQUIRED) for n in NAMES)
"""Names, types and nullability; ``ts`` is a UTC timestamp in microseconds, ``cost_usd`` US dollars."""

_TABLE = PlainTable(COLUMNS)
_SEQ, _COST, _VERSION, _HASH = (NAMES.index(n) for n in ("seq", "cost_usd", "schema_version", "hash"))
_ROWS_PER_GROUP = 4096


def encode(events: Sequence[Event], sealed: bool = False) -> bytes:
    """The Parquet bytes of consecutive ``events``: a plain commit, or a compressed segment when ``sealed``.

    Raises:
        ValueError: no events, or a value that its column can not hold (an integer beyond 64 bits).
        SchemaTooNew: an event of a newer version.
    """
    if not events:
        raise ValueError("a log file holds at least one event")
    rows = [_file_row(event) for event in events]
    meta = _metadata(rows, SEGMENT if sealed else COMMIT)
    try:
        return _seal(rows, meta) if sealed else _TABLE.write(rows, meta)
    except UnicodeEncodeError:
        rows, names = _escape(rows)
        meta.append((_KEY_ESCAPED, json.dumps(names).encode()))
        return _seal(rows, meta) if sealed else _TABLE.write(rows, meta)


def decode(
    source: Source,
    *,
    from_seq: int = 1,
    previous: str | None = None,
    upcasters: Mapping[int, Upcaster] = UPCASTERS,
    current: int = EVENT_SCHEMA_VERSION,
) -> list[Event]:
    """The events of a file from ``from_seq`` on, verified against their hashes and then lifted to ``current``.

    ``previous`` is the hash that the first row of the file must chain to; without it the first row is verified by
    the footer's check alone.

    Raises:
        LogCorrupt: the bytes do not verify; the message names the file when a path was given.
        SchemaTooNew: written by a newer agentlab.
        OSError: the path can not be read.
    """
    name = "commit" if isinstance(source, bytes) else os.fspath(source)
    data = source if isinstance(source, bytes) else _slurp(name)
    rows = _plain_rows(data)
    if rows is None:
        rows = _arrow_rows(data, name, current)
    start: int = rows[0][_SEQ]
    if from_seq > start:
        skipped = rows[: from_seq - start]
        rows = rows[from_seq - start :]
        previous = skipped[-1][_HASH]
    _verify(rows, previous, name, current)
    return [from_columns(lift(dict(zip(NAMES, row, strict=True)), upcasters, current)) for row in rows]


def end_seq(path: str | os.PathLike[str]) -> int:
    """The last seq in a file, from its footer alone (one open, two reads, no Arrow).

    Raises:
        LogCorrupt: not a log file.
        OSError: it can not be read.
    """
    with open(path, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        trailer = file.read(8)
        length = int.from_bytes(trailer[:4], "little")
        if trailer[4:] != b"PAR1" or length > size - 12:
            raise LogCorrupt(f"{os.fspath(path)}: not a Parquet file, or cut short")
        file.seek(size - 8 - length)
        footer = file.read(length)
    # Nothing a user wrote stands behind the metadata, so the last occurrence of the key is ours.
    at = footer.rfind(_KEY_END) + len(_KEY_END)
    digits = footer[at + 2 : at + 2 + footer[at + 1]] if at >= len(_KEY_END) and footer[at : at + 1] == b"\x18" else b""
    if not digits.isdigit():
        raise LogCorrupt(f"{os.fspath(path)}: not a file of a session log")
    return int(digits)


def arrow_schema() -> pa.Schema:
    """The schema of a segment. Imports Arrow."""
    import pyarrow as pa

    types = {"text": pa.large_string(), "int": pa.int64(), "float": pa.float64(), "time": pa.timestamp("us", tz="UTC")}
    return pa.schema([pa.field(c.name, types[c.kind], nullable=not c.required) for c in COLUMNS])


# --- rows ----------------------------------------------------------------------------------------------------------


def _file_row(event: Event) -> FileRow:
    values = column_values(event)
    cost = event.cost_microusd
    return (*values[:_COST], None if cost is None else cost / 1e6, *values[_COST + 1 :], event.hash)


def _hashed(row: FileRow) -> tuple[Any, ...]:
    cost = row[_COST]
    return row[:_HASH] if cost is None else (*row[:_COST], round(cost * 1e6), *row[_COST + 1 : _HASH])


def _metadata(rows: Sequence[FileRow], form: str) -> list[tuple[bytes, bytes]]:
    first, last = rows[0], rows[-1]
    return [
        (_KEY_FORMAT, form.encode()),
        (_KEY_VERSION, b"%d" % max(row[_VERSION] for row in rows)),
        (_KEY_START, b"%d" % first[_SEQ]),
        (_KEY_END, b"%d" % last[_SEQ]),
        (_KEY_CHECK, chain_hash(first[_HASH], _hashed(first)).encode()),
    ]


def _verify(rows: Sequence[FileRow], previous: str | None, name: str, current: int) -> None:
    seq: int | None = None
    for row in rows:
        if row[_VERSION] > current:
            lift(dict(zip(NAMES, row, strict=True)), {}, current)  # raises
        if seq is not None and row[_SEQ] != seq + 1:
            raise LogCorrupt(f"{name}: event {seq + 1} is missing, found {row[_SEQ]} instead")
        if previous is not None and chain_hash(previous, _hashed(row)) != row[_HASH]:
            raise LogCorrupt(f"{name}: event {row[_SEQ]} does not match its hash; it or the event before was changed")
        seq, previous = row[_SEQ], row[_HASH]


def _escape(rows: Sequence[FileRow]) -> tuple[list[FileRow], list[str]]:
    # A session id or an effect key may hold lone surrogates, which UTF-8 can not; the whole column is then JSON text.
    columns: list[Any] = list(zip(*rows, strict=True))
    names = []
    for index, column in enumerate(COLUMNS):
        if column.kind == "text":
            try:
                "".join(v for v in columns[index] if v is not None).encode()
            except UnicodeEncodeError:
                columns[index] = [None if v is None else json.dumps(v) for v in columns[index]]
                names.append(column.name)
    return list(zip(*columns, strict=True)), names


# --- files ---------------------------------------------------------------------------------------------------------


def _slurp(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _plain_rows(data: bytes) -> list[FileRow] | None:
    """The rows of a commit that this version could have written byte for byte in its footer; else None."""
    pages = _TABLE.read(data)
    if pages is None or not pages.columns[0]:
        return None
    try:
        rows: list[FileRow] = list(zip(*pages.columns, strict=True))
        footer = _TABLE.footer(len(rows), pages.sizes, _metadata(rows, COMMIT))
    except (ValueError, TypeError, OverflowError):
        return None
    return rows if data[pages.footer_at :] == footer else None


def _arrow_rows(data: bytes, name: str, current: int) -> list[FileRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        meta: Mapping[bytes, bytes] = table.schema.metadata or {}
        version = int(meta[_KEY_VERSION])
    except Exception as error:  # a damaged file may raise anything at all
        raise LogCorrupt(
            f"{name}: not a readable log file ({type(error).__name__}: {' '.join(str(error).split())})"
        ) from None
    if version > current:
        raise SchemaTooNew(
            f"{name}: schema version {version}; this agentlab reads up to {current}: install the newer version"
        )
    try:
        rows = _columns(table, json.loads(meta.get(_KEY_ESCAPED, b"[]")))
        form = meta[_KEY_FORMAT].decode()
        stored = [(key, meta[key]) for key, _ in _metadata(rows, form)]
        sound = form in (COMMIT, SEGMENT) and stored == _metadata(rows, form)
    except Exception as error:
        raise LogCorrupt(
            f"{name}: not a readable log file ({type(error).__name__}: {' '.join(str(error).split())})"
        ) from None
    if not sound:
        raise LogCorrupt(f"{name}: its rows do not match what its footer says")
    return rows


def _columns(table: pa.Table, escaped: Sequence[str]) -> list[FileRow]:
    import pyarrow as pa

    columns = []
    for column in COLUMNS:
        chunks = table.column(column.name).chunks
        if column.kind == "time":
            chunks = [chunk.view(pa.int64()) for chunk in chunks]
        values = [value for chunk in chunks for value in chunk.to_pylist()]
        if column.name in escaped:
            values = [None if v is None else json.loads(v) for v in values]
        columns.append(values)
    return list(zip(*columns, strict=True))


def _seal(rows: Sequence[FileRow], meta: Sequence[tuple[bytes, bytes]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema()
    arrays = [_array(c, t, v) for c, t, v in zip(COLUMNS, schema.types, zip(*rows, strict=True), strict=True)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, schema, compression="zstd", use_dictionary=True, write_statistics=True, store_schema=False
    ) as writer:
        writer.write_table(table, row_group_size=_ROWS_PER_GROUP)
        writer.add_key_value_metadata(dict(meta))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _array(column: Column, arrow_type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    count = len(values)
    bits = 0 if column.required else int("".join("0" if v is None else "1" for v in reversed(values)), 2)
    valid = None if column.required else pa.py_buffer(bits.to_bytes((count + 7) // 8, "little"))
    if column.kind == "text":
        raws = [b"" if v is None else v.encode() for v in values]
        offsets, at = [0], 0
        for raw in raws:
            at += len(raw)
            offsets.append(at)
        packed = pa.py_buffer(struct.pack(f"<{count + 1}q", *offsets))
        buffers = [valid, packed, pa.py_buffer(b"".join(raws) or b"\x00")]
    else:
        code = "d" if column.kind == "float" else "q"
        try:
            packed = pa.py_buffer(struct.pack(f"<{count}{code}", *(0 if v is None else v for v in values)))
        except struct.error as error:
            raise ValueError(f"a value does not fit column {column.name}: {error}") from None
        buffers = [valid, packed]
    return pa.Array.from_buffers(arrow_type, count, buffers, values.count(None))
