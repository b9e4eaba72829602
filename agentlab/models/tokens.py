"""Token counts without a network: estimates, good enough to reserve by and to compare with.

One token is taken as 3.5 characters of text or canonical JSON. English prose has nearer to four, code and JSON
nearer to three, so the estimate errs on the high side for prose and by some ten percent to the low side for dense
JSON. What the provider counted, once it is known, always replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from agentlab.events.canonical import Fixed, FixedList, canonical, plain
from agentlab.ports import ModelRequest, Usage

CHARS_PER_TOKEN = 3.5
MESSAGE_OVERHEAD = 4
"""Tokens that each message and tool costs beyond its text."""

TokenCounter = Callable[[str], int]
"""From text to its number of tokens."""


def estimate_text(text: str) -> int:
    """Estimated tokens of ``text`` (0 for none)."""
    return math.ceil(len(text) / CHARS_PER_TOKEN)


def quarter(text: str) -> int:
    """Four characters to a token: what the scripted model counts by."""
    return math.ceil(len(text) / 4)


def block_text(block: Any) -> str:
    """The characters of a content block that cost tokens: its text, or its canonical JSON."""
    if isinstance(block, str):
        return block
    if isinstance(block, Fixed):
        return str(block["text"]) if block.get("type") == "text" else block.text
    if isinstance(block, Mapping):
        if block.get("type") == "text":
            return str(block.get("text", ""))
        return canonical(plain({k: v for k, v in block.items() if k != "cache_control"}))
    return canonical(plain(block))


def count_content(content: Any, count: TokenCounter = estimate_text) -> int:
    """Tokens of a message's content: a string or a sequence of blocks."""
    if isinstance(content, str):
        return count(content)
    return sum(count(block_text(block)) for block in content)


def estimate_prefix(request: ModelRequest, count: TokenCounter = estimate_text) -> int:
    """Estimated tokens of what stands before the messages: tools and system."""
    if isinstance(request.tools, FixedList) and isinstance(request.system, FixedList):
        memo, key = request.tools.memo, (count, tuple(request.system.digests))
        if key not in memo:
            memo[key] = _prefix(request, count)
        return int(memo[key])
    return _prefix(request, count)


def _prefix(request: ModelRequest, count: TokenCounter) -> int:
    tools = sum(count(block_text(tool)) + MESSAGE_OVERHEAD for tool in request.tools)
    return tools + count_content(request.system, count)


def estimate_tokens(request: ModelRequest, count: TokenCounter = estimate_text) -> int:
    """Estimated input tokens of ``request``: tools, system and messages."""
    messages = sum(count_content(m.get("content", ""), count) + MESSAGE_OVERHEAD for m in request.messages)
    return estimate_prefix(request, count) + messages


def estimate_usage(request: ModelRequest, content: Any, count: TokenCounter = estimate_text) -> Usage:
    """Usage as a provider with a prompt cache would report it.

    The prefix counts as written to the cache in a conversation's first request and as read from it afterwards,
    if the request marks a place to cut (``cache_control``); ``input_tokens`` is what remains, as providers count.
    """
    messages = sum(count_content(m.get("content", ""), count) + MESSAGE_OVERHEAD for m in request.messages)
    prefix = estimate_prefix(request, count)
    total = prefix + messages
    cached = prefix if _marked(request) else 0
    first = not any(m.get("role") == "assistant" for m in request.messages)
    return Usage(
        input_tokens=total - cached,
        output_tokens=max(1, count_content(content, count)),
        cache_read_tokens=0 if first else cached,
        cache_write_tokens=cached if first else 0,
    )


def _marked(request: ModelRequest) -> bool:
    """Whether any block marks a place where a prompt cache may cut; the fixed layer, where it usually is, first."""
    if any("cache_control" in block for part in (request.system, request.tools) for block in part):
        return True
    contents = (m["content"] for m in request.messages if not isinstance(m.get("content", ""), str))
    return any("cache_control" in block for part in contents for block in part)
