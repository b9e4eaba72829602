"""Events as Parquet bytes: exact round trips, what other readers see, and no damage that reads as something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.contracts.log import events_after
from agentlab.errors import LogCorrupt, SchemaTooNew
from agentlab.events import GENESIS, Draft, Event, Head, seal, verify_chain
from agentlab.events.codec import COLUMNS, NAMES, arrow_schema, decode, encode, end_seq
from agentlab.events.plain_parquet import Column, Kind, PlainTable
from agentlab.events.upcast import lift

from .costs import calls_of

TEXTS = st.one_of(st.text(max_size=30), st.sampled_from(["\ud800", "\0", "é\U0001f600", "PAR1", "agentlab.end_seq"]))
INTS = st.integers(-(2**63), 2**63 - 1)
DRAFTS = st.builds(
    Draft,
    type=st.just("note_added"),
    payload=st.fixed_dictionaries({"id": TEXTS, "text": TEXTS, "n": st.integers()}),
    tool_name=st.none() | TEXTS,
    error=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
    duration_ms=st.none() | st.floats(allow_nan=False),
    step=st.none() | INTS,
    call_id=st.none() | TEXTS,
    effect_key=st.none() | TEXTS,
    input_tokens=st.none() | INTS,
    cost_microusd=st.none() | st.integers(0, 10**15),
)


def sealed(drafts: list[Draft], session_id: str = "s", now_us: int = 1_700_000_000_123_456) -> tuple[Event, ...]:
    return seal(drafts, Head(0, GENESIS), session_id=session_id, incarnation=1, commit_id="c-1", now_us=now_us)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(DRAFTS, min_size=1, max_size=4), TEXTS.filter(bool), st.integers(-(2**62), 2**62), st.booleans())
def test_round_trip(drafts: list[Draft], session_id: str, now_us: int, as_segment: bool) -> None:
    events = sealed(drafts, session_id, now_us)
    data = encode(events, sealed=as_segment)
    back = decode(data)
    assert back == list(events)
    assert decode(data, previous=GENESIS) == back
    for start in range(1, len(events) + 2):
        assert decode(data, from_seq=start) == back[start - 1 :]
    verify_chain(back, Head(0, GENESIS))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_arrow_reads_what_the_plain_writer_wrote(data: st.DataObject) -> None:
    values: dict[Kind, st.SearchStrategy[Any]] = {
        "text": st.text(max_size=200), "int": INTS, "float": st.floats(allow_nan=False), "time": INTS,
    }  # fmt: skip
    columns = [Column(f"{kind}{required}", kind, required) for kind in values for required in (True, False)]
    row = st.tuples(*(values[c.kind] if c.required else st.none() | values[c.kind] for c in columns))
    rows = data.draw(st.lists(row, min_size=1, max_size=300 if data.draw(st.booleans()) else 3))
    table = PlainTable([c._replace(kind="int") if c.kind == "time" else c for c in columns])
    written = table.write(rows, [(b"k", b"v")])
    read = pq.read_table(pa.BufferReader(written))
    assert list(zip(*(column.to_pylist() for column in read.columns), strict=True)) == rows
    pages = table.read(written)
    assert pages is not None and list(zip(*pages.columns, strict=True)) == rows


@pytest.mark.parametrize("as_segment", [False, True])
def test_schema_is_fixed(as_segment: bool) -> None:
    events = sealed([Draft("note_added", {"id": "1", "text": "t"}, cost_microusd=1_500_000)])
    data = encode(events, sealed=as_segment)
    file = pq.ParquetFile(pa.BufferReader(data))
    assert file.schema_arrow.names == list(NAMES) == arrow_schema().names
    for column, arrow, own in zip(COLUMNS, file.schema_arrow, arrow_schema(), strict=True):
        assert arrow.nullable is own.nullable is not column.required
        assert arrow.type == (pa.string() if own.type == pa.large_string() else own.type)
    assert file.schema_arrow.field("ts").type == pa.timestamp("us", tz="UTC")
    row = file.read().to_pylist()[0]
    assert row["cost_usd"] == 1.5 and row["hash"] == events[0].hash
    chunk = file.metadata.row_group(0).column(NAMES.index("type"))
    assert (chunk.compression, chunk.is_stats_set) == (("ZSTD", True) if as_segment else ("UNCOMPRESSED", False))
    assert ("RLE_DICTIONARY" in chunk.encodings) is as_segment
    assert file.metadata.metadata[b"agentlab.schema_version"] == b"1"
    assert file.metadata.metadata[b"agentlab.end_seq"] == b"1"
    assert b"ARROW:schema" not in file.metadata.metadata


def test_end_seq_from_the_footer(tmp_path: Path) -> None:
    hostile = "x" * 50 + "\x18\x10agentlab.end_seq\x18\x01" + "9"
    for as_segment in (False, True):
        for count in (1, 5000) if as_segment else (1, 3):
            path = tmp_path / f"{as_segment}{count}"
            path.write_bytes(encode(events_after(Head(0, GENESIS), "s", [hostile] * count), sealed=as_segment))
            assert end_seq(path) == count
    for rubbish in (b"", b"PAR1", b"x" * 100, (2**32 - 1).to_bytes(4, "little") + b"PAR1", b"\0" * 8 + b"PAR1"):
        (tmp_path / "bad").write_bytes(rubbish)
        with pytest.raises(LogCorrupt, match="bad"):
            end_seq(tmp_path / "bad")


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError):
        encode([])
    for as_segment in (False, True):
        events = sealed([Draft("note_added", {"id": "1", "text": "t"}, step=2**63)])
        with pytest.raises(ValueError, match="fit"):
            encode(events, sealed=as_segment)


@pytest.mark.parametrize("count", [1, 3])
def test_no_damaged_byte_is_a_silent_wrong_value(count: int) -> None:
    """Every byte flipped, every length: the reader says corrupt, or the very same events come back."""
    events = list(events_after(Head(0, GENESIS), "s", ["text"] * count))
    data = encode(events)
    harmless = 0
    for position in range(len(data)):
        for flip in (0xFF, 1 << position % 8):
            damaged = bytearray(data)
            damaged[position] ^= flip
            try:
                harmless += decode(bytes(damaged)) == events or pytest.fail(f"byte {position} reads as something else")
            except (LogCorrupt, SchemaTooNew):
                pass
    assert harmless < len(data) / 2  # names of the writer, unused sizes and the like
    for length in range(len(data)):
        with pytest.raises(LogCorrupt):
            decode(data[:length])
    for extra in (b"\0", b"\0" * 100, data):
        try:
            assert decode(data + extra) == events
        except LogCorrupt:
            pass


def test_no_damaged_segment_is_a_silent_wrong_value() -> None:
    events = list(events_after(Head(0, GENESIS), "s", [f"text {i}" for i in range(40)]))
    data = encode(events, sealed=True)
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        try:
            assert decode(bytes(damaged)) == events, f"byte {position} reads as something else"
        except (LogCorrupt, SchemaTooNew):
            pass


def test_a_row_of_another_history_is_noticed() -> None:
    events = events_after(Head(0, GENESIS), "s", ["a", "b"])
    with pytest.raises(LogCorrupt, match="event 1 does not match"):
        decode(encode(events), previous="f" * 64)
    foreign = events_after(Head(1, "f" * 64), "s", ["b"])
    with pytest.raises(LogCorrupt, match="event 2 does not match"):
        decode(encode([events[0], *foreign]))


def test_file_name_is_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "000000000001.parquet"
    path.write_bytes(b"PAR1 nonsense")
    with pytest.raises(LogCorrupt, match="000000000001.parquet"):
        decode(path)


# --- versions -------------------------------------------------------------------------------------------------------


def test_older_rows_are_lifted_step_by_step_after_verifying() -> None:
    events = events_after(Head(0, GENESIS), "s", ["a"])
    seen = []

    def one_to_two(row: Any) -> Any:
        seen.append(row["schema_version"])
        return {**row, "tool_name": "two"}

    def two_to_three(row: Any) -> Any:
        seen.append(row["schema_version"])
        return {**row, "tool_name": row["tool_name"] + " three"}

    for as_segment in (False, True):
        data = encode(events, sealed=as_segment)
        (lifted,) = decode(data, upcasters={1: one_to_two, 2: two_to_three}, current=3)
        assert lifted.tool_name == "two three" and lifted.schema_version == 3
        assert lifted.hash == events[0].hash
    assert seen == [1, 2, 1, 2]
    with pytest.raises(LogCorrupt, match="no upcaster"):
        decode(encode(events), upcasters={2: two_to_three}, current=3)


def test_rows_of_a_newer_version_are_refused() -> None:
    data = encode(events_after(Head(0, GENESIS), "s", ["a"]))
    with pytest.raises(SchemaTooNew, match="install the newer version"):
        decode(data, current=0)
    with pytest.raises(SchemaTooNew):
        lift({"schema_version": 2, "seq": 1, "session_id": "s"})
    newer = data.replace(b"agentlab.schema_version\x18\x011", b"agentlab.schema_version\x18\x012")
    assert newer != data
    with pytest.raises(SchemaTooNew):
        decode(newer)


def test_encoding_one_event_takes_few_calls() -> None:
    """A handful for each column: no schema is worked out anew, and nothing grows with the columns squared."""
    events = events_after(Head(0, GENESIS), "s", ["a" * 100])
    encode(events)
    assert min(calls_of(lambda: encode(events)) for _ in range(3)) < 20 * len(COLUMNS)
