"""When two runs will go on equally: a state with everything left out that only tells how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab.explorer.world import World
from agentlab.harness.rig import Rig
from agentlab.session.state import State

Key = tuple[Any, ...]


def boundary(state: State) -> bool:
    """Whether a run stands where runs are compared: out of recovery, a sandbox in place."""
    return (
        state.recovery.phase == "" and state.sandbox.status in ("ready", "none") and state.control.status == "running"
    )


def key_of(world: World, rig: Rig) -> Key:
    """What the rest of a run depends on: plan, open calls, context as read, workspace, outside; not seq, time or cost."""
    state = rig.state
    keys = {call.key: call.tool + call.input_hash for call in state.calls if call.key}
    return (
        _plan(state),
        tuple((c.tool, c.input_hash, c.status, c.tries, bool(c.key), c.approved, c.last_error) for c in state.calls),
        _context(state, rig),
        tuple(sorted((s.tool, s.input_hash, s.outcome) for s in state.effects.recent)),
        tuple(sorted(state.effects.first_calls)),
        _budget(state),
        (state.turns if rig.run.definition.limits.max_turns is not None else 0) // 50,
        (state.errors_in_a_row, state.responses_unread, state.model.failures, state.model.gave_up),
        (
            state.checkpoint.requested,
            state.checkpoint.also,
            state.checkpoint.milestone,
            state.checkpoint.large_result,
            state.checkpoint.steps_since,
        ),
        tuple(event.type for event in rig.recorder._events),
        _sandbox(world, state),
        tuple(sorted((e.operation, keys.get(e.key, "")) for e in world.outside.entries)),
        repr(sorted(world.outside.notes.items())),
        world.subject.process(),
    )


def _plan(state: State) -> Key:
    p = state.plan
    done = tuple(step_id for step_id, _, _ in p.recent)
    return (len(p.steps), p.current, p.started, p.completed, done, p.claimed, p.to_validate, p.attempt, p.finished,
            p.verdict, p.reasons, p.answer, p.rounds)  # fmt: skip


def _context(state: State, rig: Rig) -> Key:
    blocks = []
    for block in state.context.blocks:
        event = rig.event(block.seq)
        said: Mapping[str, Any] = event.payload
        shown = [said.get(name) for name in ("text", "output", "message", "tool", "not_run", "reused")]
        blocks.append((block.kind, repr(shown)))
    anchors = tuple(sorted(state.context.anchors.items()))
    # What a second recovery tells again word for word changes nothing.
    return tuple(blocks), anchors, tuple(dict.fromkeys(_timeless(note) for note in state.context.notes))


def _timeless(note: str) -> str:
    import re

    return re.sub(r"\(event \d+\)|#\d+", "", note)


def _budget(state: State) -> Key:
    limited = state.budget.limits
    return tuple((dimension, state.budget.left(dimension)) for dimension in sorted(limited))


def _sandbox(world: World, state: State) -> Key:
    sandbox = state.sandbox
    calls = {call.call_id: index for index, call in enumerate(state.calls)}
    box = world.sandboxes._boxes.get(sandbox.sandbox_id)
    if box is None:
        return (sandbox.status,)
    waiting = sorted(calls[e.rpartition(".")[0]] for e in box.results if e.rpartition(".")[0] in calls)
    files = tuple(sorted(box.workspace.items()))
    return sandbox.status, box.alive, files, tuple(waiting), sandbox.snapshot, len(sandbox.since_snapshot)
