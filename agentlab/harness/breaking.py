"""The hard cap of rounds in one step: no nudge, one recovery from before the repetition, then a rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentlab.context import conclusions
from agentlab.errors import AgentlabError
from agentlab.events import Draft
from agentlab.harness.compacting import outcomes
from agentlab.harness.restoring import checkpoint_at, restore_note
from agentlab.harness.rig import Rig
from agentlab.session.commands import BreakRounds
from agentlab.session.state import State
from agentlab.session.superseding import restored_draft

MAX_LINES = 12


def perform_break(command: BreakRounds, rig: Rig) -> list[Draft]:
    """The verdict with its evidence; to recover, also the way back to the newest checkpoint before the repetition."""
    evidence = _evidence(rig.state)
    message = f"Step {command.step_id} has used {command.rounds} of {command.cap} rounds without being done."
    payload: dict[str, Any] = {"rule": "rounds", "action": command.action, "evidence": evidence, "message": message}
    if command.action != "recover":
        return [Draft("guard_verdict", payload, step=rig.state.plan.current or None)]
    rig.recorder.commit()
    fact = "\n".join(
        [f"Confirmed by the log: {message} These calls did not finish it:", *_lines(rig), "Take another way."]
    )
    payload["message"] = fact
    found = _checkpoint_before(rig, _begin(rig.state))
    if found is not None:
        payload["checkpoint_seq"] = found[0]
    verdict = Draft("guard_verdict", payload, step=rig.state.plan.current or None)
    if found is None:
        return [verdict]
    rig.recorder.stage((verdict,))
    seq, then = found
    back = restored_draft(rig.state, then, seq, "rounds", note=f"{restore_note(rig, then)}\n{fact}")
    rig.recorder.commit((replace(back, payload={**back.payload, "purified": True}),))
    return []


def _evidence(state: State) -> list[int]:
    """The results of the step's rounds; the answers where there was none."""
    first = state.context.round - state.plan.rounds
    blocks = [b for b in state.context.blocks if b.round > first]
    return [b.seq for b in blocks if b.kind != "response"] or [b.seq for b in blocks]


def _begin(state: State) -> int:
    """The answer with which the step's rounds began: a checkpoint after it has some of the repetition in it."""
    first = state.context.round - state.plan.rounds
    return next((b.seq for b in state.context.blocks if b.round > first), state.seq)


def _lines(rig: Rig) -> list[str]:
    first = rig.state.context.round - rig.state.plan.rounds
    blocks = [b for b in rig.state.context.blocks if b.round > first]
    return conclusions("", outcomes(rig, blocks)).split("\n")[-MAX_LINES:]


def _checkpoint_before(rig: Rig, seq: int) -> tuple[int, State] | None:
    """The newest checkpoint in force whose state is from before event ``seq``; None when there is none to go back to."""
    for pointer in rig.log.pointers():
        if pointer.seq < seq:
            try:
                return pointer.seq, checkpoint_at(rig.log, rig.blobs, pointer.seq)[1]
            except AgentlabError:
                continue  # superseded or damaged: the one before serves
    return None
