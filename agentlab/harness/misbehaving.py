"""A model that misbehaves when a fault says so, over a real connection: a server on this machine, the real client.

The answer is asked from the session's own model; what goes wrong happens on the wire, so that everything that reads
and judges an answer is tried, and the client library's own errors with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentlab.crashpoints import misdeed
from agentlab.ports import Model, ModelReply, ModelRequest

if TYPE_CHECKING:
    from agentlab.testing.messages_faults import Fault

SILENT_S = 0.05
"""The least time limit of a call that is to run into it."""


class Misbehaving(ABC):
    """The session's model, but for the calls that a fault is due for; how these end is the subclass's matter."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    def params(self) -> Mapping[str, Any]:
        return self._inner.params()

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """Ask the model.

        Raises:
            ModelError: no usable answer, by a fault or by itself.
        """
        wrong = misdeed("model", request.purpose, request.request_id)
        if wrong is None:
            return self._inner.complete(request, on_text)
        return self._broken(request, on_text, *wrong)

    @abstractmethod
    def _broken(
        self, request: ModelRequest, on_text: Callable[[str], None] | None, kind: str, value: float
    ) -> ModelReply:
        """What a call comes to that goes wrong in this way."""


class MisbehavingModel(Misbehaving):
    """Calls that an armed fault is due for go through a local server that breaks them."""

    def _broken(
        self, request: ModelRequest, on_text: Callable[[str], None] | None, kind: str, value: float
    ) -> ModelReply:
        # Loaded when a fault strikes and not before: the client library takes a second.
        from agentlab.models.anthropic import AnthropicModel
        from agentlab.testing.messages_server import MessagesServer

        with MessagesServer(_Same(self._inner, request)) as server:
            server.add(_on_the_wire(kind, value))
            limit = max(SILENT_S, value) if kind == "timeout" else request.timeout_s
            client = AnthropicModel(self._inner.name, api_key=server.key, base_url=server.url, timeout_s=limit)
            try:
                return client.complete(request, on_text)
            finally:
                client.close()


class _Same:
    """Answers with the inner model, asked exactly what the harness asked."""

    def __init__(self, inner: Model, request: ModelRequest) -> None:
        self._inner, self._request = inner, request
        self.name = inner.name

    def params(self) -> Mapping[str, Any]:
        return self._inner.params()

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        return self._inner.complete(self._request)


def _on_the_wire(kind: str, value: float) -> Fault:
    from agentlab.testing import messages_faults as wire

    if kind == "429":
        return wire.rate_limited(f"{value:g}")
    if kind == "timeout":
        return wire.hang()
    if kind == "cut":
        return wire.cut_after(int(value))
    plain: dict[str, Callable[[], Fault]] = {
        "500": lambda: wire.http_error(500),
        "529": wire.overloaded,
        "malformed": wire.malformed_tool_json,
        "unknown_tool": wire.unknown_tool,
        "refusal": wire.refusal,
        "empty": wire.empty,
    }
    return plain[kind]()
