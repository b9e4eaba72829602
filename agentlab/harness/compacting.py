"""Compactions as events, and what is told of the rounds that they drop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentlab.context import Block, ContextState, Cut, Outcome, conclusions, cut_payload, plan_cut
from agentlab.context.state import with_blocks
from agentlab.events import Draft, canonical, plain
from agentlab.evolve import evolve
from agentlab.harness.rig import Rig
from agentlab.session.commands import Compact
from agentlab.session.decide import compaction_room

SUMMARY_PROMPT = (
    "These rounds are about to leave your context. Sum up in at most ten lines what they established: results,"
    " decisions with their reasons, what failed and why, exact names and values that are still needed. Only what"
    " happened; no plans."
)


def perform_compact(command: Compact, rig: Rig) -> list[Draft]:
    """Make scratch fit into the room that the command names."""
    cut = plan_cut(rig.state.context, command.room)
    return [compaction(rig, cut)] if cut is not None else []


def compaction(rig: Rig, cut: Cut) -> Draft:
    """The event of a compaction: what goes, what stays, what is concluded."""
    context = rig.state.context
    payload = cut_payload(cut, context, rig.run.definition.limits.context_tokens)
    if cut.dropped:
        payload["summary"] = _concluded(rig, context, cut)
    return Draft("context_compacted", payload, step=rig.state.plan.current or None)


def leaving(rig: Rig) -> ContextState:
    """A context of the rounds that the next compaction would drop, for a model to sum up."""
    context = rig.state.context
    cut = plan_cut(context, compaction_room(rig.state, rig.run.definition))
    return evolve(with_blocks(context, cut.dropped if cut is not None else ()), notes=(), restate=False)


def too_large(rig: Rig, tokens: int) -> Draft:
    """The event of a request that does not fit although nothing is left to compact; the session pauses."""
    context = rig.state.context
    nothing: dict[str, Any] = {"blocks": 0, "seqs": []}
    payload = {
        "dropped": nothing,
        "kept": {"blocks": len(context.blocks), "from_round": context.round},
        "tokens_before": context.tokens,
        "tokens_after": context.tokens,
        "strategy": "",
        "window": rig.run.definition.limits.context_tokens,
        "over": tokens,
    }
    return Draft("context_compacted", payload, step=rig.state.plan.current or None)


def _concluded(rig: Rig, context: ContextState, cut: Cut) -> str:
    parts = context.spec.parts
    if "model" in parts and context.told:
        return conclusions(context.summary, (), said=context.told)
    if "conclusions" in parts or "model" in parts:
        return conclusions(context.summary, outcomes(rig, cut.dropped))
    return context.summary


def outcomes(rig: Rig, dropped: Iterable[Block]) -> list[Outcome]:
    """The finished calls of some blocks, and what was said without a call, for conclusions."""
    inputs: dict[str, str] = {}
    out = []
    for block in dropped:
        event = rig.event(block.seq)
        p = event.payload
        if block.kind == "response":
            content = p["content"]
            uses = [b for b in content if b.get("type") == "tool_use"] if isinstance(content, list) else []
            inputs.update(zip(p.get("tool_calls") or (), (canonical(b.get("input")) for b in uses), strict=False))
            if not uses and p.get("text"):
                out.append(Outcome(block.seq, block.round, "said", "", str(p["text"])))
            continue
        said = p.get("summary") or p.get("message") or p.get("output")
        text = said if isinstance(said, str) else canonical(plain(said))
        out.append(
            Outcome(
                block.seq,
                block.round,
                event.tool_name or "",
                inputs.get(block.call_id, ""),
                text,
                block.kind == "error",
            )
        )
    return out
