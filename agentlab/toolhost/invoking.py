"""Calling one callable for the harness: which arguments it gets, and whatever comes out as one JSON record.

Shared by all hosts, so that a tool does the same in the tool host, in a sandbox and in a simulation.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from agentlab.calling import during
from agentlab.converting import converters
from agentlab.crashpoints import SimulatedDeath
from agentlab.errors import AgentlabError
from agentlab.events.canonical import plain

Role = Literal["tool", "verify", "validator"]
_VALIDATOR = re.compile(r"v\d+\.")
_HOST_FOLDERS = (os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.__file__), "asyncio"))
_MAX_TEXT = 8_000
_MAX_FRAMES = 20


def role_of(call_id: str) -> Role:
    """What a call is for, by its id: the harness names them ``c7.1``, ``c7.1.verify`` and ``v9.task``."""
    if call_id.endswith(".verify"):
        return "verify"
    return "validator" if _VALIDATOR.match(call_id) else "tool"


class Shape:
    """The parameters of a callable, looked up once."""

    __slots__ = ("converters", "known", "name", "names", "open", "positional", "required")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = str(getattr(function, "__name__", None) or type(function).__name__)
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):  # some built-in functions have none: they say themselves what is wrong
            parameters, self.known = [], False
        else:
            self.known = True
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.open = not self.known or any(p.kind is p.VAR_KEYWORD for p in parameters)
        self.names = frozenset(p.name for p in named)
        self.required = frozenset(p.name for p in named if p.default is p.empty)
        self.positional = tuple(p.name for p in named if p.kind is p.POSITIONAL_ONLY)
        self.converters = converters(function) if self.known else {}

    def fit(
        self, given: Mapping[str, Any], role: Role, key: str | None, params: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of the call.

        Verify functions and validators get of ``given`` what they have parameters for, tools all of it.

        Raises:
            TypeError: an argument is missing, unknown, or not what its annotation asks for; the callable was not begun.
        """
        arguments = dict(given)
        if role != "tool" and not self.open:
            arguments = {name: value for name, value in arguments.items() if name in self.names}
        if role == "validator" and "view" in self.names:
            arguments.setdefault("view", {"params": dict(params)})
        if "idempotency_key" in self.names and (key is not None or "idempotency_key" in self.required):
            arguments["idempotency_key"] = key
        if not self.required <= arguments.keys():
            raise TypeError(f"{self.name}() misses {', '.join(sorted(self.required - arguments.keys()))}")
        if not self.open and not arguments.keys() <= self.names:
            raise TypeError(f"{self.name}() has no parameter {', '.join(sorted(arguments.keys() - self.names))}")
        for name in self.converters.keys() & given.keys() & arguments.keys():
            try:
                arguments[name] = self.converters[name](arguments[name])
            except (TypeError, ValueError, ArithmeticError) as error:
                raise TypeError(f"{self.name}() can not use {name}={arguments[name]!r:.200}: {error}") from None
        first: list[Any] = []
        for name in self.positional:
            if name not in arguments:  # what follows it can not be given by position; Python says so
                break
            first.append(arguments.pop(name))
        return first, arguments


def perform(
    function: Callable[..., Any],
    shape: Shape,
    request: Mapping[str, Any],
    began: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Call ``function`` as ``request`` (call_id, arguments, key, params, misdeed) asks; the fields of a ToolOutcome.

    ``began`` is called when nothing but the call itself is left to do. Never raises, except SimulatedDeath, which
    is no failure of the callable.
    """
    key, params = request.get("key"), request.get("params") or {}
    try:
        first, named = shape.fit(request["arguments"], role_of(request["call_id"]), key, params)
    except TypeError as error:
        return {**failure(error), "sent": False}
    if began is not None:
        began()
    if request.get("misdeed"):
        from agentlab.toolhost.misdeeds import misbehaving

        function = misbehaving(function, request["misdeed"])
    try:
        with during(key, params):
            value = function(*first, **named)
            if hasattr(type(value), "__await__"):
                value = _awaited(value)
    except SimulatedDeath:
        raise
    except BaseException as error:  # SystemExit and KeyboardInterrupt end the call, not the host
        # An adapter that knows that nothing reached the outside says so: then there is nothing to be in doubt of.
        unsent = isinstance(error, AgentlabError) and getattr(error, "sent", True) is False
        return {**failure(error), **({"sent": False} if unsent else {})}
    try:
        return {"ok": True, "value": plain(value)}
    except SimulatedDeath:
        raise
    except BaseException as error:
        return {**failure(error, f"the value of {shape.name} can not be read as JSON: "), "kind": "garbage"}


def _awaited(value: Any) -> Any:
    import asyncio

    async def whole() -> Any:
        return await value

    return asyncio.run(whole())


def failure(error: BaseException, before: str = "") -> dict[str, Any]:
    """An exception as the fields of a ToolOutcome, its traceback without the frames of the host."""
    try:
        said = str(error)
    except Exception as second:
        said = f"<str() of it failed: {type(second).__name__}>"
    return {
        "ok": False,
        "kind": "raised",
        "error_type": type(error).__name__,
        "message": (before + said)[:_MAX_TEXT] or type(error).__name__,
        "traceback": _traceback(error),
    }


def _traceback(error: BaseException) -> str | None:
    import traceback

    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_HOST_FOLDERS):
        frames = frames.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, frames, limit=-_MAX_FRAMES))
    except Exception:
        return None
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT // 4] + "\n[...]\n" + text[-_MAX_TEXT * 3 // 4 :]
