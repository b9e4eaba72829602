"""The folded context: scratch as blocks by reference, what is pinned, what is told once, and where drift stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentlab.context.sizes import capped_tokens, estimate_tokens
from agentlab.context.spec import ContextSpec
from agentlab.evolve import evolve

WHOLE = -1
"""The ``cap`` of a block that is shown as it is."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of scratch by reference: the event that holds it, its role and size in estimated tokens.

    ``kind`` is ``response``, ``result`` or ``error``; ``round`` counts model answers; ``cap`` is how many characters
    of a shortened result are shown (0: none, only that there was one), :data:`WHOLE` for all.
    """

    seq: int
    kind: str
    tokens: int
    round: int
    call_id: str = ""
    cap: int = WHOLE


@dataclass(frozen=True, slots=True)
class ContextState:
    """The scratch layer and what is pinned. ``dropped`` counts blocks that compactions took out of sight."""

    blocks: tuple[Block, ...] = ()
    tokens: int = 0
    """Estimated tokens of the blocks."""
    anchors: Mapping[str, str] = field(default_factory=dict)
    round: int = 0
    dropped: int = 0
    notes: tuple[str, ...] = ()
    """Short texts for the model's next request (a validator's reasons, what a recovery found)."""
    spec: ContextSpec = field(default_factory=ContextSpec)
    summary: str = ""
    """What compactions concluded from the rounds that they dropped; bounded."""
    told: str = ""
    """A model's summary that the next compaction takes over."""
    shortened: int = 0
    """How many results compactions shortened."""
    full: str = ""
    """``now`` when an anchor found no place, ``told`` once a person knows."""
    over: int = 0
    """Estimated tokens of a request that did not fit although nothing is left to compact; 0 when it fits."""
    course: tuple[str, ...] = ()
    """Terms of what the first rounds were about; a course for the drift of tasks whose goal says little."""
    restate: bool = False
    """The task layer is put on top again until the model has answered."""
    restated_round: int = 0
    judged_round: int = 0
    model_failed: bool = False
    """The summary by a model failed: the next compaction concludes by rule."""

    @property
    def extra_tokens(self) -> int:
        """Estimated tokens of what is told beside scratch: anchors, summary, notes."""
        if not (self.anchors or self.summary or self.notes):
            return 0
        length = len(self.summary) + sum([min(len(n), NOTE_CHARS) + 8 for n in self.notes[-MAX_NOTES:]])
        return estimate_tokens(length + sum([len(k) + len(v) + 8 for k, v in self.anchors.items()]))


MAX_NOTES = 20
"""Notes of one request; of more, the newest are told."""
NOTE_CHARS = 4000
"""Characters of one note that are told."""


def add(state: ContextState, block: Block) -> ContextState:
    """Append a block; an answer (``response``) opens the next round, consumes the notes and ends a restatement."""
    tokens = state.tokens + block.tokens
    if block.kind == "response":
        return evolve(state, blocks=(*state.blocks, block), tokens=tokens, round=block.round, notes=(), restate=False)
    return evolve(state, blocks=(*state.blocks, block), tokens=tokens)


def with_blocks(state: ContextState, blocks: tuple[Block, ...]) -> ContextState:
    """The state with fewer or smaller blocks; those that went are counted."""
    gone = len(state.blocks) - len(blocks)
    return evolve(state, blocks=blocks, tokens=sum([b.tokens for b in blocks]), dropped=state.dropped + gone)


def compacted(state: ContextState, payload: Mapping[str, Any]) -> ContextState:
    """Scratch after a ``context_compacted`` event: rounds gone, results shortened, conclusions kept."""
    gone = _members(payload["dropped"].get("seqs"))
    if gone is None:  # as the first version wrote it: everything before a round
        return drop_before(state, payload["kept"]["from_round"])
    caps = {
        seq: cap for first, last, cap in payload.get("shortened", {}).get("seqs", ()) for seq in range(first, last + 1)
    }
    blocks = tuple(
        evolve(b, cap=caps[b.seq], tokens=min(b.tokens, capped_tokens(caps[b.seq]))) if b.seq in caps else b
        for b in state.blocks
        if b.seq not in gone
    )
    return evolve(
        with_blocks(state, blocks),
        shortened=state.shortened + len(caps),
        summary=payload.get("summary", state.summary),
        told="",
        model_failed=False,
        over=payload.get("over", 0),
    )


def _members(ranges: Sequence[Sequence[int]] | None) -> set[int] | None:
    return None if ranges is None else {seq for first, last in ranges for seq in range(first, last + 1)}


def drop_before(state: ContextState, round_number: int) -> ContextState:
    """Scratch without the rounds before ``round_number``."""
    return with_blocks(state, tuple(b for b in state.blocks if b.round >= round_number))


def purified(state: ContextState, open_round: bool) -> ContextState:
    """Scratch after a recovery: only a round whose calls are not yet answered; the rest is told as facts."""
    state = evolve(state, summary="", told="", over=0)
    if not open_round:
        return with_blocks(state, ())
    return drop_before(state, state.round)
