"""Compaction strategies: pure functions of the blocks, combined in the order in which a specification names them.

Each takes blocks and a target in tokens and gives blocks: the same, shortened, or fewer. Rounds go whole, so that
tool_use and tool_result never part; the newest round always stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentlab.context.sizes import capped_tokens
from agentlab.context.spec import ContextSpec
from agentlab.context.state import WHOLE, Block, ContextState
from agentlab.evolve import evolve

Blocks = tuple[Block, ...]
Strategy = Callable[[Blocks, int, ContextSpec], Blocks]
_LEAST = 200
"""Characters that the newest results keep when nothing else makes a request fit."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What a compaction does: the blocks that stay, those that go, and the strategies that had a part in it.

    ``shortened`` maps seqs to the characters that stay of a result.
    """

    kept: Blocks
    dropped: Blocks
    shortened: Mapping[int, int]
    strategy: str
    tokens_before: int
    tokens_after: int


def tokens_of(blocks: Blocks) -> int:
    """Estimated tokens of some blocks."""
    return sum([block.tokens for block in blocks])


def shorten_results(blocks: Blocks, target: int, spec: ContextSpec) -> Blocks:
    """Old tool results cut to ``result_chars`` characters, the oldest first, until the target is met."""
    return _capped(blocks, target, spec, spec.result_chars)


def drop_results(blocks: Blocks, target: int, spec: ContextSpec) -> Blocks:
    """Old tool results reduced to the line that says where they are, the oldest first."""
    return _capped(blocks, target, spec, 0)


def _capped(blocks: Blocks, target: int, spec: ContextSpec, cap: int) -> Blocks:
    if not blocks:
        return blocks
    left, size, limit = tokens_of(blocks), capped_tokens(cap), blocks[-1].round - spec.keep_results
    out = []
    for block in blocks:
        if left > target and block.kind != "response" and block.round <= limit and block.tokens > size:
            left -= block.tokens - size
            block = evolve(block, cap=cap, tokens=size)
        out.append(block)
    return tuple(out)


def window(blocks: Blocks, target: int, spec: ContextSpec) -> Blocks:
    """The newest rounds, at most ``keep_rounds`` of them and at most the target; older ones go whole."""
    if not blocks:
        return blocks
    sizes: dict[int, int] = {}
    for block in blocks:
        sizes[block.round] = sizes.get(block.round, 0) + block.tokens
    newest = first = blocks[-1].round
    total = 0
    for number in sorted(sizes, reverse=True):
        total += sizes[number]
        if number < newest and (total > target or newest - number >= spec.keep_rounds):
            break
        first = number
    return tuple(b for b in blocks if b.round >= first)


def keep(blocks: Blocks, target: int, spec: ContextSpec) -> Blocks:
    """No change: ``conclusions`` and ``model`` say how dropped rounds are summed up, not which go."""
    return blocks


STRATEGIES: dict[str, Strategy] = {
    "results": shorten_results,
    "drop_results": drop_results,
    "window": window,
    "conclusions": keep,
    "model": keep,
}
"""Every strategy by the name that a specification uses."""


def due(state: ContextState, room: int) -> bool:
    """Whether scratch holds too many rounds, or more than the share ``high`` of ``room`` tokens."""
    if not state.blocks:
        return False
    return state.round - state.blocks[0].round >= state.spec.max_rounds or state.tokens > state.spec.high * room


def plan_cut(state: ContextState, room: int) -> Cut | None:
    """What to do so that scratch fits into ``room`` tokens; None when nothing can be made smaller.

    The strategies of the specification come first, each only if what came before was not enough. When they do not
    make it fit, the oldest rounds go all the same, and at last the results of the newest round are shortened.
    """
    spec, blocks = state.spec, state.blocks
    target = max(0, int(room * spec.low))
    acted: list[str] = []

    def apply(name: str, strategy: Strategy, goal: int) -> None:
        nonlocal blocks
        after = strategy(blocks, goal, spec)
        if after != blocks:
            acted.append(name)
            blocks = after

    for name in spec.parts:
        if tokens_of(blocks) > target or _rounds(blocks) > spec.keep_rounds:
            apply(name, STRATEGIES[name], target)
    if tokens_of(blocks) > room or _rounds(blocks) > spec.max_rounds:
        apply("window", window, target)
    if tokens_of(blocks) > room:
        apply("newest", fit_newest, room)
    if blocks == state.blocks:
        return None
    return _cut(state, blocks, acted)


def _rounds(blocks: Blocks) -> int:
    return blocks[-1].round - blocks[0].round + 1 if blocks else 0


def fit_newest(blocks: Blocks, target: int, spec: ContextSpec) -> Blocks:
    """Results cut to an equal share of what the answers leave of the target."""
    fixed = sum([b.tokens for b in blocks if b.kind == "response"])
    results = [b for b in blocks if b.kind != "response"]
    if not results:
        return blocks
    share = max(0, target - fixed) // len(results)
    cap = max(_LEAST, 4 * (share - capped_tokens(0)))
    size = capped_tokens(cap)
    return tuple(evolve(b, cap=cap, tokens=size) if b.kind != "response" and b.tokens > size else b for b in blocks)


def _cut(state: ContextState, blocks: Blocks, acted: list[str]) -> Cut:
    before = {b.seq: b for b in state.blocks}
    after = {b.seq for b in blocks}
    dropped = tuple(b for b in state.blocks if b.seq not in after)
    sums_up = next((n for n in ("model", "conclusions") if n in state.spec.parts), "")
    if dropped and sums_up:
        acted = [*acted, sums_up]
    return Cut(
        kept=blocks,
        dropped=dropped,
        shortened={b.seq: b.cap for b in blocks if b.cap != WHOLE and b.cap != before[b.seq].cap},
        strategy="+".join(dict.fromkeys(acted)),
        tokens_before=tokens_of(state.blocks),
        tokens_after=tokens_of(blocks),
    )


def cut_payload(cut: Cut, state: ContextState, window: int) -> dict[str, Any]:
    """A cut as the payload of ``context_compacted``: references to events, sizes, the strategies that acted."""
    return {
        "dropped": {"blocks": len(cut.dropped), "seqs": ranges([b.seq for b in cut.dropped])},
        "kept": {"blocks": len(cut.kept), "from_round": cut.kept[0].round if cut.kept else state.round},
        "shortened": {"blocks": len(cut.shortened), "seqs": _caps(cut)},
        "tokens_before": cut.tokens_before,
        "tokens_after": cut.tokens_after,
        "strategy": cut.strategy,
        "window": window,
    }


def ranges(seqs: Sequence[int]) -> list[list[int]]:
    """Ascending numbers as ``[first, last]`` runs: the reference stays short however long the window."""
    out: list[list[int]] = []
    for seq in seqs:
        if out and seq == out[-1][1] + 1:
            out[-1][1] = seq
        else:
            out.append([seq, seq])
    return out


def _caps(cut: Cut) -> list[list[int]]:
    out: list[list[int]] = []
    for seq, cap in cut.shortened.items():
        if out and seq == out[-1][1] + 1 and cap == out[-1][2]:
            out[-1][1] = seq
        else:
            out.append([seq, seq, cap])
    return out
