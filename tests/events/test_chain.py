from dataclasses import replace

import pytest

from agentlab.errors import LogCorrupt
from agentlab.events import GENESIS, KINDS, Draft, Head, seal, verify_chain

START = Head(0, GENESIS)


def rows(n=3):
    drafts = [Draft("note_added", {"id": f"n{i}", "text": "x"}, duration_ms=i) for i in range(n)]
    return seal(drafts, START, session_id="s", incarnation=1, commit_id="k", now_us=5)


def test_rows_of_one_commit_chain_and_share_its_id():
    events = rows()
    assert [e.seq for e in events] == [1, 2, 3]
    assert {e.commit_id for e in events} == {"k"}
    assert verify_chain(events, START) == Head(3, events[-1].hash)


@pytest.mark.parametrize(
    "change",
    [
        {"ts": 6}, {"type": "user_reply"}, {"payload_text": "{}"}, {"duration_ms": 1.5}, {"incarnation": 2},
        {"tool_name": "t"}, {"cost_microusd": 1}, {"commit_id": "other"}, {"step": 1}, {"session_id": "t"},
    ],
    ids=str,
)  # fmt: skip
def test_any_changed_column_is_noticed(change):
    events = list(rows())
    events[1] = replace(events[1], **change)
    with pytest.raises(LogCorrupt, match="event 2"):
        verify_chain(events, START)


def test_a_missing_row_is_noticed():
    first, _, third = rows()
    with pytest.raises(LogCorrupt, match="event 2 is missing"):
        verify_chain([first, third], START)


def test_values_can_not_move_between_columns():
    a = seal(
        [Draft("note_added", {"id": "1", "text": ""}, tool_name="ab")],
        START,
        session_id="s",
        incarnation=1,
        commit_id="k",
        now_us=1,
    )
    b = seal(
        [Draft("note_added", {"id": "1", "text": ""}, error_type="ab")],
        START,
        session_id="s",
        incarnation=1,
        commit_id="k",
        now_us=1,
    )
    assert a[0].hash != b[0].hash


def test_a_kind_refuses_a_payload_without_its_fields():
    with pytest.raises(ValueError, match="text"):
        seal([Draft("note_added", {"id": "1"})], START, session_id="s", incarnation=1, commit_id="k", now_us=1)
    with pytest.raises(ValueError, match="unknown event kind"):
        seal([Draft("nonsense", {})], START, session_id="s", incarnation=1, commit_id="k", now_us=1)


def test_every_kind_has_one_class_and_says_what_it_means():
    assert {kind.cls for kind in KINDS.values()} == {"opening", "fact", "intent", "input"}
    assert all(kind.meaning for kind in KINDS.values())
    assert all("id" in kind.required for kind in KINDS.values() if kind.cls == "input")


def test_the_json_of_an_event_begins_with_the_published_names():
    event = seal(
        [Draft("tool_result", {"call_id": "c", "tool": "t", "output": 1, "exitCode": 0}, tool_name="t", input_hash="sha256:00")],
        START, session_id="s", incarnation=1, commit_id="k", now_us=1_700_000_000_123_456,
    )[0]  # fmt: skip
    data = event.to_json()
    assert list(data)[:8] == ["sessionId", "seq", "ts", "type", "toolName", "inputHash", "payload", "error"]
    assert data["ts"] == "2023-11-14T22:13:20.123456Z"
