"""Session ids as folder names."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentlab.contracts.log import HOSTILE_IDS
from agentlab.errors import BadSessionId
from agentlab.log.paths import MAX_BYTES, file_name, folder_name, session_id_of, start_of

IDS = st.text(st.characters(exclude_categories=()), min_size=1, max_size=30) | st.sampled_from(HOSTILE_IDS)


@settings(derandomize=True, deadline=None)
@given(IDS)
@example("x" * 198)
@example("日" * 41)
def test_round_trip(session_id: str) -> None:
    name = folder_name(session_id)
    assert session_id_of(name) == session_id
    assert len(name.encode()) <= MAX_BYTES and name.isascii() and name == name.lower()
    assert not set(name) & set("/\\=\0*?[]:'\" ") and not name.startswith(".") and not name.endswith((".", " "))


@settings(derandomize=True, deadline=None)
@given(IDS, IDS)
@example("A", "a")
@example("é", "e\u0301")
@example("a_41", "aA")
def test_two_ids_never_share_a_folder(one: str, two: str) -> None:
    assert (folder_name(one).casefold() == folder_name(two).casefold()) == (one == two)


@settings(derandomize=True, deadline=None)
@given(st.text(max_size=40))
@example("s-A")
@example("s-_41_")
@example("s-_zz")
@example("s-_61")
@example("b-me")
@example("b-!")
@example("s-a.")
@example("s-")
def test_foreign_folders_are_no_sessions(name: str) -> None:
    session_id = session_id_of(name)
    assert session_id is None or folder_name(session_id) == name


def test_readable_where_it_can_be() -> None:
    assert folder_name("sales-report.2024") == "s-sales-report.2024"
    assert folder_name("a/B") == "s-a_2f_42"


@pytest.mark.parametrize("bad", ["", "x" * 199, "X" * 124, None, 7])
def test_impossible(bad: object) -> None:
    with pytest.raises(BadSessionId):
        folder_name(bad)  # type: ignore[arg-type]


def test_file_names() -> None:
    assert file_name(42) == "000000000042.parquet"
    assert start_of(file_name(42)) == 42 and start_of(file_name(10**13)) == 10**13
    arabic = "\u0661" * 12 + ".parquet"
    for other in ("000000000042.parquet.0011.tmp", "42.parquet", ".000000000042.parquet", "x", arabic):
        assert start_of(other) is None
