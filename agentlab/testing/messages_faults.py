"""What :class:`~agentlab.testing.messages_server.MessagesServer` can do wrong, one value per misbehaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Fault:
    """One misbehaviour. ``after`` counts bytes or events of the body, ``delay_s`` is seconds between events."""

    kind: str
    status: int = 200
    error_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    after: int = 0
    delay_s: float = 0.0
    clean: bool = False
    text: str = ""


def http_error(
    status: int, error_type: str | None = None, headers: Mapping[str, str] | None = None, message: str = ""
) -> Fault:
    """Answer with ``status`` and the API's error object; the type follows from the status unless given."""
    return Fault(
        "http_error",
        status,
        error_type or ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error"),
        dict(headers or {}),
        text=message or "a fault that was asked for",
    )


def rate_limited(retry_after: str | float | None = None) -> Fault:
    """429, with ``retry-after`` in seconds or as an HTTP date if given."""
    return http_error(429, headers={} if retry_after is None else {"retry-after": str(retry_after)})


def overloaded() -> Fault:
    """529 with ``overloaded_error``."""
    return http_error(529)


def hang(after: int = 0) -> Fault:
    """Go silent after ``after`` events of the stream (0: before any header), until the server is stopped."""
    return Fault("hang", after=after)


def slow(delay_s: float) -> Fault:
    """Wait ``delay_s`` seconds before each event."""
    return Fault("slow", delay_s=delay_s)


def cut_after(count: int, *, clean: bool = False) -> Fault:
    """Close the connection after ``count`` bytes of the body; ``clean`` ends the body as if it were complete."""
    return Fault("cut", after=count, clean=clean)


def malformed_tool_json() -> Fault:
    """A tool call whose streamed input stops in the middle."""
    return Fault("malformed_tool_json")


def empty() -> Fault:
    """An answer without content."""
    return Fault("empty")


def refusal(explanation: str = "asked for") -> Fault:
    """An answer that stops with ``refusal``."""
    return Fault("refusal", text=explanation)


def error_event(error_type: str = "overloaded_error", after: int = 2) -> Fault:
    """An SSE ``error`` event after ``after`` events of an answer that began well."""
    return Fault("error_event", error_type=error_type, after=after, text="a fault that was asked for")


def unknown_tool(name: str = "no_such_tool") -> Fault:
    """A well-formed call of a tool that was never offered."""
    return Fault("unknown_tool", text=name)


def garbage() -> Fault:
    """A stream event that is not JSON."""
    return Fault("garbage", after=1)


def parse_fault(text: str) -> Fault:
    """A fault from ``name`` or ``name:number``, as the command line takes it (``429:3``, ``cut:200``, ``slow:0.1``).

    Raises:
        ValueError: an unknown name or number; the message lists the names.
    """
    name, _, value = text.partition(":")
    try:
        if name == "429":
            return rate_limited(value or None)
        if name.isdigit():
            return http_error(int(name))
        if name == "hang":
            return hang(int(value or 0))
        if name == "slow":
            return slow(float(value or 0.05))
        if name == "cut":
            return cut_after(int(value or 200))
        if name == "error_event":
            return error_event(value or "overloaded_error")
        plain = {
            "malformed_tool_json": malformed_tool_json,
            "empty": empty,
            "refusal": refusal,
            "unknown_tool": unknown_tool,
            "garbage": garbage,
        }
        return plain[name]()
    except (KeyError, ValueError):
        raise ValueError(
            f"no fault {text!r}; there are: an HTTP status, 429:SECONDS, hang[:EVENTS], slow[:SECONDS], cut[:BYTES],"
            " error_event[:TYPE], malformed_tool_json, empty, refusal, unknown_tool, garbage"
        ) from None
