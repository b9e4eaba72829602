"""A model that answers what it answered before: replay of a session's own log, without a key and without cost.

Answers are found by the request, so a replay that is killed and woken goes on where it was; equal requests get their
answers in the recorded order, and the last one again after that. Where the recording holds the request itself, the ids
of tool calls (they count events, and another checkpoint policy counts otherwise) and the model's parameters do not matter.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentlab.errors import ModelError
from agentlab.events import Event
from agentlab.events.canonical import canonical, plain
from agentlab.events.spill import resolve
from agentlab.models.digest import request_digest, request_parts
from agentlab.ports import Model, ModelReply, ModelRequest, Usage

OnDifference = Literal["error", "live"]


@dataclass(frozen=True)
class Recorded:
    """One recorded question and its answer. ``request`` makes differences easier to read; a log has none."""

    digest: str
    reply: ModelReply
    purpose: str | None = None
    request: ModelRequest | None = None
    seq: int | None = None


class RecordedModel:
    """Recorded answers as a :class:`~agentlab.ports.Model`.

    ``replies`` are :class:`Recorded` entries or pairs of digest and reply, in order. A request that was not recorded
    is an error, or with ``on_difference="live"`` goes to ``live``.

    Raises:
        ValueError: ``on_difference="live"`` without a live model, or an unknown choice.
    """

    def __init__(
        self,
        replies: Iterable[Recorded | tuple[str, ModelReply]],
        on_difference: OnDifference = "error",
        live: Model | None = None,
        name: str = "recorded",
    ) -> None:
        if on_difference not in ("error", "live"):
            raise ValueError(f"on_difference is 'error' or 'live', not {on_difference!r}")
        if on_difference == "live" and live is None:
            raise ValueError("on_difference='live' needs a live model to fall through to")
        self._entries = [entry if isinstance(entry, Recorded) else Recorded(*entry) for entry in replies]
        self._live = live if on_difference == "live" else None
        self._name = name
        self._positions: dict[str, list[int]] = {}
        for position, entry in enumerate(self._entries):
            self._positions.setdefault(_key(entry), []).append(position)
        self._served: dict[str, int] = {}
        self._next = 0

    @classmethod
    def from_events(
        cls,
        events: Iterable[Event],
        blobs_get: Callable[[str], bytes],
        *,
        on_difference: OnDifference = "error",
        live: Model | None = None,
        name: str = "recorded",
    ) -> RecordedModel:
        """The model that answers as the log of a session says; see :func:`recorded_replies`."""
        return cls(recorded_replies(events, blobs_get), on_difference, live, name)

    def __repr__(self) -> str:
        return f"RecordedModel({self._name!r}, {len(self._entries)} replies)"

    @property
    def name(self) -> str:
        """The name it was given, ``recorded`` by default."""
        return self._name

    def params(self) -> Mapping[str, Any]:
        """Those of the live model behind it, if there is one."""
        return dict(self._live.params()) if self._live is not None else {}

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """The recorded answer to ``request``, with the usage that it had; its text is handed over at once.

        Raises:
            ModelError: ``bad_request`` (nothing sent) when it was not recorded; the message says what differs.
        """
        digest = request_digest(request)
        key = next((k for k in (replay_key(request), digest) if k in self._positions), None)
        if key is None:
            if self._live is not None:
                return self._live.complete(request, on_text)
            raise ModelError("bad_request", self._difference(request, digest), sent=False)
        positions = self._positions[key]
        count = self._served.get(key, 0)
        self._served[key] = count + 1
        position = positions[min(count, len(positions) - 1)]
        self._next = position + 1
        reply = self._entries[position].reply
        if on_text is not None:
            for block in reply.content:
                if block.get("type") == "text":
                    on_text(str(block.get("text", "")))
        return reply

    def _difference(self, request: ModelRequest, digest: str) -> str:
        head = f"{self._name}: request {self._next + 1} was not recorded ({digest[:12]}…)"
        expected = self._expected(request)
        if expected is None:
            return f"{head}: the recording ends after {len(self._entries)} replies; go on with a live model"
        lines = [f"{head}; the recording has {expected.digest[:12]}… here"]
        if expected.request is not None:
            lines += differences(comparable(expected.request), comparable(request))
        else:
            if expected.purpose not in (None, request.purpose):
                lines.append(f"purpose: recorded {expected.purpose}, asked {request.purpose}")
            lines.append(
                f"asked with {len(request.system)} system blocks, {len(request.tools)} tools,"
                f" {len(request.messages)} messages, max_tokens {request.max_tokens}"
            )
        lines.append("a tool, a parameter or a result differs; replay the same definition or allow a live model")
        return "\n  ".join(lines)

    def _expected(self, request: ModelRequest) -> Recorded | None:
        """The recorded question that ``request`` comes nearest to: the next one, or where a replay began anew the likest."""
        if self._next or not any(entry.request for entry in self._entries):
            return self._entries[self._next] if self._next < len(self._entries) else None
        asked = comparable(request)

        def likeness(entry: Recorded) -> tuple[bool, int, int]:
            if entry.request is None:
                return False, 0, 0
            known = comparable(entry.request)["messages"]
            alike = sum(a == b for a, b in zip(known, asked["messages"], strict=False))
            return entry.request.purpose == request.purpose, alike, -abs(len(known) - len(asked["messages"]))

        return max(self._entries, key=likeness)


def comparable(request: ModelRequest) -> dict[str, Any]:
    """What of a request a replay compares: all but the parameters, with calls numbered as they come."""
    parts: dict[str, Any] = plain(request_parts(request))
    parts.pop("params")
    numbers: dict[str, str] = {}
    for message in parts["messages"]:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            for name in ("id", "tool_use_id"):
                if block.get("type") in ("tool_use", "tool_result") and name in block:
                    block[name] = numbers.setdefault(str(block[name]), f"call {len(numbers) + 1}")
    return parts


def replay_key(request: ModelRequest) -> str:
    """64 hexadecimal digits that are equal for requests that a replay takes for the same."""
    return hashlib.sha256(canonical(comparable(request)).encode()).hexdigest()


def _key(entry: Recorded) -> str:
    return entry.digest if entry.request is None else replay_key(entry.request)


def recorded_replies(events: Iterable[Event], blobs_get: Callable[[str], bytes]) -> list[Recorded]:
    """Questions and answers of a log: each ``model_response`` with the newest ``model_request`` of its request_id.

    Requests without an answer are left out: they were asked again. Content that was spilled is fetched with
    ``blobs_get(digest)``.

    Raises:
        LogCorrupt: a blob is missing or does not match (from ``blobs_get``).
    """
    asked: dict[str, tuple[str, str | None]] = {}
    out = []
    for event in events:
        payload = event.payload
        if event.type == "model_request":
            # Digests elsewhere carry their algorithm in front; both spellings name the same request.
            asked[payload["request_id"]] = (str(payload["digest"]).removeprefix("sha256:"), payload.get("purpose"))
        elif event.type == "model_response" and payload["request_id"] in asked:
            digest, purpose = asked[payload["request_id"]]
            out.append(Recorded(digest, _reply(event, blobs_get), purpose, seq=event.seq))
    return out


def _reply(event: Event, blobs_get: Callable[[str], bytes]) -> ModelReply:
    payload = event.payload
    served = payload.get("served_by")
    content: Sequence[Mapping[str, Any]] = resolve(payload["content"], blobs_get)
    return ModelReply(
        content=content,
        stop_reason=payload["stop_reason"],
        usage=Usage(
            event.input_tokens or 0,
            event.output_tokens or 0,
            event.cache_read_tokens or 0,
            event.cache_write_tokens or 0,
        ),
        model=event.model or (served if isinstance(served, str) else "recorded"),
        request_id=None,
    )


def describe_difference(before: ModelRequest, now: ModelRequest, limit: int = 6) -> list[str]:
    """At most ``limit`` short lines, each a path where two requests differ and both values."""
    return differences(plain(request_parts(before)), plain(request_parts(now)), limit)


Sides = tuple[str, str]
SIDES: Sides = ("recorded", "asked")


def differences(before: Any, now: Any, limit: int = 6, sides: Sides = SIDES) -> list[str]:
    """At most ``limit`` short lines, each a path where two plain values differ and both; ``sides`` names the two."""
    lines: list[str] = []
    _walk("", before, now, lines, sides)
    hidden = len(lines) - limit
    return [*lines[:limit], f"… and {hidden} more"] if hidden > 0 else lines


def _walk(path: str, before: Any, now: Any, lines: list[str], sides: Sides) -> None:
    if before == now and type(before) is type(now):
        return
    one, other = sides
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            inner = f"{path}.{key}" if path else str(key)
            if key not in before:
                lines.append(f"{inner}: not {one}, {other} {_short(now[key])}")
            elif key not in now:
                lines.append(f"{inner}: {one} {_short(before[key])}, not {other}")
            else:
                _walk(inner, before[key], now[key], lines, sides)
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            lines.append(f"{path}: {one} {len(before)} entries, {other} {len(now)}")
        for index, (a, b) in enumerate(zip(before, now, strict=False)):
            _walk(f"{path}.{index}", a, b, lines, sides)
    elif isinstance(before, str) and isinstance(now, str):
        # Long texts are shown from just before the place where they part.
        start = max(0, len(os.path.commonprefix([before, now])) - 12)
        lines.append(f"{path}: {one} {_short(before[start:])}, {other} {_short(now[start:])} (from character {start})")
    else:
        lines.append(f"{path}: {one} {_short(before)}, {other} {_short(now)}")


def _short(value: Any) -> str:
    text = canonical(value)
    return text if len(text) <= 60 else text[:59] + "…"
