"""Anthropic's client over real HTTP: answers, errors, and a key that is never shown."""

from __future__ import annotations

import copy
import email.utils
import logging
import pickle
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentlab.clock import ManualClock
from agentlab.contracts.model import converse, opening, request
from agentlab.errors import AgentlabError, BadDefinition, ModelError, NoCredentials
from agentlab.models.anthropic import AnthropicModel
from agentlab.models.scripted import ScriptedReply, call, say
from agentlab.ports import Usage
from agentlab.testing import messages_faults as faults
from agentlab.testing.messages_server import MessagesServer

from .conftest import KEY

Answering = Callable[..., AnthropicModel]


def failure(model: AnthropicModel, **changes: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        model.complete(replace(request(opening()), **changes))
    return caught.value


@pytest.mark.parametrize(
    ("fault", "kind", "status", "sent"),
    [
        (faults.rate_limited(), "rate_limited", 429, False),
        (faults.overloaded(), "overloaded", 529, False),
        (faults.http_error(503, "overloaded_error"), "overloaded", 503, False),
        (faults.http_error(500), "server", 500, True),
        (faults.http_error(502), "server", 502, True),
        (faults.http_error(503), "server", 503, True),
        (faults.http_error(504), "server", 504, True),
        (faults.http_error(400), "bad_request", 400, False),
        (faults.http_error(404), "bad_request", 404, False),
        (faults.http_error(413), "bad_request", 413, False),
        (faults.http_error(401), "auth", 401, False),
        (faults.http_error(402), "auth", 402, False),
        (faults.http_error(403), "auth", 403, False),
        (faults.error_event("overloaded_error"), "overloaded", None, True),
        (faults.error_event("rate_limit_error"), "rate_limited", None, True),
        (faults.error_event("api_error", after=5), "server", None, True),
        (faults.error_event("something_new"), "server", None, True),
        (faults.cut_after(0), "connection", None, True),
        (faults.cut_after(1), "connection", None, True),
        (faults.cut_after(400), "connection", None, True),
        (faults.cut_after(400, clean=True), "connection", None, True),
        (faults.malformed_tool_json(), "malformed", None, True),
        (faults.garbage(), "malformed", None, True),
        (faults.empty(), "empty", None, True),
        (faults.refusal("no poems"), "refused", None, True),
    ],
    ids=lambda value: value.kind if isinstance(value, faults.Fault) else str(value),
)
def test_each_fault_has_its_kind(
    server: MessagesServer, claude: AnthropicModel, fault: faults.Fault, kind: str, status: int | None, sent: bool
) -> None:
    server.add(fault)
    error = failure(claude)
    assert (error.kind, error.status, error.sent) == (kind, status, sent)
    assert len(server.requests) == 1, "the client library must not retry"
    assert claude.complete(request(opening())).content, "the next call is none the worse"


def test_an_answer_cut_anywhere_is_never_taken_for_whole(server: MessagesServer, claude: AnthropicModel) -> None:
    whole = claude.complete(request(opening())).content
    cuts = [2**n for n in range(4, 11)]
    for count in cuts:
        server.add(faults.cut_after(count, clean=count % 3 == 0))
        try:
            content = claude.complete(request(opening())).content
        except ModelError as error:
            assert error.kind == "connection" and error.sent
        else:
            assert content == whole


@pytest.mark.parametrize("after", [0, 3])
def test_silence_is_a_timeout(server: MessagesServer, claude: AnthropicModel, after: int) -> None:
    server.add(faults.hang(after))
    error = failure(claude, timeout_s=0.1)
    assert (error.kind, error.sent, error.retryable) == ("timeout", True, True)


def test_a_server_that_drips_meets_the_deadline(server: MessagesServer) -> None:
    model = AnthropicModel("claude-test", KEY, server.url, clock=ManualClock(tick_us=400_000))
    error = failure(model, timeout_s=1.0)
    assert error.kind == "timeout" and "1 s" in str(error)
    model.close()


def test_slow_is_not_failed(server: MessagesServer, claude: AnthropicModel) -> None:
    server.add(faults.slow(0.001))
    assert claude.complete(request(opening())).stop_reason == "tool_use"


def test_nothing_is_sent_when_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        model = AnthropicModel("claude-test", KEY, f"http://127.0.0.1:{taken.getsockname()[1]}")
        error = failure(model)
    assert (error.kind, error.sent, error.retryable) == ("connection", False, True)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": email.utils.formatdate(1_700_000_090, usegmt=True)}, 90.0),
        ({"retry-after": email.utils.formatdate(1_600_000_000, usegmt=True)}, 0.0),
        ({}, None),
    ],
)
def test_retry_after(server: MessagesServer, headers: dict[str, str], expected: float | None) -> None:
    model = AnthropicModel("claude-test", KEY, server.url, clock=ManualClock(start_us=1_700_000_000_000_000))
    server.add(faults.http_error(429, headers=headers))
    assert failure(model).retry_after_s == expected
    model.close()


