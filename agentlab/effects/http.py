"""An HTTP outside as an external effect: one that honours Idempotency-Key, and one that honours no keys."""

from __future__ import annotations

import urllib.parse
from typing import Any

from agentlab.effects.notify import TIMEOUT_S, exchange, header_key, post
from agentlab.effects.outside import Effect, OutsideError, completed, key_or_current, not_done, unknown


def post_with_key(
    url: str, look_up_url: str, *, result_field: str | None = None, timeout_s: float = TIMEOUT_S
) -> Effect:
    """An effect that POSTs a JSON object to ``url`` with the key as Idempotency-Key; declare it ``honours_key=True``.

    ``look_up_url`` holds ``{key}`` and answers 200 with the record of an executed key and 404 for an unknown one; of
    the record, ``result_field`` is what the POST answered (None: all of it). ``timeout_s`` is in seconds.
    Raises ValueError for a ``look_up_url`` without ``{key}``. The effect raises OutsideError without a good reply.
    """
    if "{key}" not in look_up_url:
        raise ValueError(f"look_up_url needs a {{key}}: {look_up_url!r}")

    def http_post(body: dict[str, Any], idempotency_key: str = "") -> dict[str, Any]:
        """POST a JSON object; a retry with the same key is not executed again."""
        answer: dict[str, Any] = post(url, body, key_or_current(idempotency_key), timeout_s)["body"]
        return answer

    def verify(key: str) -> dict[str, Any]:
        """Whether the outside has executed ``key``."""
        address = look_up_url.replace("{key}", urllib.parse.quote(header_key(key), safe=""))
        try:
            status, _, reply = exchange("GET", address, None, {}, timeout_s)
        except OutsideError as error:
            return unknown(str(error))
        if status == 404:
            return not_done(f"{address} answers 404")
        if status != 200:
            return unknown(f"{address} answers {status}")
        result = reply.get(result_field) if result_field and isinstance(reply, dict) else reply
        return completed(result, f"{address} answers 200")

    return Effect(http_post, verify, True)


def post_without_key(
    url: str,
    list_url: str = "",
    *,
    reference_field: str = "reference",
    listing_is_complete: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Effect:
    """An effect for an outside that honours no keys: two requests are two effects, so nothing is repeated unverified.

    The key travels as data, in ``reference_field`` of the posted object. ``list_url`` answers a JSON listing in which
    it can be found again; without one, verify always says *unknown* and a person decides. Only a listing that
    ``listing_is_complete`` proves that something was not done; give the tool a ``settle_after_s`` if the listing
    lags. ``timeout_s`` is in seconds. The effect raises OutsideError without a good reply.
    """

    def http_post(body: dict[str, Any], idempotency_key: str = "") -> dict[str, Any]:
        """POST a JSON object; it is executed each time it is asked for."""
        if reference_field in body:
            raise OutsideError(f"the field {reference_field!r} is taken by the operation's key", sent=False)
        sent = {**body, reference_field: key_or_current(idempotency_key)}
        answer: dict[str, Any] = post(url, sent, "", timeout_s)["body"]
        return answer

    def verify(key: str) -> dict[str, Any]:
        """Whether the outside's listing shows ``key``, and how often."""
        if not list_url:
            return unknown(f"{url} honours no keys and has no listing to look into")
        try:
            status, _, reply = exchange("GET", list_url, None, {}, timeout_s)
        except OutsideError as error:
            return unknown(str(error))
        if status != 200 or not isinstance(reply, dict | list):
            return unknown(f"{list_url} answers {status} without a JSON listing")
        found = _holding(reply, reference_field, key)
        if found:
            return completed({"found": len(found)}, f"{list_url} shows {key} {len(found)} time(s)")
        absent = f"{list_url} does not show {key}"
        return not_done(absent) if listing_is_complete else unknown(f"{absent}, and it need not be complete")

    return Effect(http_post, verify, False)


def _holding(value: Any, field: str, key: str) -> list[dict[str, Any]]:
    """The objects anywhere in ``value`` whose ``field`` is ``key``."""
    found: list[dict[str, Any]] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if item.get(field) == key:
                found.append(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return found
