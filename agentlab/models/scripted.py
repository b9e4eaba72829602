"""A model that costs nothing and answers the same every time: a deterministic policy over the context.

    def policy(view):
        if not view.calls("fetch"):
            return call("fetch", url="https://example.org")
        return say(f"fetched {len(view.last.result)} characters")

    model = ScriptedModel(policy)                       # or ScriptedModel("package.module:policy")

A policy reads a :class:`~agentlab.models.view.View` and returns content blocks (one, several, or plain text) or a
:class:`ScriptedReply`. It has no memory of its own, so it goes on after a crash as if nothing had happened. It may
raise :class:`~agentlab.errors.ModelError` to play a provider that fails.

Where a session stands (purpose ``statement``), what happened so far (``summary``) and whether the work is still about
the task (``judge``) is answered from the context itself, unless the policy says with :func:`handles` that it answers that on its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agentlab.clock import Clock, SystemClock
from agentlab.errors import AgentlabError, BadDefinition, ModelError
from agentlab.events.canonical import canonical
from agentlab.models.policy_names import load_policy, policy_name
from agentlab.models.tokens import TokenCounter, estimate_usage, quarter
from agentlab.models.view import STATEMENT_KEYS, View
from agentlab.ports import ModelReply, ModelRequest, Usage

Block = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ScriptedReply:
    """A whole answer, given as it stands. None stands for what follows from the content."""

    content: Sequence[Block]
    stop_reason: str | None = None
    usage: Usage | None = None


Answer = ScriptedReply | Sequence[Block | str] | Block | str | None
Policy = Callable[[View], Answer]


def say(text: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": text}


def call(tool: str, /, **input: Any) -> dict[str, Any]:
    """A tool call with keyword arguments as its input; its id is given by the model."""
    return {"type": "tool_use", "name": tool, "input": input}


def handles(*purposes: str) -> Callable[[F], F]:
    """Declare that a policy answers these purposes (``statement``, ``summary``, ``judge``) itself."""

    def mark(policy: F) -> F:
        policy.handles = frozenset(purposes)  # type: ignore[attr-defined]
        return policy

    return mark


class ScriptedModel:
    """A deterministic policy as a :class:`~agentlab.ports.Model`.

    ``policy`` is a callable or its dotted name ``package.module:function``. ``latency_s`` seconds are slept on
    ``clock`` before each answer. ``tokens`` counts text; four characters make a token by default.

    Raises:
        UnknownName: the dotted name leads nowhere.
        BadDefinition: it leads to something that can not be called.
    """

    def __init__(
        self,
        policy: Policy | str,
        name: str | None = None,
        latency_s: float = 0.0,
        clock: Clock | None = None,
        tokens: TokenCounter = quarter,
    ) -> None:
        self._policy: Policy = load_policy(policy) if isinstance(policy, str) else policy
        self._name = name or "scripted:" + (policy if isinstance(policy, str) else policy_name(policy))
        self._latency_s = latency_s
        self._clock = clock or SystemClock()
        self._tokens = tokens

    def __repr__(self) -> str:
        return f"ScriptedModel({self._name!r})"

    @property
    def name(self) -> str:
        """``scripted:package.module:function`` unless another name was given."""
        return self._name

    def params(self) -> Mapping[str, Any]:
        """The latency in seconds, if there is one."""
        return {"latency_s": self._latency_s} if self._latency_s else {}

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """Ask the policy; text is streamed word by word.

        Raises:
            ModelError: the policy raised it, or gave no content (``empty``).
            BadDefinition: the policy failed, or returned something that is no answer.
        """
        view = View(request)
        reply = self._reply(view)
        content = _with_ids(reply.content, view, self._name)
        if not content:
            raise ModelError("empty", f"{self._name} gave no content for a request to {request.purpose}", sent=True)
        if self._latency_s:
            self._clock.sleep(self._latency_s)
        if on_text is not None:
            _stream(content, on_text)
        calls = any(block["type"] == "tool_use" for block in content)
        return ModelReply(
            content=content,
            stop_reason=reply.stop_reason or ("tool_use" if calls else "end_turn"),
            usage=reply.usage or estimate_usage(request, content, self._tokens),
            model=self._name,
            request_id="scripted_" + view.digest[:24],
        )

    def _reply(self, view: View) -> ScriptedReply:
        own: frozenset[str] = getattr(self._policy, "handles", frozenset())
        if view.purpose in _DEFAULTS and view.purpose not in own:
            return ScriptedReply([_DEFAULTS[view.purpose](view)])
        try:
            answer = self._policy(view)
        except AgentlabError:
            raise
        except Exception as error:
            raise BadDefinition(
                f"the policy {self._name} failed with {type(error).__name__}: {error}; a policy must answer every view"
            ) from error
        return _as_reply(answer, self._name)


def statement(view: View) -> dict[str, Any]:
    """Where the work is, as one text block of JSON, read from the facts in the context."""
    facts = view.facts or {}
    empty: dict[str, Any] = {"completed_steps": [], "next_step": None, "effects_done": []}
    return say(canonical({key: facts.get(key, empty[key]) for key in STATEMENT_KEYS}))


def summary(view: View) -> dict[str, Any]:
    """What happened so far, counted: one line per tool, and the newest result."""
    names = sorted({entry.tool for entry in view.calls()})
    lines = [f"Goal: {view.goal[:500]}"]
    for name in names:
        failed = sum(entry.is_error for entry in view.results(name))
        lines.append(f"{name}: {len(view.calls(name))} calls, {failed} failed")
    if view.last is not None:
        lines.append(f"Last result ({view.last.call.tool}): {view.last.result[:500]}")
    return say("\n".join(lines))


def judgement(view: View) -> dict[str, Any]:
    """How far the work is from the task, as one text block of JSON: the measure that the request gives."""
    measured = (view.facts or {}).get("distance")
    return say(canonical({"distance": 0 if measured is None else measured, "why": "by the words in common"}))


_DEFAULTS: dict[str, Callable[[View], dict[str, Any]]] = {
    "statement": statement,
    "summary": summary,
    "judge": judgement,
}


def _as_reply(answer: Any, name: str) -> ScriptedReply:
    if isinstance(answer, ScriptedReply):
        reply = answer
    elif answer is None:
        reply = ScriptedReply([])
    elif isinstance(answer, str):
        reply = ScriptedReply([say(answer)])
    elif isinstance(answer, Mapping):
        reply = ScriptedReply([answer])
    elif isinstance(answer, Sequence):
        reply = ScriptedReply([say(part) if isinstance(part, str) else part for part in answer])
    else:
        what = type(answer).__name__
        raise BadDefinition(f"the policy {name} returned {what}; return say(…), call(…) or a list of them")
    for block in reply.content:
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            raise BadDefinition(f"the policy {name} returned a block without a type; use say(…) and call(…)")
    if reply is not answer:
        # Blank text would be refused when the conversation is sent on, so it is no content.
        spoken = [b for b in reply.content if b["type"] != "text" or str(b.get("text", "")).strip()]
        reply = ScriptedReply(spoken)
    return reply


def _with_ids(content: Sequence[Block], view: View, name: str) -> list[dict[str, Any]]:
    out = []
    for index, block in enumerate(content):
        filled = dict(block)
        if filled["type"] == "tool_use" and not filled.get("id"):
            seed = f"{view.digest}:{index}".encode()
            filled["id"] = "toolu_" + hashlib.sha256(seed).hexdigest()[:24]
        try:
            canonical(filled)
        except AgentlabError as error:
            raise BadDefinition(f"the policy {name} returned a block that is not JSON: {error}") from None
        out.append(filled)
    return out


def _stream(content: Sequence[Block], on_text: Callable[[str], None]) -> None:
    for block in content:
        if block["type"] == "text":
            for piece in re.findall(r"\s*\S+\s*|\s+", block["text"]):
                on_text(piece)
