"""From the events of a streamed answer to its content blocks, as plain dictionaries.

Blocks are kept as they came, fields unknown to this version too: a thinking block must go back with its signature
untouched. Tool input is parsed once, when its block is complete, and strictly: half an input is no input.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agentlab.errors import ModelError
from agentlab.ports import ModelReply, Usage

_SAYS_NOTHING = frozenset({"text", "thinking", "redacted_thinking"})


class Assembly:
    """One answer under construction. :meth:`feed` events until :attr:`done`, then take the :meth:`reply`."""

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self.done = False
        self._on_text = on_text
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._usage: dict[str, Any] = {}
        self._delta: dict[str, Any] = {}

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take one event of the stream; kinds that are unknown here are passed over.

        Raises:
            ModelError: ``malformed``, an event that does not fit the ones before.
        """
        kind = event.get("type")
        text = ""
        try:
            if kind == "message_start":
                self._message = dict(event["message"])
                self._count(self._message.get("usage"))
            elif kind == "content_block_start":
                self._start(int(event["index"]), dict(event["content_block"]))
                text = str(event["content_block"].get("text") or "")
            elif kind == "content_block_delta":
                text = self._extend(int(event["index"]), event["delta"])
            elif kind == "message_delta":
                self._delta.update(event["delta"])
                self._count(event.get("usage"))
            elif kind == "message_stop":
                self.done = True
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise ModelError("malformed", f"the stream holds a {kind} event that does not fit ({what})") from None
        if text and self._on_text is not None:
            self._on_text(text)

    def reply(self, request_id: str | None, fallback_model: str) -> ModelReply:
        """The whole answer.

        Raises:
            ModelError: ``refused``, ``malformed`` (a tool input that does not parse) or ``empty``.
        """
        stop_reason = self._delta.get("stop_reason") or self._message.get("stop_reason") or "end_turn"
        if stop_reason == "refusal":
            raise ModelError("refused", _refusal(self._delta.get("stop_details") or self._message.get("stop_details")))
        content = [self._finished(index, stop_reason) for index in sorted(self._blocks)]
        # An empty text block beside others is sometimes sent, and refused when it is sent back.
        content = [b for b in content if b.get("type") != "text" or str(b.get("text", "")).strip()]
        if all(b.get("type") in _SAYS_NOTHING and b.get("type") != "text" for b in content):
            hint = "; raise max_tokens" if stop_reason == "max_tokens" else ""
            raise ModelError("empty", f"the answer holds no text and no tool call (stop_reason {stop_reason}){hint}")
        return ModelReply(
            content=content,
            stop_reason=str(stop_reason),
            usage=Usage(
                input_tokens=self._tokens("input_tokens"),
                output_tokens=self._tokens("output_tokens"),
                cache_read_tokens=self._tokens("cache_read_input_tokens"),
                cache_write_tokens=self._tokens("cache_creation_input_tokens"),
            ),
            model=str(self._message.get("model") or fallback_model),
            request_id=request_id or self._message.get("id"),
        )

    def _start(self, index: int, block: dict[str, Any]) -> None:
        if index in self._blocks:
            raise ValueError(f"block {index} begins twice")
        self._blocks[index] = block

    def _extend(self, index: int, delta: Mapping[str, Any]) -> str:
        block, kind = self._blocks[index], delta["type"]
        if kind == "text_delta":
            block["text"] = str(block.get("text") or "") + delta["text"]
            return str(delta["text"])
        if kind == "input_json_delta":
            self._inputs.setdefault(index, []).append(delta["partial_json"])
        elif kind == "thinking_delta":
            block["thinking"] = str(block.get("thinking") or "") + delta["thinking"]
        elif kind == "signature_delta":
            block["signature"] = delta["signature"]
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        return ""

    def _finished(self, index: int, stop_reason: str) -> dict[str, Any]:
        block = self._blocks[index]
        text = "".join(self._inputs.get(index, ()))
        if text.strip():
            try:
                value = json.loads(text, parse_constant=_no_constant)
            except (ValueError, RecursionError) as error:
                hint = "; the answer was cut at max_tokens" if stop_reason == "max_tokens" else ""
                raise ModelError(
                    "malformed", f"the input of tool call {block.get('name')!r} is not JSON ({error}){hint}"
                ) from None
            block = {**block, "input": value}
        if block.get("type") == "tool_use":
            if not isinstance(block.get("input"), dict):
                raise ModelError("malformed", f"the input of tool call {block.get('name')!r} is not a JSON object")
            if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str):
                raise ModelError("malformed", "a tool call came without an id or a name")
        return block

    def _count(self, usage: Any) -> None:
        # Counts are cumulative: a later one replaces the one before, and an absent one leaves it.
        if isinstance(usage, Mapping):
            self._usage.update({k: v for k, v in usage.items() if v is not None})

    def _tokens(self, name: str) -> int:
        value = self._usage.get(name)
        return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _refusal(details: Any) -> str:
    if isinstance(details, Mapping):
        parts = [str(details[k]) for k in ("category", "explanation") if details.get(k)]
        if parts:
            return "the model refused to answer: " + ": ".join(parts)[:500]
    return "the model refused to answer; change what is asked"
