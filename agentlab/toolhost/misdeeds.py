"""What a tool does wrong when a fault says so, in the very process that runs it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

NEVER_S = 3600.0


class InjectedError(Exception):
    """An exception that a fault asked for."""


def misbehaving(function: Callable[..., Any], wrong: Sequence[Any]) -> Callable[..., Any]:
    """``function`` as the misdeed ``(kind, number)`` makes it."""
    kind, value = str(wrong[0]), float(wrong[1])

    def instead(*args: Any, **named: Any) -> Any:
        _before(kind, value)
        given = function(*args, **named)
        return _after(kind, given)

    return instead


def _before(kind: str, value: float) -> None:
    if kind == "exception":
        raise InjectedError("the tool failed before it did anything (a fault that was asked for)")
    if kind == "http500":
        _ask_a_broken_service()
    if kind == "timeout":
        time.sleep(NEVER_S)
    if kind == "slow":
        time.sleep(value)


def _after(kind: str, given: Any) -> Any:
    if kind == "lost_reply":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "false_failure":
        raise InjectedError("the tool did its work and says that it failed (a fault that was asked for)")
    return wrong_value(kind, given)


def wrong_value(kind: str, given: Any) -> Any:
    """What a tool that did its work says instead of ``given``; the same where ``kind`` is about something else."""
    if kind == "corrupt":
        return corrupted(given)
    if kind == "empty":
        return type(given)() if isinstance(given, (str, list, dict)) else None
    return given


def corrupted(value: Any) -> Any:
    """A damaged copy of a value: texts lose their second half, numbers their digits, containers every second part."""
    if isinstance(value, bool) or value is None:
        return "\ufffd"
    if isinstance(value, (int, float)):
        return -1
    if isinstance(value, str):
        return value[: len(value) // 2] + "\ufffd"
    if isinstance(value, dict):
        return {key: corrupted(part) if index % 2 == 0 else part for index, (key, part) in enumerate(value.items())}
    if isinstance(value, (list, tuple)):
        return [corrupted(part) for part in value][: (len(value) + 1) // 2]
    return "\ufffd"


def _ask_a_broken_service() -> None:
    """Ask a service on this machine that answers 500: the error is the client's own."""
    import http.server
    import threading
    import urllib.request

    class Broken(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(500, "a fault that was asked for")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the error tells."""

    with http.server.HTTPServer(("127.0.0.1", 0), Broken) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", timeout=10):
            pass
