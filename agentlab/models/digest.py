"""What makes two requests the same question: a digest over everything the answer may depend on."""

from __future__ import annotations

import hashlib
from typing import Any

from agentlab.events.canonical import canonical
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
    """64 hexadecimal digits of SHA-256 over the canonical JSON of :func:`request_parts`.

    Raises:
        PayloadError: the request holds something that is not JSON.
    """
    return hashlib.sha256(canonical(request_parts(request)).encode()).hexdigest()
