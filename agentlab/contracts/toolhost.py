"""What every :class:`~agentlab.ports.ToolHost` keeps to. Subclass it in a test module with a fixture ``host``.

The callables are the functions of this module, referred to by :func:`ref`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from agentlab.calling import effect_key, task_params
from agentlab.events import canonical
from agentlab.ports import ToolHost, ToolInvocation, ToolOutcome


def add(left: int, right: int = 1) -> int:
    return left + right


def give(what: str) -> Any:
    return VALUES[what]()


def fail(how: str) -> None:
    raise {"value": ValueError("no such row"), "exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "mute": Mute()}[
        how
    ]


def say(text: str) -> str:
    print(text)
    print(f"to err: {text}", file=sys.stderr)
    return "said"


def change(items: list[int]) -> list[int]:
    items.append(9)
    return items


async def later(value: int) -> Mapping[str, Any]:
    await asyncio.sleep(0)
    return {"value": value, "key": effect_key()}


def context() -> list[Any]:
    return [effect_key(), dict(task_params())]


def send(to: str, idempotency_key: str | None = None) -> list[Any]:
    return [to, idempotency_key]


def verify_by_key(key: str) -> str:
    return f"completed {key}"


def verify_whole(key: str, arguments: Mapping[str, Any]) -> list[Any]:
    return [key, arguments]


def satisfied() -> bool:
    return True


def viewed(view: Mapping[str, Any]) -> Any:
    return view


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even a message")


class Broken(dict[str, Any]):
    def items(self) -> Any:
        raise OSError("the file behind it is closed")


VALUES: dict[str, Any] = {
    "none": lambda: None,
    "surrogate": lambda: "a\ud800b",
    "nan": lambda: [float("nan"), float("-inf")],
    "bytes": lambda: b"\x00\xff",
    "big": lambda: 2**63,
    "object": lambda: {"o": object},
    "keys": lambda: {1: "a", "$b": {2, 1}},
    "broken": lambda: Broken(a=1),
    "large": lambda: "x" * 10_000_000,
}
VALUES_AS_JSON = {
    "none": None,
    "surrogate": "a\ud800b",
    "nan": [{"$float": "nan"}, {"$float": "-inf"}],
    "bytes": {"$bytes": "AP8="},
    "big": 2**63,
    "object": {"o": {"$repr": "<class 'object'>"}},
    "keys": {"1": "a", "$$b": [1, 2]},
    "large": "x" * 10_000_000,
}


def ref(function: str) -> dict[str, Any]:
    """A dotted reference to a function of this module."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return {"kind": "dotted", "name": f"agentlab.contracts.toolhost:{function}", "digest": "", "sys_path": [root]}


def ask(host: ToolHost, function: str, call_id: str = "c1.1", timeout_s: float = 120.0, **rest: Any) -> ToolOutcome:
    """Call a function of this module with ``arguments``, ``key`` and ``params`` from ``rest``."""
    arguments = rest.pop("arguments", {})
    return host.call(ToolInvocation(call_id, ref(function), arguments, timeout_s=timeout_s, **rest))


