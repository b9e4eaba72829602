"""The events of a recovery: started, the four steps with their durations, the statement checked, completed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentlab.errors import CheckpointError
from agentlab.events import GENESIS, Draft, Event
from agentlab.harness.restoring import checkpoint_at
from agentlab.harness.rig import Rig
from agentlab.harness.telling import recovery_note
from agentlab.session.commands import (
    CheckStatement,
    CompleteRecovery,
    FinishVerification,
    RebuildContext,
    StartRecovery,
)
from agentlab.session.fold import fold_all
from agentlab.session.recovery import check_statement, expected_statement
from agentlab.session.schemes import scheme_named
from agentlab.session.state import State
from agentlab.session.strategies import strategy_named
from agentlab.session.superseding import is_superseded, ranges, restored_draft
from agentlab.session.tax import Tax, tax_of

LOOK_BACK = 64
"""Events before a recovery that are read again to see when the death was, and whether it cut a model call."""


def perform_start_recovery(command: StartRecovery, rig: Rig) -> list[Draft]:
    """Say what was loaded and what is planned; under the scheme *snapshot* also go back to what was loaded."""
    recovery = rig.state.recovery
    load = {
        "checkpoint_seq": recovery.checkpoint_seq or None,
        "cursor": recovery.cursor,
        "events": recovery.replayed,
    }
    drafts = [
        Draft("recovery_started", {"cause": command.cause, "plan": list(command.plan)}),
        Draft("recovery_step", {"step": "load", "outcome": "done", "detail": load}, duration_ms=rig.load_ms),
    ]
    if scheme_named(rig.run.definition.scheme).goes_back(rig.state):
        drafts += _back(rig)
    return drafts


def _back(rig: Rig) -> list[Draft]:
    """Back to the newest checkpoint in force that verifies, or to the beginning; those that do not verify are named."""
    skipped: list[Draft] = []
    for event in reversed(_in_force(rig)):
        try:
            found, then = checkpoint_at(rig.log, rig.blobs, event.seq)
        except CheckpointError as error:
            skipped.append(Draft("checkpoint_skipped", {"checkpoint_seq": event.seq, "reason": str(error)}))
            continue
        label = str(found.payload.get("label", ""))
        return [*skipped, restored_draft(rig.state, then, event.seq, "scheme snapshot", label=label)]
    then = fold_all(State(hash=GENESIS), rig.log.replay(1, 1))
    draft = restored_draft(rig.state, then, 0, "scheme snapshot: no checkpoint yet")
    # The acceptance of the task is never superseded.
    return [*skipped, replace(draft, payload={**draft.payload, "superseded_from": 2})]


def _in_force(rig: Rig) -> list[Event]:
    """Checkpoints that nothing has superseded, oldest first."""
    if not rig.state.checkpoint.written:
        return []
    kept = [e for e in rig.log.replay(1) if e.type in ("checkpoint_written", "restored_to")]
    aside = ranges(kept)
    return [e for e in kept if e.type == "checkpoint_written" and not is_superseded(e.seq, aside)]


def perform_rebuild(command: RebuildContext, rig: Rig) -> list[Draft]:
    """The facts that the model is told, or the history as it was, as the strategy says."""
    started = rig.clock.monotonic()
    strategy = strategy_named(rig.run.definition.strategy)
    told = strategy.purifies() and rig.state.turns > 0
    detail: dict[str, Any] = {"note": recovery_note(rig.state) if told else ""}
    if not strategy.purifies():
        detail["history"] = "kept"
    duration = round((rig.clock.monotonic() - started) * 1000, 3)
    return [Draft("recovery_step", {"step": "rebuild", "outcome": "done", "detail": detail}, duration_ms=duration)]


def perform_finish_verification(command: FinishVerification, rig: Rig) -> list[Draft]:
    payload = {
        "step": "verify",
        "outcome": "in doubt" if command.open else "done",
        "detail": {"in_doubt": command.open},
    }
    return [Draft("recovery_step", payload, duration_ms=_since_step(rig))]


def perform_check_statement(command: CheckStatement, rig: Rig) -> list[Draft]:
    """Compare by rule; a wrong one is told to the model once, with what the log says."""
    expected = expected_statement(rig.state)
    wrong = check_statement(command.statement, expected)
    payload: dict[str, Any] = {"passed": not wrong, "corrections": list(wrong), "statement": command.statement[:2000]}
    if wrong:
        payload["expected"] = expected
    outcome = "done" if not wrong else "corrected"
    return [
        Draft("statement_checked", payload, parent_seq=rig.state.recovery.statement_seq or None),
        Draft("recovery_step", {"step": "statement", "outcome": outcome}, duration_ms=_since_step(rig)),
    ]


def perform_complete_recovery(command: CompleteRecovery, rig: Rig) -> list[Draft]:
    """The session goes on; what the crash cost is on record, apart from the work."""
    state = rig.state
    drafts = []
    if command.skipped_statement:
        why = {"strategy": rig.run.definition.strategy, "turns": state.turns}
        payload = {"step": "statement", "outcome": "skipped", "detail": why}
        drafts.append(Draft("recovery_step", payload, duration_ms=0.0))
    tax = _tax(rig)
    completed = {
        "lost_steps": max(0, state.recovery.steps_at_crash - state.plan.completed),
        "redone": list(state.recovery.redone),
        "strategy": rig.run.definition.strategy,
        "scheme": rig.run.definition.scheme,
        "tax": tax.to_json(),
    }
    return [*drafts, Draft("recovery_completed", completed, duration_ms=round(tax.seconds * 1000, 3))]


def _tax(rig: Rig) -> Tax:
    """The tax of the recovery in progress, up to now."""
    rig.recorder.commit()
    first = rig.state.recovery.started_seq
    events = list(rig.log.replay(max(1, first - LOOK_BACK)))
    span = [event for event in events if event.seq >= first]
    before = [event for event in events if event.seq < first]
    given_up: list[Event] = []
    for low, high in ranges(span):
        given_up += list(rig.log.replay(low, min(high, first - 1)))
    return tax_of(span, before, given_up)


def _since_step(rig: Rig) -> float:
    began = rig.state.recovery.step_ts
    return round(max(0, rig.clock.now_us() - began) / 1000, 3) if began else 0.0
