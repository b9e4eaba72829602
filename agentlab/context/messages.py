"""The three layers as a request's messages: task first, scratch by rounds, the current summary restated last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentlab.context.state import MAX_NOTES, NOTE_CHARS, ContextState
from agentlab.events import Fixed

CACHE = {"type": "ephemeral"}
"""The mark at which a provider's prompt cache may cut."""
AGAIN = "The last rounds led away from the task. This is the task, again:"


def fixed_text(system: str, rules: str, constraints: Sequence[str]) -> str:
    """The fixed layer as text: role, rules and global constraints; the same bytes in every request of a session."""
    parts = [part for part in (system, rules) if part]
    if constraints:
        parts.append("# Constraints\n" + "\n".join(f"- {c}" for c in constraints))
    return "\n\n".join(parts)


def task_text(
    goal: str, user_input: str, constraints: Sequence[str], params: Mapping[str, Any], anchors: Mapping[str, str]
) -> str:
    """The task layer as text: goal, the user's own words, constraints, parameters and anchors, each verbatim."""
    parts = [f"# Goal\n<goal>{goal}</goal>"]
    if user_input and user_input != goal:
        parts.append(f"# The user's own words\n{user_input}")
    if constraints:
        parts.append("# Constraints\n" + "\n".join(f"- {c}" for c in constraints))
    if params:
        parts.append("# Parameters\n" + "\n".join(f"- {k}: {v}" for k, v in sorted(params.items())))
    if anchors:
        parts.append("# Pinned facts\n" + "\n".join(f"- {k}: {v}" for k, v in anchors.items()))
    return "\n\n".join(parts)


def told_notes(notes: Sequence[str]) -> list[str]:
    """The notes of a request: the newest, none longer than :data:`~agentlab.context.state.NOTE_CHARS`."""
    return [n if len(n) <= NOTE_CHARS else n[: NOTE_CHARS - 1] + "…" for n in notes[-MAX_NOTES:]]


def build_messages(
    task: Mapping[str, Any] | str,
    state: ContextState,
    content: Mapping[int, Sequence[Mapping[str, Any]]],
    summary: str,
    again: str = "",
) -> list[dict[str, Any]]:
    """The messages of a request. ``task`` is the task layer, as text or as a content block.

    ``content`` maps a block's seq to its API content blocks (an answer's blocks, or one tool_result); ``summary`` is
    the current task summary, ``again`` what is put on top again before it. Roles alternate, and results stand before
    other content in their message.
    """
    layer: Mapping[str, Any] = {"type": "text", "text": task} if isinstance(task, str) else task
    opening: list[Mapping[str, Any]] = [layer]
    if state.summary:
        opening.append({"type": "text", "text": f"# What earlier rounds came to\n{state.summary}"})
    messages: list[dict[str, Any]] = [{"role": "user", "content": opening}]
    for block in state.blocks:
        role = "assistant" if block.kind == "response" else "user"
        blocks = list(content[block.seq]) or [{"type": "text", "text": "(no text)"}]
        if messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})
    tail = [{"type": "text", "text": text} for text in (*told_notes(state.notes), again, summary) if text]
    if messages[-1]["role"] == "user":
        messages[-1]["content"].extend(tail)
    else:
        messages.append({"role": "user", "content": tail or [{"type": "text", "text": "Go on."}]})
    return messages


def task_block(text: str) -> Fixed:
    """The task layer as a content block with a cache mark; the same object as long as nothing in it changes."""
    return Fixed({"type": "text", "text": text, "cache_control": CACHE})
