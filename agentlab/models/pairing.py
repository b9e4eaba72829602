"""The Messages API's rules about what may follow what, checked strictly and offline.

Where this is stricter than the API: the API merges neighbouring messages of one role, takes a plain string as
content, and accepts ``system`` messages in the middle; a conversation that agentlab builds has none of these (but
a string is accepted here, as shorthand for one text block). Prefilling, a conversation that ends with an assistant
message, is allowed unless ``ask`` says that an answer is wanted next: newer models refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentlab.errors import PayloadError
from agentlab.events.canonical import canonical

_ASSISTANT_ONLY = frozenset({"tool_use", "thinking", "redacted_thinking"})


def check_messages(messages: Sequence[Mapping[str, Any]], *, ask: bool = False) -> None:
    """Check that ``messages`` could be sent.

    The first message is the user's, roles alternate, nothing is empty, every ``tool_use`` has a unique id and is
    answered by exactly one ``tool_result`` at the head of the very next user message, no result answers anything
    else, a closing assistant message does not end in white space, and all of it is JSON. With ``ask`` the last
    message must be the user's.

    Raises:
        ValueError: the first violation, beginning with ``messages.<index>:``.
    """
    if not messages:
        raise ValueError("messages: at least one message is required")
    used: dict[str, int] = {}
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        role = _role(index, message)
        blocks = _blocks(index, message)
        if role == "user":
            _check_user(index, blocks, open_calls)
            open_calls = []
        else:
            open_calls = _check_assistant(index, blocks, used)
    last = len(messages) - 1
    if open_calls:
        raise ValueError(f"messages.{last}: tool_use {open_calls[0]!r} has no tool_result in a next message")
    if messages[last]["role"] == "assistant":
        if ask:
            raise ValueError(f"messages.{last}: the last message must be the user's, so that the model can answer")
        _check_closing(last, _blocks(last, messages[last]))


def _role(index: int, message: Any) -> str:
    if not isinstance(message, Mapping):
        what = type(message).__name__
        raise ValueError(f"messages.{index}: a message is an object with role and content, not {what}")
    unknown = sorted(str(key) for key in message.keys() - {"role", "content"})
    if unknown:
        raise ValueError(f"messages.{index}: {unknown[0]!r} is not a field of a message")
    role = message.get("role")
    expected = "user" if index % 2 == 0 else "assistant"
    if role not in ("user", "assistant"):
        raise ValueError(f"messages.{index}: role must be user or assistant, not {role!r}")
    if role != expected:
        where = "the first message must be the user's" if index == 0 else "roles must alternate"
        raise ValueError(f"messages.{index}: {where}; expected {expected}, found {role}")
    try:
        canonical(dict(message))
    except PayloadError as error:
        raise ValueError(f"messages.{index}: {error}") from None
    return str(role)


def _blocks(index: int, message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, (list, tuple)):
        raise ValueError(f"messages.{index}: content must be a string or a list of blocks")
    if not content:
        raise ValueError(f"messages.{index}: content must not be empty")
    for position, block in enumerate(content):
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            raise ValueError(f"messages.{index}.content.{position}: a block is an object with a type")
        if block["type"] == "text":
            _check_text(f"messages.{index}.content.{position}", block)
    return content


def _check_text(where: str, block: Mapping[str, Any]) -> None:
    text = block.get("text")
    if not isinstance(text, str):
        raise ValueError(f"{where}: a text block needs text")
    if not text.strip():
        raise ValueError(f"{where}: text blocks must hold more than white space")


def _check_user(index: int, blocks: Sequence[Mapping[str, Any]], open_calls: Sequence[str]) -> None:
    answered: set[str] = set()
    heading = True
    for position, block in enumerate(blocks):
        where = f"messages.{index}.content.{position}"
        kind = block["type"]
        if kind in _ASSISTANT_ONLY:
            raise ValueError(f"{where}: {kind} belongs into an assistant message")
        if kind != "tool_result":
            heading = False
            continue
        call = block.get("tool_use_id")
        if not isinstance(call, str) or call not in open_calls:
            raise ValueError(f"{where}: tool_result {call!r} answers no tool_use of the message before")
        if call in answered:
            raise ValueError(f"{where}: tool_use {call!r} has more than one tool_result")
        if not heading:
            raise ValueError(f"{where}: tool_result blocks must come first in the message that follows tool_use")
        answered.add(call)
        _check_result(where, block)
    missing = [call for call in open_calls if call not in answered]
    if missing:
        raise ValueError(f"messages.{index}: tool_use {missing[0]!r} of the message before has no tool_result here")


def _check_result(where: str, block: Mapping[str, Any]) -> None:
    if not isinstance(block.get("is_error", False), bool):
        raise ValueError(f"{where}: is_error must be true or false")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    if not isinstance(content, (list, tuple)):
        raise ValueError(f"{where}: the content of a tool_result is a string or a list of blocks")
    for position, part in enumerate(content):
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            raise ValueError(f"{where}.content.{position}: a block is an object with a type")
        if part["type"] == "text":
            _check_text(f"{where}.content.{position}", part)


def _check_assistant(index: int, blocks: Sequence[Mapping[str, Any]], used: dict[str, int]) -> list[str]:
    calls = []
    for position, block in enumerate(blocks):
        where = f"messages.{index}.content.{position}"
        if block["type"] == "tool_result":
            raise ValueError(f"{where}: tool_result belongs into a user message")
        if block["type"] != "tool_use":
            continue
        call, name = block.get("id"), block.get("name")
        if not isinstance(call, str) or not call:
            raise ValueError(f"{where}: a tool_use needs an id")
        if call in used:
            raise ValueError(f"{where}: tool_use ids must be unique; {call!r} was used in messages.{used[call]}")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{where}: a tool_use needs a name")
        if not isinstance(block.get("input"), Mapping):
            raise ValueError(f"{where}: the input of a tool_use is an object")
        used[call] = index
        calls.append(call)
    return calls


def _check_closing(index: int, blocks: Sequence[Mapping[str, Any]]) -> None:
    closing = blocks[-1]
    if closing["type"] == "text" and closing["text"] != closing["text"].rstrip():
        raise ValueError(f"messages.{index}: a final assistant message must not end with white space")
