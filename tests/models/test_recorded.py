"""Replay of recorded answers, from pairs and from a session's log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentlab.contracts.model import converse, opening, policy, request
from agentlab.errors import ModelError
from agentlab.events.canonical import canonical
from agentlab.events.event import GENESIS, Draft, Event, Head, seal
from agentlab.events.spill import spill
from agentlab.models.digest import request_digest
from agentlab.models.recorded import Recorded, RecordedModel, recorded_replies
from agentlab.models.scripted import ScriptedModel, ScriptedReply, say
from agentlab.ports import ModelReply, ModelRequest, Usage


def log_of(rounds: list[tuple[ModelRequest, ModelReply]], blobs: dict[str, bytes], limit: int = 1 << 16) -> list[Event]:
    def put(data: bytes) -> str:
        digest = f"{len(blobs):064x}"
        blobs[digest] = data
        return digest

    drafts = []
    for index, (asked, reply) in enumerate(rounds):
        layers: dict[str, Any] = {}
        for attempt in (f"r{index}-cut", f"r{index}"):  # every call was cut once and asked again
            payload = {"request_id": attempt, "purpose": asked.purpose, "layers": layers, "tokens_estimate": 1}
            drafts.append(Draft("model_request", {**payload, "digest": request_digest(asked)}))
        answer = {"request_id": f"r{index}", "purpose": asked.purpose, "content": list(reply.content)}
        drafts.append(
            Draft(
                "model_response",
                spill({**answer, "stop_reason": reply.stop_reason, "served_by": reply.model}, put, limit),
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
                cache_read_tokens=reply.usage.cache_read_tokens,
                cache_write_tokens=reply.usage.cache_write_tokens,
            )
        )
    return list(seal(drafts, Head(0, GENESIS), session_id="s", incarnation=1, commit_id="c", now_us=1))


def test_a_log_replays_to_the_same_answers() -> None:
    rounds = converse(ScriptedModel(policy))
    model = RecordedModel.from_events(log_of(rounds, {}), lambda digest: b"")
    assert [replace(reply, request_id=None) for _, reply in rounds] == [reply for _, reply in converse(model)]


def test_content_that_was_spilled_comes_back() -> None:
    blobs: dict[str, bytes] = {}
    long = ScriptedModel(lambda view: say("long " * 20_000))
    rounds = converse(long)
    events = log_of(rounds, blobs)
    assert blobs and "$blob" in canonical(events[-1].payload)
    assert recorded_replies(events, blobs.__getitem__)[0].reply.content == rounds[0][1].content


def test_a_killed_replay_goes_on_where_it_was() -> None:
    rounds = converse(ScriptedModel(policy))
    fresh = RecordedModel((request_digest(asked), reply) for asked, reply in rounds)
    assert fresh.complete(rounds[-1][0]) == rounds[-1][1]


def test_equal_questions_get_their_answers_in_order_and_the_last_again() -> None:
    asked = request(opening())
    replies = [ModelReply([say(str(n))], "end_turn", Usage(), "m") for n in range(2)]
    model = RecordedModel([(request_digest(asked), reply) for reply in replies])
    assert [model.complete(asked).content[0]["text"] for _ in range(3)] == ["0", "1", "1"]


class TestDifference:
    def recorded(self, *, with_request: bool) -> RecordedModel:
        rounds = converse(ScriptedModel(policy))
        return RecordedModel(
            Recorded(request_digest(asked), reply, asked.purpose, asked if with_request else None)
            for asked, reply in rounds
        )

    def message(self, model: RecordedModel, asked: ModelRequest) -> str:
        with pytest.raises(ModelError) as caught:
            model.complete(asked)
        assert (caught.value.kind, caught.value.sent, caught.value.retryable) == ("bad_request", False, False)
        return str(caught.value)

    def test_says_what_differs(self) -> None:
        goal = "<goal>Add 2 and 3, then 5 to that, and say the sum.</goal>"
        asked = replace(request([{"role": "user", "content": [say(goal)]}]), max_tokens=7)
        text = self.message(self.recorded(with_request=True), asked)
        assert "max_tokens: recorded 500, asked 7" in text
        assert "messages.0.content.0.text" in text and "then 4" in text and "then 5" in text
        assert len(text) < 1200

    def test_is_short_however_much_differs(self) -> None:
        asked = ModelRequest([], [], [{"role": "user", "content": "x" * 10_000, **{str(n): n for n in range(50)}}])
        text = self.message(self.recorded(with_request=True), asked)
        assert "more" in text and len(text) < 2000

    def test_from_a_log_it_says_what_it_knows(self) -> None:
        text = self.message(self.recorded(with_request=False), request(opening(), purpose="judge"))
        assert "purpose: recorded act, asked judge" in text and "1 messages" in text

    def test_after_the_end(self) -> None:
        assert "ends after 0" in self.message(RecordedModel([]), request(opening()))

    def test_falls_through_when_told_so(self) -> None:
        live = ScriptedModel(lambda view: ScriptedReply([say("live")]))
        model = RecordedModel([], "live", live)
        assert model.complete(request(opening())).content == [say("live")]
        with pytest.raises(ValueError, match="live model"):
            RecordedModel([], "live")
        with pytest.raises(ValueError, match="on_difference"):
            RecordedModel([], "other")  # type: ignore[arg-type]
