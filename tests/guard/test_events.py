"""From the events of a log to actions and findings."""

from __future__ import annotations

from typing import Any

from agentlab.events import Draft, Event, Head, seal
from agentlab.events.event import GENESIS
from agentlab.guard import actions_from_events, findings_in


def rows(*drafts: Draft) -> tuple[Event, ...]:
    return seal(drafts, Head(0, GENESIS), session_id="s", incarnation=1, commit_id="c", now_us=0)


def asked(call_id: str, tool: str = "bash", **value: Any) -> Draft:
    return Draft("tool_requested", {"call_id": call_id, "tool": tool, "input": value, "effect": "pure"}, step=2)


def gave(call_id: str, tool: str = "bash", **payload: Any) -> Draft:
    return Draft("tool_result", {"call_id": call_id, "tool": tool, "output": "", **payload}, step=2)


def failed(call_id: str, tool: str = "bash", **payload: Any) -> Draft:
    return Draft("tool_error", {"call_id": call_id, "tool": tool, **payload}, error_type="Boom", step=2)


def test_requests_are_paired_with_their_results() -> None:
    events = rows(
        asked("a", command="ls"),
        gave("a", output={"files": ["x"]}, stdout="x"),
        asked("b", command="rm"),
        failed("b", message="denied", stderr="rm: denied"),
        gave("nobody", output="orphan"),
        asked("c", command="never answered"),
    )
    one, two = actions_from_events(events)
    assert (one.tool, one.input, one.outcome, one.result_text) == (
        "bash",
        {"command": "ls"},
        "ok",
        '{"files":["x"]}\nx',
    )
    assert (two.outcome, two.error_type, two.error_text, two.result_text) == ("error", "Boom", "denied", "rm: denied")
    assert (one.seq, two.seq, one.step) == (2, 4, 2)


def test_a_result_with_an_exit_code_is_a_failure() -> None:
    (action,) = actions_from_events(rows(asked("a", command="x"), gave("a", exitCode=2, stderr="bad")))
    assert action.outcome == "error"


def test_calls_of_one_answer_are_siblings() -> None:
    events = rows(*(asked(f"c{i}", command="ls") for i in range(8)), *(gave(f"c{i}", output="a") for i in range(8)))
    assert len({a.batch for a in actions_from_events(events)}) == 1
    assert findings_in(events) == []


def test_declared_tools_are_heeded() -> None:
    class Declared:
        stateful_read = True
        volatile = ("note",)

    drafts = [
        d for i in range(8) for d in (asked(f"c{i}", "tasks", note=str(i), a=1), gave(f"c{i}", "tasks", output="x"))
    ]
    assert findings_in(rows(*drafts)) == []
    assert [f.action for f in findings_in(rows(*drafts), tools={"tasks": Declared()})] == ["nudge", "pause"]


def test_a_reply_in_between_forgives() -> None:
    reply = Draft("user_reply", {"id": "r", "question_seq": 1, "text": "once more"})
    drafts = [d for i in range(6) for d in (asked(f"c{i}", command="ls"), gave(f"c{i}", output="a"))]
    assert [f.action for f in findings_in(rows(*drafts))] == ["nudge", "pause"]
    assert findings_in(rows(*drafts[:6], reply, *drafts[6:])) == []
