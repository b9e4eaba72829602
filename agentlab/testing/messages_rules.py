"""What the Messages API accepts, as far as a local server has to know."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentlab.models.pairing import check_messages
from agentlab.models.scripted import say
from agentlab.models.view import View
from agentlab.ports import ModelRequest


def as_request(body: Mapping[str, Any]) -> ModelRequest:
    """The body of an API request as a :class:`~agentlab.ports.ModelRequest`; facts to state make it a statement."""
    system = body.get("system") or []
    messages = [{**m, "content": _as_blocks(m["content"])} for m in body["messages"]]
    request = ModelRequest(
        system=_as_blocks(system),
        tools=body.get("tools") or [],
        messages=messages,
        max_tokens=int(body.get("max_tokens", 0)),
    )
    return replace(request, purpose="statement") if View(request).facts is not None else request


def problem_with(body: Any, headers: Mapping[str, str]) -> str | None:
    """Why the API would refuse this request with 400, or None."""
    if not isinstance(body, dict):
        return "the body must be a JSON object"
    if "anthropic-version" not in headers:
        return "anthropic-version: header is required"
    for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
        if not isinstance(body.get(name), kind) or isinstance(body.get(name), bool):
            return f"{name}: a {kind.__name__} is required"
    if body["max_tokens"] < 0:
        return "max_tokens: must not be negative"
    names = [tool.get("name") for tool in body.get("tools") or []]
    if len(set(names)) != len(names):
        return "tools: names must be unique"
    try:
        check_messages(body["messages"])
    except ValueError as error:
        return str(error)
    return None


def has_key(headers: Mapping[str, str], key: str) -> bool:
    """Whether ``key`` came, as ``x-api-key`` or, as newer clients send it, as a bearer token."""
    given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    return hmac.compare_digest(given.encode(), key.encode())


def _as_blocks(content: Any) -> Any:
    return [say(content)] if isinstance(content, str) else content
