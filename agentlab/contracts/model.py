"""What every :class:`~agentlab.ports.Model` keeps to. Subclass it in a test module and give it the fixture ``model``.

The model under test is asked the questions of one small conversation, :func:`opening` and what follows from its
answers through :func:`answered`; :func:`policy` answers them, for models that need to be told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentlab.events.canonical import canonical
from agentlab.models.digest import request_parts
from agentlab.models.pairing import check_messages
from agentlab.models.scripted import call, say
from agentlab.models.view import STATEMENT_KEYS, View
from agentlab.ports import Model, ModelReply, ModelRequest, Purpose

TOOLS = (
    {
        "name": "add",
        "description": "Add two integers.",
        "input_schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
)
FACTS: dict[str, Any] = {"completed_steps": ["s1", "s2"], "next_step": "s3", "effects_done": ["k-1"]}
MOST_ROUNDS = 8


def request(messages: Sequence[Any], purpose: Purpose = "act") -> ModelRequest:
    """One question of the conversation."""
    system = [{"type": "text", "text": "You add numbers with the tool.", "cache_control": {"type": "ephemeral"}}]
    return ModelRequest(system=system, tools=TOOLS, messages=list(messages), max_tokens=500, purpose=purpose)


def opening() -> list[Any]:
    """The first message."""
    return [{"role": "user", "content": [say("<goal>Add 2 and 3, then 4 to that, and say the sum.</goal>")]}]


def answered(messages: Sequence[Any], reply: ModelReply) -> list[Any]:
    """The conversation after ``reply``, with the result of every call in it."""
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": str(sum(block["input"].values()))}
        for block in reply.content
        if block["type"] == "tool_use"
    ]
    out = [*messages, {"role": "assistant", "content": list(reply.content)}]
    return [*out, {"role": "user", "content": results}] if results else out


def statement_request() -> ModelRequest:
    """The question where the work is, with the facts to answer it by."""
    text = f"Say where you are.\n<facts>\n```json\n{json.dumps(FACTS)}\n```\n</facts>"
    return request([{"role": "user", "content": [say(text)]}], purpose="statement")


def policy(view: View) -> Any:
    """Adds as the goal says, with a word before the last sum."""
    done = view.results("add")
    if not done:
        return call("add", a=2, b=3)
    if len(done) == 1:
        return [say("Now the second sum."), call("add", a=int(done[0].result), b=4)]
    return say(f"The sum is {done[1].result}.")


def converse(model: Model) -> list[tuple[ModelRequest, ModelReply]]:
    """The whole conversation, until the model calls no tool."""
    out: list[tuple[ModelRequest, ModelReply]] = []
    messages = opening()
    while len(out) < MOST_ROUNDS:
        asked = request(messages)
        reply = model.complete(asked)
        out.append((asked, reply))
        messages = answered(messages, reply)
        if reply.stop_reason != "tool_use":
            break
    return out


class ModelContract:
    """The tests. A subclass gives the fixture ``model``."""

    def test_says_what_it_is(self, model: Model) -> None:
        assert model.name and isinstance(model.name, str)
        canonical(dict(model.params()))
        assert not any("key" in name.lower() for name in model.params())

    def test_a_conversation_pairs_at_every_point(self, model: Model) -> None:
        rounds = converse(model)
        assert len(rounds) < MOST_ROUNDS and rounds[-1][1].stop_reason == "end_turn"
        for asked, reply in rounds:
            check_messages(asked.messages, ask=True)
            check_messages(answered(asked.messages, reply))

    def test_stop_reason_tells_of_calls(self, model: Model) -> None:
        for _, reply in converse(model):
            calls = any(block["type"] == "tool_use" for block in reply.content)
            assert (reply.stop_reason == "tool_use") is calls

    def test_content_is_plain_json_and_not_empty(self, model: Model) -> None:
        for _, reply in converse(model):
            assert reply.content and all(type(block) is dict for block in reply.content)
            canonical([dict(block) for block in reply.content])

    def test_usage_is_counted(self, model: Model) -> None:
        for _, reply in converse(model):
            usage = reply.usage
            counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
            assert all(type(n) is int and n >= 0 for n in counts)
            assert usage.output_tokens > 0 and usage.input_tokens + usage.cache_read_tokens > 0

    def test_streamed_text_is_the_text(self, model: Model) -> None:
        for asked, _ in converse(model):
            pieces: list[str] = []
            reply = model.complete(asked, pieces.append)
            texts = [block["text"] for block in reply.content if block["type"] == "text"]
            assert "".join(pieces) == "".join(texts)

    def test_a_question_is_not_changed_by_asking(self, model: Model) -> None:
        asked = request(opening())
        before = canonical(request_parts(asked))
        model.complete(asked)
        assert canonical(request_parts(asked)) == before

    def test_a_question_may_be_asked_again(self, model: Model) -> None:
        asked = request(opening())
        first, second = model.complete(asked), model.complete(asked)
        assert first.content and second.content

    def test_a_statement_has_exactly_its_keys(self, model: Model) -> None:
        reply = model.complete(statement_request())
        assert [block["type"] for block in reply.content] == ["text"]
        stated = json.loads(reply.content[0]["text"])
        assert set(stated) == set(STATEMENT_KEYS)
        assert stated == FACTS
