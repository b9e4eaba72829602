"""Pausing, asking a person, ending."""

from __future__ import annotations

from typing import Any

from agentlab.errors import SandboxGone
from agentlab.events import Draft
from agentlab.harness import pooling
from agentlab.harness.checkpointing import snapshot_draft
from agentlab.harness.rig import Rig
from agentlab.harness.toolcalls import lost_draft
from agentlab.session.commands import AskPerson, End, Pause
from agentlab.session.statecodec import to_json


def perform_pause(command: Pause, rig: Rig) -> list[Draft]:
    payload = {"reason": command.reason}
    if command.detail:
        payload["detail"] = command.detail
    pause = Draft("session_paused", payload, step=rig.state.plan.current or None)
    rig.recorder.commit((*(pooling.returning(rig) if command.reason != "step" else ()), pause))
    pooling.give_back(rig)
    rig.acknowledge()
    return []


def perform_ask_person(command: AskPerson, rig: Rig) -> list[Draft]:
    payload: dict[str, Any] = {"question": command.question, "kind": command.kind}
    if command.options:
        payload["options"] = list(command.options)
    if command.call_id:
        payload["call_id"] = command.call_id
    if command.key:
        payload["key"] = command.key
    question = Draft("question_asked", payload, step=rig.state.plan.current or None, call_id=command.call_id or None)
    rig.recorder.commit((*pooling.returning(rig), question))
    pooling.give_back(rig)
    return []


def perform_end(command: End, rig: Rig) -> list[Draft]:
    """Keep the workspace as a snapshot, record the totals, give the sandbox back."""
    rig.recorder.commit()
    try:
        snapshot = snapshot_draft(rig)
    except SandboxGone as error:
        if rig.state.sandbox.since_snapshot:  # the files that the task was for are in no snapshot: restored, then kept
            return [lost_draft(rig, str(error))]
        snapshot = None
    if snapshot is not None:
        rig.recorder.stage((snapshot,))
    state = rig.state
    totals = {
        **dict(state.budget.used),
        "turns": state.turns,
        "effects": state.effects.completed,
        "checkpoints": state.checkpoint.written,
        "crashes": state.recovery.crashes,
        "incarnations": state.incarnation,
        "wall_ms": round((rig.clock.now_us() - state.started_ts) / 1000),
    }
    result = {"answer": state.plan.answer, "reason": command.reason, "snapshot": state.sandbox.snapshot or None}
    payload = {"outcome": command.outcome, "result": result, "totals": totals, "steps": to_json(dict(state.plan.stats))}
    ended = Draft("session_ended", payload, attempt=state.plan.attempt)
    rig.recorder.commit((*pooling.returning(rig), ended))
    pooling.give_back(rig)
    if rig.sandbox is not None:
        rig.sandbox.destroy()
        rig.sandbox = None
    return []
