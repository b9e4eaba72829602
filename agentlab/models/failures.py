"""From what a provider says or does not say to a :class:`~agentlab.errors.ModelError` with a kind."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from typing import Any

from agentlab.errors import ModelError

_BY_STATUS = {
    401: "auth",
    402: "auth",
    403: "auth",
    408: "timeout",
    409: "server",
    429: "rate_limited",
    529: "overloaded",
}
_BY_TYPE = {
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limited",
    "timeout_error": "timeout",
    "api_error": "server",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "auth",
    "invalid_request_error": "bad_request",
    "not_found_error": "bad_request",
    "request_too_large": "bad_request",
}
_SPENT_UP = frozenset(
    {"contract_spend_limit_reached", "enforced_spend_limit_reached", "linked_organization_spend_limit_reached"}
)
"""Error codes that arrive as 429 although no waiting helps: the account's limit is reached."""
_ADVICE = {"auth": "check the key, its workspace and the account's limits"}


def from_status(status: int, body: Any, headers: Mapping[str, str], now_s: float) -> ModelError:
    """The error of an HTTP response with a status of 400 or more. ``now_s`` is wall time, seconds since 1970."""
    kind = _BY_STATUS.get(status) or ("server" if status >= 500 else "bad_request")
    error = _error_object(body)
    if error.get("type") == "overloaded_error":
        kind = "overloaded"  # some gateways send it under 503
    details = error.get("details")
    if isinstance(details, Mapping) and details.get("error_code") in _SPENT_UP:
        kind = "auth"
    # A request that was turned away at the door cost nothing; of a server's accident nobody knows.
    sent = kind in ("server", "timeout")
    request_id = headers.get("request-id")
    return ModelError(
        kind,
        _message(f"HTTP {status}", error, request_id, kind),
        status=status,
        retry_after_s=retry_after_s(headers, now_s),
        sent=sent,
    )


def from_stream(body: Any, request_id: str | None) -> ModelError:
    """The error of an SSE ``error`` event: the answer had begun, so something may be spent."""
    error = _error_object(body)
    kind = _BY_TYPE.get(str(error.get("type")), "server")
    return ModelError(kind, _message("in the middle of the stream", error, request_id, kind), sent=True)


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds that the server asks to wait (``retry-after-ms``, ``retry-after`` in seconds or as a date), or None."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / scale
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    date = email.utils.parsedate_tz(headers.get("retry-after", ""))
    try:
        return None if date is None else max(0.0, float(email.utils.mktime_tz(date)) - now_s)
    except (ValueError, OverflowError):
        return None


def from_transport(error: BaseException) -> ModelError | None:
    """The error of a connection that failed, told by class names: the client library's own module has had two names.

    The chain of causes is searched, since libraries wrap; None when no transport error is in it.
    """
    chain: list[BaseException] = [error]
    while chain[-1].__cause__ is not None and len(chain) < 20:
        chain.append(chain[-1].__cause__)
    names = {cls.__name__ for link in chain for cls in type(link).__mro__}
    # Before a connection stands nothing can have been spent.
    sent = not names & {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError"}
    if names & {"TimeoutException", "APITimeoutError", "TimeoutError"}:
        doing = "waiting for the answer" if sent else "connecting"
        return ModelError("timeout", f"timed out while {doing}", sent=sent)
    if names & {"TransportError", "APIConnectionError", "StreamError", "OSError"}:
        where = "broke before the answer was complete" if sent else "could not be opened"
        why = f"{type(chain[-1]).__name__}: {str(chain[-1])[:500]}"
        return ModelError("connection", f"the connection {where} ({why})", sent=sent)
    return None


def _error_object(body: Any) -> Mapping[str, Any]:
    if isinstance(body, Mapping):
        inner = body.get("error")
        if isinstance(inner, Mapping):
            return inner
        return {"message": inner} if isinstance(inner, str) else body
    return {"message": body} if isinstance(body, str) and body.strip() else {}


def _message(where: str, error: Mapping[str, Any], request_id: str | None, kind: str) -> str:
    text = f"{where}: {error.get('type') or 'error'}: {str(error.get('message') or 'no message')[:1000]}"
    if request_id:
        text += f" (request {request_id})"
    return f"{text}; {_ADVICE[kind]}" if kind in _ADVICE else text
