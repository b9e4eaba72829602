"""The events of a recovery: started, the four steps, the statement checked, completed."""

from __future__ import annotations

from typing import Any

from agentlab.events import Draft
from agentlab.harness.rig import Rig
from agentlab.harness.telling import recovery_note
from agentlab.session.commands import (
    CheckStatement,
    CompleteRecovery,
    FinishVerification,
    RebuildContext,
    StartRecovery,
)
from agentlab.session.recovery import check_statement, expected_statement


def perform_start_recovery(command: StartRecovery, rig: Rig) -> list[Draft]:
    recovery = rig.state.recovery
    load = {
        "checkpoint_seq": recovery.checkpoint_seq or None,
        "cursor": recovery.cursor,
        "events": recovery.replayed,
    }
    return [
        Draft("recovery_started", {"cause": command.cause, "plan": list(command.plan)}),
        Draft("recovery_step", {"step": "load", "outcome": "done", "detail": load}),
    ]


def perform_rebuild(command: RebuildContext, rig: Rig) -> list[Draft]:
    told = rig.run.definition.strategy != "nothing" and rig.state.turns > 0
    detail: dict[str, Any] = {"note": recovery_note(rig.state) if told else ""}
    return [Draft("recovery_step", {"step": "rebuild", "outcome": "done", "detail": detail})]


def perform_finish_verification(command: FinishVerification, rig: Rig) -> list[Draft]:
    payload = {
        "step": "verify",
        "outcome": "in doubt" if command.open else "done",
        "detail": {"in_doubt": command.open},
    }
    return [Draft("recovery_step", payload)]


def perform_check_statement(command: CheckStatement, rig: Rig) -> list[Draft]:
    expected = expected_statement(rig.state)
    wrong = check_statement(command.statement, expected)
    payload: dict[str, Any] = {"passed": not wrong, "corrections": list(wrong), "statement": command.statement[:2000]}
    if wrong:
        payload["expected"] = expected
    return [
        Draft("statement_checked", payload, parent_seq=rig.state.recovery.statement_seq or None),
        Draft("recovery_step", {"step": "statement", "outcome": "done" if not wrong else "corrected"}),
    ]


def perform_complete_recovery(command: CompleteRecovery, rig: Rig) -> list[Draft]:
    state = rig.state
    payload = {
        "lost_steps": state.recovery.steps_at_crash - state.plan.completed,
        "redone": list(state.recovery.redone),
        "strategy": rig.run.definition.strategy,
    }
    return [Draft("recovery_completed", payload)]
