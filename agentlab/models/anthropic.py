"""Claude through Anthropic's own client library, which is loaded at the first call and not before.

The library's retries are off: agentlab retries, within the budget and with each attempt in the log. Errors are
raised outside every ``except``, so that neither their context nor their frames hold the library's request objects,
which carry the key.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from agentlab.clock import Clock, SystemClock
from agentlab.errors import AgentlabError, BadDefinition, ModelError, NoCredentials
from agentlab.models.assembly import Assembly
from agentlab.models.failures import from_status, from_stream, from_transport
from agentlab.models.secrets import Secret, mask
from agentlab.ports import ModelReply, ModelRequest

_MISSING = (
    "no key for Anthropic's models: set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) in the environment before the lab"
    " starts, or run on a scripted model, which needs none"
)
_OWN = frozenset({"model", "messages", "system", "tools", "stream", "max_tokens", "base_url", "timeout_s", "latency_s"})
"""Parameters that belong to the model or the request itself and are never sent as options."""


class AnthropicModel:
    """A model of Anthropic's Messages API as a :class:`~agentlab.ports.Model`.

    The key is ``api_key``, else ``ANTHROPIC_API_KEY``, else ``ANTHROPIC_AUTH_TOKEN``, else a profile that the client
    library finds on this machine. ``base_url`` defaults to ``ANTHROPIC_BASE_URL`` or Anthropic's own. ``max_tokens``
    is an upper limit over what a request asks for. ``timeout_s`` (seconds) is an upper limit for one whole answer.
    ``options`` are further fields of the API's request (``top_p``, ``tool_choice``, ``output_config`` …).

    Raises:
        BadDefinition: an option that looks like a key; options are recorded, keys must not be.
        NoCredentials: a key given as ``api_key`` that can not be one.
    """

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        thinking: Mapping[str, Any] | None = None,
        timeout_s: float = 600.0,
        options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._model = model
        self._given = Secret(api_key, "the argument api_key") if api_key is not None else None
        self._base_url = base_url
        self._max_tokens = max_tokens
        self._timeout_s = timeout_s
        self._options: dict[str, Any] = dict(options or {})
        for name in self._options:
            if any(word in name.lower() for word in ("api_key", "apikey", "auth", "secret", "password")):
                raise BadDefinition(
                    f"{name!r} can not be a model parameter, for parameters are recorded; set ANTHROPIC_API_KEY instead"
                )
        if temperature is not None:
            self._options["temperature"] = temperature
        if thinking is not None:
            self._options["thinking"] = dict(thinking)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._client: Any = None
        self._secret = self._given

    def __repr__(self) -> str:
        return f"AnthropicModel({self._model!r})"

    @property
    def name(self) -> str:
        """``anthropic:MODEL``."""
        return "anthropic:" + self._model

    def params(self) -> Mapping[str, Any]:
        """Options, ``max_tokens`` and a ``base_url`` that was given (without user name, password and query)."""
        out = dict(self._options)
        if self._max_tokens is not None:
            out["max_tokens"] = self._max_tokens
        if self._base_url is not None:
            out["base_url"] = _bare(self._base_url)
        return out

    def check_credentials(self) -> str:
        """Where the key comes from: ``argument``, the name of an environment variable, or ``profile``.

        Loads the client library only when there is no key in the argument or the environment. Sends nothing.

        Raises:
            NoCredentials: there is none, or it can not be one.
        """
        source, secret = self._find_key()
        if secret is None:
            self._connected()
        return source

    def close(self) -> None:
        """Give back connections. The model can be used again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """Ask once, streaming; ``on_text`` gets text as it comes, and what it raises is passed on.

        Raises:
            ModelError: no usable answer; ``sent`` is False when surely nothing was spent.
            NoCredentials: there is no key.
        """
        outcome = self._attempt(request, on_text)
        if isinstance(outcome, AgentlabError):
            raise outcome
        return outcome

    def _attempt(self, request: ModelRequest, on_text: Callable[[str], None] | None) -> ModelReply | AgentlabError:
        timeout_s = min(request.timeout_s, self._timeout_s)
        deadline = self._clock.monotonic() + timeout_s
        try:
            stream = self._connected().messages.create(**self._arguments(request, timeout_s))
        except Exception as error:
            return self._failed(error, opened=False)
        try:
            return self._read(stream, deadline, timeout_s, on_text)
        except ModelError as error:
            return self._clean(error)
        finally:
            stream.close()

    def _read(
        self, stream: Any, deadline: float, timeout_s: float, on_text: Callable[[str], None] | None
    ) -> ModelReply | AgentlabError:
        request_id = stream.response.headers.get("request-id")
        assembly = Assembly(on_text)
        events = _raw_events(stream)
        while not assembly.done:
            # Only this line runs the library's code; on_text must not be mistaken for it.
            try:
                sse = next(events, None)
                event = {} if sse is None else _parsed(sse)
            except Exception as error:
                return self._failed(error, opened=True)
            if sse is None:
                return ModelError("connection", "the stream ended before the answer was complete", sent=True)
            if event.get("type") == "error":
                return self._clean(from_stream(event, request_id))
            assembly.feed(event)
            if not assembly.done and self._clock.monotonic() > deadline:
                return ModelError("timeout", f"no complete answer within {timeout_s:g} s", sent=True)
        return assembly.reply(request_id, self._model)

    def _arguments(self, request: ModelRequest, timeout_s: float) -> dict[str, Any]:
        limit = request.max_tokens if self._max_tokens is None else min(request.max_tokens, self._max_tokens)
        out: dict[str, Any] = {
            "model": self._model,
            "max_tokens": limit,
            "messages": _sendable(request.messages),
            "stream": True,
            "timeout": timeout_s,
        }
        if request.system:
            out["system"] = _sendable(request.system)
        if request.tools:
            out["tools"] = _sendable(request.tools)
        # In the body rather than as arguments: the library's signature lost temperature, top_p and top_k, while
        # older models still take them.
        merged = {**self._options, **request.params}
        out["extra_body"] = {k: v for k, v in merged.items() if k not in _OWN and v is not None}
        return out

    def _find_key(self) -> tuple[str, Secret | None]:
        if self._given is not None:
            return "argument", self._given
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
            text = os.environ.get(name, "")
            if text.strip():
                return name, Secret(text, name)
        return "profile", None

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> Any:
        source, self._secret = self._find_key()
        try:
            import anthropic
        except ImportError:
            raise NoCredentials(
                "the package anthropic is not installed: pip install anthropic, or run on a scripted model"
            ) from None
        options: dict[str, Any] = {"max_retries": 0, "timeout": self._timeout_s}
        if self._base_url is not None:
            options["base_url"] = self._base_url
        if self._secret is not None:
            options["auth_token" if source == "ANTHROPIC_AUTH_TOKEN" else "api_key"] = self._secret.reveal()
            return anthropic.Anthropic(**options)
        problem, client = "", None
        try:
            client = anthropic.Anthropic(**options)
        except anthropic.AnthropicError as error:
            problem = f" (the profile on this machine can not be used: {error})"
        if client is None or client.credentials is None:
            raise NoCredentials(mask(_MISSING + problem, None))
        return client

    def _failed(self, error: Exception, *, opened: bool) -> AgentlabError:
        """``error`` as one of ours; nothing of the original object is kept."""
        if isinstance(error, AgentlabError):
            return self._clean(error)
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            body, response = getattr(error, "body", None), getattr(error, "response", None)
            headers = {str(k).lower(): str(v) for k, v in getattr(response, "headers", {}).items()}
            return self._clean(from_status(status, body or str(error), headers, self._clock.now_us() / 1e6))
        found = from_transport(error)
        if found is None and type(error).__name__ in ("CredentialsError", "IdentityTokenFileError"):
            return NoCredentials(mask(f"{_MISSING} ({error})", self._secret))
        if found is None:
            kind = "malformed" if opened else "bad_request"
            found = ModelError(kind, f"{type(error).__name__}: {str(error)[:500]}", sent=opened)
        return self._clean(found)

    def _clean(self, error: AgentlabError) -> AgentlabError:
        error.args = tuple(mask(arg, self._secret) if isinstance(arg, str) else arg for arg in error.args)
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)


def _sendable(items: Sequence[Mapping[str, Any]]) -> list[Any]:
    # Text that UTF-8 can not carry (half a surrogate pair in a tool's output) is kept exact in the log; it must not
    # make every further request of the session fail.
    text = json.dumps([dict(item) for item in items], ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    out: list[Any] = json.loads(text)
    return out


def _raw_events(stream: Any) -> Iterator[Any]:
    # The raw events, pings included: a server that only pings must still meet the deadline, and what a block holds
    # beyond the library's types must not be lost.
    return iter(type(stream).raw_events(stream.response))


def _parsed(sse: Any) -> dict[str, Any]:
    if not sse.data:
        return {"type": sse.event}
    value = json.loads(sse.data)
    if not isinstance(value, dict):
        raise ValueError(f"a stream event that is no JSON object: {str(sse.data)[:100]}")
    return {**value, "type": value.get("type") or sse.event}


def _bare(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
