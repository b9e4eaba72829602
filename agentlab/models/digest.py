"""What makes two requests the same question: a digest over everything the answer may depend on."""

from __future__ import annotations

import hashlib
from typing import Any

from agentlab.events.canonical import Fixed, FixedList, canonical
from agentlab.ports import ModelRequest


def request_parts(request: ModelRequest) -> dict[str, Any]:
    """The parts of ``request`` that its digest covers, as JSON: no ``request_id``, no ``timeout_s``."""
    return {
        "system": [dict(block) for block in request.system],
        "tools": [dict(tool) for tool in request.tools],
        "messages": [dict(message) for message in request.messages],
        "max_tokens": request.max_tokens,
        "purpose": request.purpose,
        "params": dict(request.params),
    }


def request_digest(request: ModelRequest) -> str:
    """64 hexadecimal digits of SHA-256 over the digests of the parts of :func:`request_parts`, block by block.

    Blocks that are :class:`~agentlab.events.canonical.Fixed` are hashed once however often they are asked again.

    Raises:
        PayloadError: the request holds something that is not JSON.
    """
    if request.digest:
        return request.digest
    messages = []
    for message in request.messages:
        content = message.get("content", "")
        shown = content if isinstance(content, str) else _digests(content)
        messages.append([message.get("role"), shown])
    summary = {
        "system": _digests(request.system),
        "tools": _digests(request.tools),
        "messages": messages,
        "max_tokens": request.max_tokens,
        "purpose": request.purpose,
        "params": dict(request.params),
    }
    return hashlib.sha256(canonical(summary).encode()).hexdigest()


def _digests(blocks: Any) -> list[str]:
    if isinstance(blocks, FixedList):
        return blocks.digests
    return [
        block.digest if isinstance(block, Fixed) else hashlib.sha256(canonical(dict(block)).encode()).hexdigest()
        for block in blocks
    ]