def test_a_spent_account_is_not_a_matter_of_waiting() -> None:
    from agentlab.models.failures import from_status

    details = {"error_code": "enforced_spend_limit_reached"}
    body = {"error": {"type": "rate_limit_error", "message": "m", "details": details}}
    assert not from_status(429, body, {}, 0.0).retryable


def test_everything_comes_back_as_it_was_sent(answering: Answering) -> None:
    content = [
        {"type": "thinking", "thinking": "let me see", "signature": "c2ln=="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        say("Grüße,  zwei  Leerzeichen\n🙂 "),
        {**call("add", a=2**70, b=[1.5, None, {"ä": True}]), "id": "toolu_1"},
        {**call("none"), "id": "toolu_2"},
        {"type": "block_of_the_future", "field": {"x": 1}},
    ]
    usage = Usage(11, 22, 33, 44)
    model = answering(lambda body: ScriptedReply(content, "tool_use", usage))
    pieces: list[str] = []
    reply = model.complete(request(opening()), pieces.append)
    assert reply.content == content and reply.usage == usage
    assert "".join(pieces) == content[2]["text"]
    assert reply.request_id == "req_000001" and reply.model == "claude-test" and reply.stop_reason == "tool_use"


def test_an_empty_text_block_beside_others_is_dropped(answering: Answering) -> None:
    model = answering(lambda body: ScriptedReply([say(""), {**call("add", a=1, b=1), "id": "toolu_1"}]))
    assert [block["type"] for block in model.complete(request(opening())).content] == ["tool_use"]


@pytest.mark.parametrize("content", [[say(" \n")], [{"type": "thinking", "thinking": "hm", "signature": "s"}]])
def test_an_answer_that_says_nothing_is_empty(answering: Answering, content: list[Any]) -> None:
    error = failure(answering(lambda body: ScriptedReply(content, "max_tokens")))
    assert error.kind == "empty" and "max_tokens" in str(error)


def test_a_tool_that_was_not_offered_is_passed_on(server: MessagesServer, claude: AnthropicModel) -> None:
    server.add(faults.unknown_tool("rm_rf"))
    assert claude.complete(request(opening())).content[0]["name"] == "rm_rf"


def test_what_is_sent(server: MessagesServer) -> None:
    thinking = {"type": "adaptive"}
    model = AnthropicModel("claude-test", KEY, server.url, 100, 0.2, thinking, options={"top_k": 5})
    asked = request(opening())
    model.complete(replace(asked, params={"stop_sequences": ["X"], "base_url": "no", "max_tokens": 3}))
    body = server.requests[0].body
    assert body["max_tokens"] == 100 and body["temperature"] == 0.2 and body["top_k"] == 5
    assert body["thinking"] == {"type": "adaptive"} and body["stop_sequences"] == ["X"] and "base_url" not in body
    assert body["system"] == list(asked.system) and body["tools"] == list(asked.tools) and body["stream"] is True
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert model.params() == {
        "temperature": 0.2, "thinking": {"type": "adaptive"}, "top_k": 5, "max_tokens": 100, "base_url": server.url,
    }  # fmt: skip
    model.close()


def test_what_utf8_can_not_carry_is_replaced_on_the_way_out(server: MessagesServer, claude: AnthropicModel) -> None:
    claude.complete(request([{"role": "user", "content": [say("half \ud83d pair")]}]))
    assert server.requests[0].body["messages"][0]["content"][0]["text"] == "half ? pair"


def test_a_conversation_that_does_not_pair_is_refused(server: MessagesServer, claude: AnthropicModel) -> None:
    dangling = [*opening(), {"role": "assistant", "content": [{**call("add", a=1, b=2), "id": "toolu_x"}]}, *opening()]
    error = failure(claude, messages=dangling)
    assert error.kind == "bad_request" and "messages.2" in str(error) and not error.retryable


def test_what_on_text_raises_is_passed_on(claude: AnthropicModel) -> None:
    asked = converse(claude)[-1][0]

    def broken(text: str) -> None:
        raise ConnectionError("mine")

    with pytest.raises(ConnectionError, match="mine"):
        claude.complete(asked, broken)


class TestKey:
    def test_without_one_it_says_what_to_do(self) -> None:
        model = AnthropicModel("claude-test")
        with pytest.raises(NoCredentials, match="ANTHROPIC_API_KEY"):
            model.complete(request(opening()))
        with pytest.raises(NoCredentials, match="scripted"):
            model.check_credentials()

    @pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
    def test_from_the_environment(self, server: MessagesServer, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        monkeypatch.setenv(name, KEY + "\n")
        model = AnthropicModel("claude-test", base_url=server.url)
        assert model.check_credentials() == name
        assert model.complete(request(opening())).content and server.requests[0].right_key
        model.close()

    @pytest.mark.parametrize("key", ["", " ", "schlüssel-geheim", "two words-geheim", "a\nb-geheim"])
    def test_one_that_can_not_be_one_is_refused_unseen(self, key: str) -> None:
        with pytest.raises(NoCredentials) as caught:
            AnthropicModel("claude-test", api_key=key)
        assert "geheim" not in str(caught.value)

    def test_a_wrong_one(self, server: MessagesServer) -> None:
        model = AnthropicModel("claude-test", "sk-ant-wrong-0123", server.url)
        assert failure(model).kind == "auth"
        assert not server.requests[0].right_key and "wrong" not in repr(server.requests)
        model.close()

    def test_is_in_no_text(
        self, server: MessagesServer, claude: AnthropicModel, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        for name in ("anthropic", "httpx", "httpx2", "httpcore", "httpcore2", "agentlab"):
            caplog.set_level(logging.DEBUG, logger=name)
        echoed = f"your key {KEY} is bad, Bearer {KEY}"
        server.add(
            faults.http_error(401, message=echoed),
            faults.http_error(500, message=echoed),
            faults.cut_after(300),
            faults.Fault("error_event", error_type="api_error", after=2, text=echoed),
            faults.refusal(echoed),
            faults.hang(),
        )
        texts = [repr(claude), str(claude), repr(claude.params()), repr(vars(claude)), repr(claude._secret)]
        for left in reversed(range(6)):
            error = failure(claude, timeout_s=60.0 if left else 0.1)  # the last one hangs
            assert error.__cause__ is None and error.__context__ is None
            # Frames' variables too: notebooks show them in verbose tracebacks.
            with_locals = traceback.TracebackException.from_exception(error, capture_locals=True)
            texts += ["".join(with_locals.format()), repr(vars(error)), str(error.args)]
        claude.complete(request(opening()))
        texts += [record.getMessage() + repr(vars(record)) for record in caplog.records]
        texts.append(repr(server.requests))
        assert any(record.name.startswith("anthropic") for record in caplog.records), "the log was listened to"
        assert not [text for text in texts if KEY in text]
        assert all(asked.right_key for asked in server.requests)

    def test_does_not_travel(self, claude: AnthropicModel) -> None:
        with pytest.raises(TypeError):
            pickle.dumps(claude)
        with pytest.raises(TypeError, match="does not travel"):
            copy.deepcopy(claude._secret)

    def test_is_no_parameter(self) -> None:
        with pytest.raises(BadDefinition, match="recorded"):
            AnthropicModel("claude-test", options={"api_key": "x"})

    def test_address_with_a_password_is_recorded_without(self) -> None:
        model = AnthropicModel("claude-test", KEY, "https://me:pw@host:8/v?token=x")
        assert model.params()["base_url"] == "https://host:8/v"


@pytest.mark.parametrize("module", ["scripted", "recorded", "registry", "anthropic", "pairing"])
def test_the_client_library_is_loaded_late(module: str) -> None:
    unwanted = ("anthropic", "httpx", "httpx2", "pandas")
    code = f"import sys, agentlab.models.{module}; print([m for m in {unwanted} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_server_as_a_program() -> None:
    command = [sys.executable, "-m", "agentlab.testing.messages_server", "--fault", "429:3", "--key", KEY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            model = AnthropicModel("claude-test", KEY, process.stdout.readline().strip())
            assert failure(model).retry_after_s == 3.0
            assert model.complete(request(opening())).content[0]["text"].startswith("you said")
            model.close()
        finally:
            process.kill()


def test_errors_are_agentlabs_own(claude: AnthropicModel, server: MessagesServer) -> None:
    server.stop()
    with pytest.raises(AgentlabError):
        claude.complete(request(opening()))
