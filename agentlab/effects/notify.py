"""Notifications over HTTP: one POST with an Idempotency-Key, and the look-up that tells whether it was executed.

Stdlib only: this runs in the tool host, whose start is part of every recovery.
"""

from __future__ import annotations

import http.client
import json
import string
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from agentlab.calling import task_params
from agentlab.effects import outbox
from agentlab.effects.outside import OutsideError, completed, key_or_current, not_done, unknown

TIMEOUT_S = 30.0
LARGEST_REPLY = 1 << 20
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PLAIN = "".join(c for c in string.printable if c.isprintable() and c not in "% ")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A followed redirect turns a POST into a GET: the reply would look good and nothing would have been executed."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def header_key(key: str) -> str:
    """``key`` as a header can carry it: printable ASCII stays, everything else (and ``%``) is percent-encoded."""
    return urllib.parse.quote(key, safe=_PLAIN)


def post(url: str, body: dict[str, Any], key: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """POST ``body`` as JSON with ``key`` as Idempotency-Key (none is sent for an empty key).

    Returns ``{"status", "replayed", "body"}``. ``timeout_s`` (seconds) bounds each wait on the socket. Raises
    OutsideError for anything but a 2xx reply with a JSON object: executed or not is then for verify to find out,
    unless its ``sent`` is False.
    """
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = header_key(key)
    status, replied, reply = exchange("POST", url, json.dumps(body).encode(), headers, timeout_s)
    if not 200 <= status < 300:
        raise OutsideError(f"POST {url} was answered with {status}: {_said(reply)}", status=status)
    if not isinstance(reply, dict):
        raise OutsideError(f"POST {url} was answered with {status}, but not with a JSON object", status=status)
    return {"status": status, "replayed": replied.get("Idempotent-Replay", "").lower() == "true", "body": reply}


def look_up(url: str, key: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any] | None:
    """The receiver's record of ``key``, None when it says that it has none.

    ``url`` is the receiver's base address. Raises OutsideError when the receiver can not be asked or can not tell.
    """
    address = f"{url.rstrip('/')}/effects/{urllib.parse.quote(header_key(key), safe='')}"
    status, _, reply = exchange("GET", address, None, {}, timeout_s)
    if status == 200 and isinstance(reply, dict):
        return reply
    # A wrong address answers 404 as well; only the receiver's own words count as "not executed".
    if status == 404 and isinstance(reply, dict) and reply.get("known") is False:
        return None
    raise OutsideError(f"GET {address} was answered with {status}: {_said(reply)}", status=status)


def exchange(
    method: str, url: str, data: bytes | None, headers: dict[str, str], timeout_s: float
) -> tuple[int, Any, Any]:
    """One request: status, reply headers, and the reply's JSON (its text when it is none).

    ``timeout_s`` (seconds) bounds each wait on the socket. Raises OutsideError when no whole reply came.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OutsideError(f"not an http address: {url!r}", sent=False)
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if parts.hostname in _LOOPBACK:
        handlers.append(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        try:
            reply = urllib.request.build_opener(*handlers).open(request, timeout=timeout_s)
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            status, replied, raw = reply.status, reply.headers, reply.read(LARGEST_REPLY)
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        refused = isinstance(cause, ConnectionRefusedError)
        told = f"{type(cause).__name__}: {cause}" if isinstance(cause, BaseException) else str(cause)
        raise OutsideError(f"{method} {url}: no reply ({told})", sent=not refused) from error
    try:
        return status, replied, json.loads(raw)
    except ValueError:
        return status, replied, raw.decode("utf-8", "replace")


def notify_region_report(message: str, idempotency_key: str = "") -> dict[str, Any]:
    """Send one notification that the report by region is ready.

    Posts to the task's parameter ``receiver_url``; a ``file:`` URL is the lab's outbox. Returns the receiver's answer,
    the same for every retry with the same key. Raises OutsideError when there is no receiver_url or no good reply.
    """
    key = key_or_current(idempotency_key)
    url = _receiver_url()
    if url.startswith(outbox.SCHEME):
        return outbox.deliver(url, {"message": message}, key)
    reply = post(f"{url}/notify", {"message": message}, key)
    answer: dict[str, Any] = reply["body"]
    return answer


def verify_notification(key: str) -> dict[str, Any]:
    """Whether the notification with ``key`` was executed, by the receiver's own ledger.

    Raises OutsideError when there is no receiver_url; a receiver that can not be asked is an *unknown*.
    """
    url = _receiver_url()
    try:
        record = outbox.find(url, key) if url.startswith(outbox.SCHEME) else look_up(url, key)
    except OutsideError as error:
        return unknown(str(error))
    if record is None:
        return not_done(f"the receiver at {url} has no effect {key}")
    return completed(record.get("response"), f"the receiver's ledger line {record.get('n')} has {key}")


def _receiver_url() -> str:
    url = task_params().get("receiver_url")
    if not url:
        raise OutsideError(
            "the task has no parameter receiver_url, so there is nobody to notify: start a receiver with "
            "`python -m agentlab.effects.receiver --ledger ledger.jsonl` and pass the url it prints as receiver_url",
            sent=False,
        )
    return str(url).rstrip("/")


def _said(reply: Any) -> str:
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return text if len(text) <= 300 else text[:300] + " …"
