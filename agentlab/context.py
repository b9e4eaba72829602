"""Context in three layers: what the model sees, chosen as references and rendered as text. Pure.

*fixed* (role, tools, rules) is byte-stable; *task* (goal, the user's words, constraints, anchors, plan) is in
every request verbatim; *scratch* (answers, results) is the only layer that is made smaller, and only by whole
rounds, so that tool_use and tool_result never part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentlab.evolve import evolve

MAX_ROUNDS = 60
"""Rounds that scratch may hold before it is compacted."""
KEPT_ROUNDS = 30
MAX_ANCHORS = 64


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of scratch by reference: the event that holds it, its role and size in estimated tokens.

    ``kind`` is ``response``, ``result``, ``error`` or ``note``; ``round`` counts model answers.
    """

    seq: int
    kind: str
    tokens: int
    round: int
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class ContextState:
    """The scratch layer and what is pinned. ``dropped`` counts blocks that compactions took out of sight."""

    blocks: tuple[Block, ...] = ()
    anchors: Mapping[str, str] = field(default_factory=dict)
    round: int = 0
    dropped: int = 0
    notes: tuple[str, ...] = ()
    """Short texts for the model's next request (a validator's reasons, what a recovery found)."""

    @property
    def tokens(self) -> int:
        """Estimated tokens of scratch."""
        return sum(block.tokens for block in self.blocks)


def add(state: ContextState, block: Block) -> ContextState:
    """Append a block; an answer (``response``) opens the next round and consumes the notes."""
    if block.kind == "response":
        return evolve(state, blocks=(*state.blocks, block), round=block.round, notes=())
    return evolve(state, blocks=(*state.blocks, block))


def needs_compaction(state: ContextState, token_limit: int) -> bool:
    """Whether scratch holds too many rounds or more than ``token_limit`` estimated tokens."""
    if not state.blocks:
        return False
    rounds = state.round - state.blocks[0].round
    return rounds >= MAX_ROUNDS or (rounds >= 1 and state.tokens > token_limit)


def keep_from_round(state: ContextState, token_limit: int) -> int:
    """The first round to keep so that scratch holds half the limits; the newest round always stays."""
    tokens, first = 0, state.round
    for block in reversed(state.blocks):
        tokens += block.tokens
        if block.round < state.round and (tokens > token_limit // 2 or state.round - block.round >= KEPT_ROUNDS):
            break
        first = block.round
    return min(first, state.round)


def drop_before(state: ContextState, round_number: int) -> ContextState:
    """Scratch without the rounds before ``round_number``."""
    kept = tuple(b for b in state.blocks if b.round >= round_number)
    return evolve(state, blocks=kept, dropped=state.dropped + len(state.blocks) - len(kept))


def purified(state: ContextState, open_round: bool) -> ContextState:
    """Scratch after a recovery: only a round whose calls are not yet answered; the rest is told as facts."""
    if not open_round:
        return evolve(state, blocks=(), dropped=state.dropped + len(state.blocks))
    return drop_before(state, state.round)


def estimate_tokens(text_length: int) -> int:
    """Tokens of a text of ``text_length`` characters: a quarter, rounded up. An estimate for planning only."""
    return (text_length + 3) // 4


def task_text(
    goal: str, user_input: str, constraints: Sequence[str], params: Mapping[str, Any], anchors: Mapping[str, str]
) -> str:
    """The task layer as text: goal, the user's own words, constraints and anchors, each verbatim."""
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


def build_messages(
    task: str, state: ContextState, content: Mapping[int, Sequence[Mapping[str, Any]]], summary: str
) -> list[dict[str, Any]]:
    """The messages of a request: task layer first, scratch by rounds, the current summary restated last.

    ``content`` maps a block's seq to its API content blocks (an answer's blocks, or one tool_result). Roles
    alternate and results stand before other content in their message.
    """
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": task}]}]
    for block in state.blocks:
        role = "assistant" if block.kind == "response" else "user"
        blocks = list(content[block.seq]) or [{"type": "text", "text": "(no text)"}]
        if messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})
    tail = [{"type": "text", "text": text} for text in (*state.notes, summary) if text]
    if messages[-1]["role"] == "user":
        messages[-1]["content"].extend(tail)
    else:
        messages.append({"role": "user", "content": tail or [{"type": "text", "text": "Go on."}]})
    return messages