class ToolHostContract:
    """One test for each sentence of the port."""

    def test_a_value(self, host: ToolHost) -> None:
        outcome = ask(host, "add", arguments={"left": 2})
        assert (outcome.ok, outcome.value, outcome.kind, outcome.sent) == (True, 3, None, True)
        assert ask(host, "add", arguments={"left": 2, "right": 5}).value == 7

    @pytest.mark.parametrize("what", sorted(VALUES_AS_JSON))
    def test_values_become_plain_json(self, host: ToolHost, what: str) -> None:
        outcome = ask(host, "give", arguments={"what": what})
        assert outcome.ok, outcome.message
        assert outcome.value == VALUES_AS_JSON[what] and type(outcome.value) is type(VALUES_AS_JSON[what])
        canonical(outcome.value)

    def test_a_value_that_can_not_be_read_is_garbage(self, host: ToolHost) -> None:
        outcome = ask(host, "give", arguments={"what": "broken"})
        assert (outcome.ok, outcome.kind, outcome.error_type, outcome.sent) == (False, "garbage", "OSError", True)

    @pytest.mark.parametrize(
        ("how", "error_type", "message"),
        [
            ("value", "ValueError", "no such row"),
            ("exit", "SystemExit", "3"),
            ("interrupt", "KeyboardInterrupt", "Key"),
        ],
    )
    def test_exceptions_are_values(self, host: ToolHost, how: str, error_type: str, message: str) -> None:
        outcome = ask(host, "fail", arguments={"how": how})
        assert (outcome.ok, outcome.kind, outcome.error_type, outcome.sent) == (False, "raised", error_type, True)
        assert outcome.message is not None and message in outcome.message
        assert outcome.traceback is not None and "in fail" in outcome.traceback
        assert "agentlab/toolhost" not in outcome.traceback
        assert ask(host, "add", arguments={"left": 1}).value == 2

    def test_an_exception_without_a_message(self, host: ToolHost) -> None:
        outcome = ask(host, "fail", arguments={"how": "mute"})
        assert (outcome.kind, outcome.error_type) == ("raised", "Mute") and outcome.message

    def test_output_is_captured(self, host: ToolHost) -> None:
        outcome = ask(host, "say", arguments={"text": "grüße \ud800"})
        assert (outcome.stdout, outcome.stderr) == ("grüße \\ud800\n", "to err: grüße \\ud800\n")
        assert ask(host, "add", arguments={"left": 1}).stdout == ""

    def test_arguments_are_the_callables_own(self, host: ToolHost) -> None:
        arguments = {"items": [1]}
        assert ask(host, "change", arguments=arguments).value == [1, 9]
        assert arguments == {"items": [1]}

    def test_async(self, host: ToolHost) -> None:
        assert ask(host, "later", arguments={"value": 4}, key="k").value == {"value": 4, "key": "k"}

    def test_the_context_of_a_call(self, host: ToolHost) -> None:
        assert ask(host, "context", key="s#7", params={"city": "Graz"}).value == ["s#7", {"city": "Graz"}]
        assert ask(host, "context").value == [None, {}]

    def test_the_key_is_passed_on(self, host: ToolHost) -> None:
        assert ask(host, "send", arguments={"to": "a"}, key="s#7").value == ["a", "s#7"]
        assert ask(host, "send", arguments={"to": "a"}).value == ["a", None]

    def test_verify_functions_get_what_they_take(self, host: ToolHost) -> None:
        arguments = {"key": "s#7", "arguments": {"to": "a"}}
        assert ask(host, "verify_by_key", "c1.1.verify", arguments=arguments, key="s#7").value == "completed s#7"
        assert ask(host, "verify_whole", "c1.1.verify", arguments=arguments, key="s#7").value == ["s#7", {"to": "a"}]

    def test_validators(self, host: ToolHost) -> None:
        assert ask(host, "satisfied", "v9.task").value is True
        assert ask(host, "viewed", "v9.task", params={"n": 1}).value == {"params": {"n": 1}}

    @pytest.mark.parametrize("arguments", [{}, {"left": 1, "middle": 2}])
    def test_wrong_arguments_are_not_sent(self, host: ToolHost, arguments: dict[str, Any]) -> None:
        outcome = ask(host, "add", arguments=arguments)
        assert (outcome.ok, outcome.kind, outcome.error_type, outcome.sent) == (False, "raised", "TypeError", False)

    def test_what_can_not_be_loaded_is_not_sent(self, host: ToolHost) -> None:
        outcome = ask(host, "nowhere")
        assert (outcome.ok, outcome.kind, outcome.sent) == (False, "raised", False)
        assert outcome.message is not None and "nowhere" in outcome.message
        assert ask(host, "add", arguments={"left": 1}).value == 2

    def test_close_twice(self, host: ToolHost) -> None:
        ask(host, "add", arguments={"left": 1})
        host.close()
        host.close()
