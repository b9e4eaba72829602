"""The pairing rules: conversations that hold, and every way to break one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from agentlab.models.pairing import check_messages


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(value: str = "x") -> dict[str, Any]:
    return {"type": "text", "text": value}


def use(call: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "t", "input": {}, **more}


def result(call: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


GOOD = [
    user(text()),
    assistant(text(), use("a"), use("b")),
    user(result("b"), result("a", is_error=True), text()),
    assistant(text()),
]


def test_good_ones_pass() -> None:
    check_messages(GOOD)
    check_messages([{"role": "user", "content": "shorthand"}], ask=True)
    check_messages([user(text()), assistant(use("a")), user(result("a", [text()]))], ask=True)
    check_messages([user(text()), assistant(use("a")), user({"type": "tool_result", "tool_use_id": "a"})])


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        ([], "messages:"),
        ([assistant(text())], "messages.0: the first"),
        ([user(text()), user(text())], "messages.1: roles"),
        ([user(text()), assistant(text()), assistant(text())], "messages.2: roles"),
        ([{"role": "system", "content": "x"}], "messages.0: role"),
        ([{"role": "user", "content": "x", "id": 1}], "messages.0: 'id'"),
        (["text"], "messages.0: a message"),
        ([user()], "messages.0: content must not be empty"),
        ([{"role": "user", "content": ""}], "messages.0.content.0: text"),
        ([{"role": "user"}], "messages.0: content must be"),
        ([user(text("  \n"))], "messages.0.content.0: text"),
        ([user({"type": "text"})], "messages.0.content.0: a text"),
        ([user({"text": "x"})], "messages.0.content.0: a block"),
        ([user({"type": "image", "data": b"x"})], "messages.0: not a JSON"),
        ([user({"type": "image", "data": float("nan")})], "messages.0: not a JSON"),
        ([user(text()), assistant(use("a"))], "messages.1: tool_use 'a' has no"),
        ([user(text()), assistant(use("a")), user(text())], "messages.2: tool_use 'a'"),
        ([user(text()), assistant(use("a"), use("b")), user(result("a"))], "messages.2: tool_use 'b'"),
        (
            [user(text()), assistant(use("a")), user(result("a"), result("a"))],
            "messages.2.content.1: tool_use 'a' has more",
        ),
        (
            [user(text()), assistant(use("a")), user(text(), result("a"))],
            "messages.2.content.1: tool_result blocks must",
        ),
        ([user(result("a"))], "messages.0.content.0: tool_result 'a' answers"),
        ([*GOOD, user(result("a"))], "messages.4.content.0: tool_result 'a' answers"),
        ([*GOOD, user(text()), assistant(use("a"))], "messages.5.content.0: tool_use ids"),
        ([user(text()), assistant(use("a"), use("a"))], "messages.1.content.1: tool_use ids"),
        ([user(use("a"))], "messages.0.content.0: tool_use belongs"),
        ([user(text()), assistant(result("a"))], "messages.1.content.0: tool_result belongs"),
        ([user(text()), assistant(use(""))], "messages.1.content.0: a tool_use needs an id"),
        ([user(text()), assistant(use("a", name=""))], "messages.1.content.0: a tool_use needs a name"),
        ([user(text()), assistant(use("a", input="{}"))], "messages.1.content.0: the input"),
        ([user(text()), assistant(use("a")), user(result("a", 3))], "messages.2.content.0: the content"),
        ([user(text()), assistant(use("a")), user(result("a", [text(" ")]))], "messages.2.content.0.content.0: text"),
        ([user(text()), assistant(use("a")), user(result("a", is_error=1))], "messages.2.content.0: is_error"),
        ([user(text()), assistant(text("so "))], "messages.1: a final"),
    ],
)
def test_each_violation_is_found_and_placed(messages: list[Any], where: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_messages(messages)
    assert str(caught.value).startswith(where)


def test_a_question_ends_with_the_user() -> None:
    with pytest.raises(ValueError, match="messages.3: the last"):
        check_messages(GOOD, ask=True)


@settings(max_examples=60, deadline=None, print_blob=True)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_losing_any_result_is_noticed(calls: list[int], data: st.DataObject) -> None:
    messages = [user(text())]
    for number, count in enumerate(calls):
        ids = [f"{number}-{i}" for i in range(count)]
        messages += [assistant(text(), *map(use, ids)), user(*map(result, ids), text())]
    check_messages(messages, ask=True)
    holders = [i for i, m in enumerate(messages) if any(b["type"] == "tool_result" for b in m["content"])]
    if holders:
        broken = copy.deepcopy(messages)
        index = data.draw(st.sampled_from(holders))
        del broken[index]["content"][0]
        note(str(broken))
        with pytest.raises(ValueError, match=f"messages.{index}"):
            check_messages(broken)
