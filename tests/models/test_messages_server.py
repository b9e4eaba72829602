"""The local server by itself: plain answers, refusals, records."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from agentlab.contracts.model import opening, request
from agentlab.errors import ModelError
from agentlab.models.anthropic import AnthropicModel
from agentlab.models.scripted import ScriptedModel, say
from agentlab.models.view import View
from agentlab.testing import messages_faults as faults
from agentlab.testing.messages_server import MessagesServer

from .conftest import KEY

GOOD = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def post(server: MessagesServer, body: Any, path: str = "/v1/messages", **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"x_api_key": KEY, "anthropic_version": "2023-06-01", **headers}
    asked = urllib.request.Request(server.url + path, data, {k.replace("_", "-"): v for k, v in given.items() if v})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(asked, timeout=60) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_a_plain_answer(server: MessagesServer) -> None:
    status, message = post(server, GOOD)
    assert status == 200 and message["role"] == "assistant" and message["type"] == "message" and message["model"] == "m"
    assert message["content"][0]["type"] == "tool_use" and message["stop_reason"] == "tool_use"
    assert message["usage"]["output_tokens"] > 0


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"{", "JSON"),
        ([], "JSON"),
        ({**GOOD, "max_tokens": None}, "max_tokens"),
        ({**GOOD, "max_tokens": True}, "max_tokens"),
        ({**GOOD, "max_tokens": -1}, "max_tokens"),
        ({**GOOD, "model": 1}, "model"),
        ({**GOOD, "messages": []}, "messages"),
        ({**GOOD, "messages": [{"role": "assistant", "content": "x"}]}, "messages.0"),
        ({**GOOD, "tools": [{"name": "a"}, {"name": "a"}]}, "tools"),
    ],
)
def test_what_the_api_refuses(server: MessagesServer, body: Any, part: str) -> None:
    status, error = post(server, body)
    assert status == 400 and error["error"]["type"] == "invalid_request_error" and part in error["error"]["message"]


def test_other_refusals(server: MessagesServer) -> None:
    assert post(server, GOOD, anthropic_version="")[0] == 400
    assert post(server, GOOD, x_api_key="wrong")[0] == 401
    assert post(server, GOOD, path="/v2")[0] == 404
    unlimited = {"model": "m", "messages": GOOD["messages"]}
    assert post(server, unlimited, "/v1/messages/count_tokens") == (200, {"input_tokens": 5})
    assert [asked.right_key for asked in server.requests] == [True, False, True, True]
    assert KEY not in repr(server.requests)


def test_faults_strike_in_order_and_are_recorded(server: MessagesServer) -> None:
    server.add(faults.http_error(500), faults.refusal(), faults.empty())
    statuses = [post(server, GOOD)[0] for _ in range(4)]
    assert statuses == [500, 200, 200, 200]
    assert [asked.fault for asked in server.requests] == ["http_error", "refusal", "empty", None]


def test_a_model_that_fails_behind_it_fails_through_it() -> None:
    def failing(view: View) -> Any:
        raise ModelError("overloaded", "played")

    with MessagesServer(ScriptedModel(failing), key=KEY) as server:
        model = AnthropicModel("m", KEY, server.url)
        with pytest.raises(ModelError) as caught:
            model.complete(request(opening()))
        model.close()
    assert caught.value.kind == "overloaded"


def test_it_answers_from_a_function_of_the_body() -> None:
    with MessagesServer(lambda body: say(body["messages"][0]["content"] + "!"), key=KEY) as server:
        assert post(server, GOOD)[1]["content"] == [say("hi!")]
    server.stop()


@pytest.mark.parametrize(
    "text", ["429", "429:3", "500", "hang", "hang:2", "slow:0.1", "cut:9", "error_event", "refusal", "garbage"]
)
def test_faults_by_name(text: str) -> None:
    assert isinstance(faults.parse_fault(text), faults.Fault)


@pytest.mark.parametrize("text", ["", "no", "cut:x", "slow:fast"])
def test_faults_that_do_not_exist(text: str) -> None:
    with pytest.raises(ValueError, match="there are"):
        faults.parse_fault(text)
