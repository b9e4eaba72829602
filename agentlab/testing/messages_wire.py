"""The Messages API on the wire: a finished answer as one JSON object or as server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentlab.ports import ModelReply
from agentlab.testing.messages_faults import Fault

Wire = tuple[str, dict[str, Any]]
"""An event's name and its data."""


def as_message(reply: ModelReply, message_id: str, stop_details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """``reply`` as the API's message object."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [dict(block) for block in reply.content],
        "stop_reason": reply.stop_reason,
        "stop_sequence": None,
        "stop_details": dict(stop_details) if stop_details else None,
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
            "cache_read_input_tokens": reply.usage.cache_read_tokens,
            "cache_creation_input_tokens": reply.usage.cache_write_tokens,
        },
    }


def as_error(error_type: str, message: str) -> dict[str, Any]:
    """The API's error object."""
    return {"type": "error", "error": {"type": error_type, "message": message}}


def as_events(message: Mapping[str, Any], *, break_inputs: bool = False) -> Iterator[Wire]:
    """``message`` as the events of a stream, in small pieces; ``break_inputs`` stops tool inputs in the middle."""
    begun = {**message, "content": [], "stop_reason": None, "stop_details": None}
    begun["usage"] = {**message["usage"], "output_tokens": 1}
    yield "message_start", {"type": "message_start", "message": begun}
    yield "ping", {"type": "ping"}
    for index, block in enumerate(message["content"]):
        start, deltas = _taken_apart(block, break_inputs)
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    delta = {key: message[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
    usage = {"output_tokens": message["usage"]["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def encode(event: Wire) -> bytes:
    """One event as bytes of ``text/event-stream``."""
    name, data = event
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def misbehaved(reply: ModelReply, message_id: str, fault: Fault | None) -> dict[str, Any]:
    """The message that carries ``reply``, changed as ``fault`` wants."""
    kind = fault.kind if fault is not None else ""
    details: dict[str, Any] | None = None
    strange = {"type": "tool_use", "id": "toolu_" + message_id, "name": "any", "input": {}}
    if kind == "empty":
        reply = replace(reply, content=[], stop_reason="end_turn")
    elif kind == "refusal" and fault is not None:
        reply = replace(reply, content=[], stop_reason="refusal")
        details = {"type": "refusal", "category": None, "explanation": fault.text}
    elif kind == "unknown_tool" and fault is not None:
        reply = replace(reply, content=[{**strange, "name": fault.text}], stop_reason="tool_use")
    elif kind == "malformed_tool_json" and not any(b["type"] == "tool_use" for b in reply.content):
        reply = replace(reply, content=[strange], stop_reason="tool_use")
    return as_message(reply, message_id, details)


def with_fault(message: Mapping[str, Any], fault: Fault | None) -> Iterator[Wire | bytes | None]:
    """The events of ``message`` as ``fault`` wants them; None stands where silence begins, bytes go out as they are."""
    kind = fault.kind if fault is not None else ""
    for count, event in enumerate(as_events(message, break_inputs=kind == "malformed_tool_json")):
        if fault is not None and count == fault.after:
            if kind == "error_event":
                yield "error", as_error(fault.error_type, fault.text)
                return
            if kind == "hang":
                yield None
            if kind == "garbage":
                yield b"event: content_block_delta\ndata: {not json\n\n"
        yield event


def _taken_apart(block: Mapping[str, Any], break_inputs: bool) -> tuple[dict[str, Any], Sequence[dict[str, Any]]]:
    kind = block["type"]
    if kind == "text":
        pieces = re.findall(r"\s*\S+\s*|\s+", block["text"])
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
    if kind == "tool_use":
        text = json.dumps(block["input"])
        if break_inputs:
            text = '{"cut": "in the mid'
        pieces = [text[i : i + 7] for i in range(0, len(text), 7)]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    if kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
        return {**block, "thinking": "", "signature": ""}, deltas
    return dict(block), []
