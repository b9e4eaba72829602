"""A request as a scripted policy reads it: the goal, the calls so far and what they gave.

Only the context is read, as a model would read it: what was dropped from the context is not there for a policy
either, and text that a tool returned is never taken for the goal or the task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from agentlab.models.digest import request_digest
from agentlab.ports import ModelRequest, Purpose

STATEMENT_KEYS = ("completed_steps", "next_step", "effects_done")
"""The keys of a statement of where the work is, asked for after a recovery."""


class Call(NamedTuple):
    """A tool call that the model made."""

    id: str
    tool: str
    input: Mapping[str, Any]


class Round(NamedTuple):
    """A call and its one result; ``result`` is the text that the model was shown."""

    call: Call
    result: str
    is_error: bool

    @property
    def value(self) -> Any:
        """The result parsed as JSON, or its text when it is not JSON."""
        try:
            return json.loads(self.result)
        except ValueError:
            return self.result


@dataclass(frozen=True)
class View:
    """What a policy sees. Made from a :class:`~agentlab.ports.ModelRequest`, never changed."""

    request: ModelRequest

    @property
    def purpose(self) -> Purpose:
        """Why the model is asked: ``act``, ``statement``, ``summary`` or ``judge``."""
        return self.request.purpose

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools on offer."""
        return tuple(str(tool.get("name", "")) for tool in self.request.tools)

    @cached_property
    def digest(self) -> str:
        """The request's digest, 64 hexadecimal digits."""
        return request_digest(self.request)

    @cached_property
    def goal(self) -> str:
        """The goal: what stands between ``<goal>`` and ``</goal>`` last, else the text of the first user message."""
        tagged = self.tagged("goal")
        if tagged is not None:
            return tagged
        return _text_of(self.request.messages[0].get("content", "")) if self.request.messages else ""

    @cached_property
    def task(self) -> str:
        """The current summary of the task: what stands between ``<task>`` and ``</task>`` last, else nothing."""
        return self.tagged("task") or ""

    @cached_property
    def text(self) -> str:
        """The text of the last user message, without tool results."""
        for message in reversed(self.request.messages):
            if message.get("role") == "user":
                return _text_of(message.get("content", ""))
        return ""

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """Every call that has a result in the context, in the order of the results."""
        calls = {call.id: call for call in self.calls()}
        out = []
        for message in self.request.messages:
            for block in _blocks(message):
                call = calls.get(str(block.get("tool_use_id"))) if block.get("type") == "tool_result" else None
                if call is not None:
                    out.append(Round(call, result_text(block.get("content", "")), block.get("is_error") is True))
        return tuple(out)

    @property
    def last(self) -> Round | None:
        """The newest call with its result, or None."""
        return self.rounds[-1] if self.rounds else None

    @cached_property
    def facts(self) -> Mapping[str, Any] | None:
        """The JSON object between ``<facts>`` and ``</facts>`` in the last user message, or None."""
        start, end = self.text.find("<facts>"), self.text.rfind("</facts>")
        if start < 0 or end < start:
            return None
        inner = re.sub(r"^\s*```[a-z]*\s*|\s*```\s*$", "", self.text[start + len("<facts>") : end])
        try:
            found = json.loads(inner)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def results(self, tool: str | None = None) -> tuple[Round, ...]:
        """Calls with their results, in order; of one tool if ``tool`` is given."""
        return self.rounds if tool is None else tuple(r for r in self.rounds if r.call.tool == tool)

    def calls(self, tool: str | None = None) -> tuple[Call, ...]:
        """Calls in order, those without a result too; of one tool if ``tool`` is given."""
        out = []
        for message in self.request.messages:
            if message.get("role") != "assistant":
                continue
            for block in _blocks(message):
                if block.get("type") == "tool_use" and tool in (None, block.get("name")):
                    out.append(Call(str(block.get("id")), str(block.get("name")), block.get("input") or {}))
        return tuple(out)

    def errors_in_a_row(self, tool: str | None = None) -> int:
        """How many of the newest results, of one tool if given, are errors without a success between them."""
        count = 0
        for entry in reversed(self.results(tool)):
            if not entry.is_error:
                break
            count += 1
        return count

    @cached_property
    def status(self) -> dict[str, Any]:
        """The current task summary as data (``step``, ``number``, ``of``, ``done``, ``round``, ``attempt``); empty without a plan."""
        try:
            value = json.loads(self.tagged("status") or "{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def tagged(self, tag: str) -> str | None:
        """What stands between ``<tag>`` and ``</tag>`` last, in the user's messages or else in the system text."""
        texts = [_text_of(m.get("content", "")) for m in self.request.messages if m.get("role") == "user"]
        for text in (*reversed(texts), _text_of(self.request.system)):
            start = text.rfind(f"<{tag}>")
            end = text.find(f"</{tag}>", start)
            if 0 <= start < end:
                return text[start + len(tag) + 2 : end].strip()
        return None


def result_text(content: Any) -> str:
    """The text of a tool_result's content: the string itself, or its text blocks joined by line ends."""
    return content if isinstance(content, str) else _text_of(content)


def _blocks(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = message.get("content", "")
    return () if isinstance(content, str) else content


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(b.get("text", "")) for b in content if b.get("type") == "text")
