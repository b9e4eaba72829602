"""Steps, attempts and their validators: the inner loop ends a step, the outer one judges the whole task."""

from __future__ import annotations

from typing import Any

from agentlab.definition import ValidatorSpec, step_to_json
from agentlab.errors import SandboxGone, ToolHostError
from agentlab.events import Draft, canonical, plain
from agentlab.harness import toolcalls
from agentlab.harness.rig import Rig
from agentlab.ports import ToolInvocation, ToolOutcome
from agentlab.session.commands import CompleteStep, Remind, StartAttempt, StartStep, ValidateStep, ValidateTask
from agentlab.toolhost.outcome import result_of


def perform_start_attempt(command: StartAttempt, rig: Rig) -> list[Draft]:
    """Begin a pass of the outer loop; the plan of the task is set with the first."""
    payload: dict[str, Any] = {"attempt": command.attempt}
    if command.reasons:
        payload["reasons"] = list(command.reasons)
    drafts = [Draft("attempt_started", payload, attempt=command.attempt)]
    steps = rig.run.definition.steps
    if command.attempt == 1 and steps:
        shown = [step_to_json(step) for step in steps]
        drafts.append(Draft("plan_set", {"steps": shown, "source": "task"}, attempt=command.attempt))
    return drafts


def perform_start_step(command: StartStep, rig: Rig) -> list[Draft]:
    payload = {"step_id": command.step_id, "kind": command.kind, "title": command.title}
    return [Draft("step_started", payload, step=command.number, attempt=rig.state.plan.attempt)]


def perform_remind(command: Remind, rig: Rig) -> list[Draft]:
    payload = {"step_id": command.step_id, "satisfied": False, "reasons": [command.text]}
    return [Draft("step_validated", payload, step=command.number, attempt=rig.state.plan.attempt)]


def perform_complete_step(command: CompleteStep, rig: Rig) -> list[Draft]:
    return [_completed(rig, command.number, command.step_id, command.summary)]


def perform_validate_step(command: ValidateStep, rig: Rig) -> list[Draft]:
    """Ask the step's validator; a satisfied one completes the step in the same commit."""
    step = rig.state.plan.steps[command.number - 1]
    assert step.validator is not None
    answer = _ask(rig, step.validator, f"step{command.number}")
    if isinstance(answer, Draft):
        return [answer]
    reasons, duration = answer
    payload = {"step_id": step.id, "satisfied": not reasons, "reasons": reasons}
    asked = Draft("step_validated", payload, duration_ms=duration, step=command.number, attempt=rig.state.plan.attempt)
    if reasons:
        return [asked]
    summary = rig.state.plan.claimed or _newest_result(rig) or "validated"
    return [asked, _completed(rig, command.number, step.id, summary)]


def perform_validate_task(command: ValidateTask, rig: Rig) -> list[Draft]:
    """Ask the validator of the whole task."""
    validator = rig.run.definition.validator
    assert validator is not None
    answer = _ask(rig, validator, "task")
    if isinstance(answer, Draft):
        return [answer]
    reasons, duration = answer
    payload = {"satisfied": not reasons, "reasons": reasons}
    return [Draft("task_validated", payload, duration_ms=duration, attempt=command.attempt)]


def _completed(rig: Rig, number: int, step_id: str, summary: str) -> Draft:
    stats = rig.state.plan.stats.get(step_id)
    payload: dict[str, Any] = {"step_id": step_id, "summary": summary[:1000]}
    if stats is not None:
        payload["evidence"] = {"model_calls": stats.model_calls, "tool_calls": stats.tool_calls, "errors": stats.errors}
    return Draft("step_completed", payload, step=number, attempt=rig.state.plan.attempt)


def _newest_result(rig: Rig) -> str:
    for block in reversed(rig.state.context.blocks):
        if block.kind == "result":
            return str(rig.event(block.seq).payload.get("summary") or "")
    return ""


def _ask(rig: Rig, validator: ValidatorSpec, what: str) -> tuple[list[str], float] | Draft:
    """Reasons (none when satisfied) and milliseconds; a draft when the sandbox was lost meanwhile."""
    rig.recorder.commit()
    call_id = f"v{rig.state.seq}.{what}"
    call = ToolInvocation(call_id, validator.ref, {}, timeout_s=validator.timeout_s, params=rig.run.definition.params)
    if validator.effect == "sandboxed":
        assert rig.sandbox is not None
        exec_id = f"{call_id}.{rig.recorder.incarnation}"
        try:
            completed = rig.sandbox.execute(exec_id, rig.execution_for(call))
        except SandboxGone as error:
            return toolcalls.lost_draft(rig, str(error))
        rig.unacknowledged.append(exec_id)
        outcome = result_of(completed)
    else:
        try:
            outcome = rig.toolhost.call(call)
        except ToolHostError as error:
            outcome = ToolOutcome(False, kind="died", message=str(error))
    return reasons_of(outcome, what), outcome.duration_ms


def reasons_of(outcome: ToolOutcome, what: str) -> list[str]:
    """A validator's answer as reasons: none when it gave None, True or an empty list."""
    if not outcome.ok:
        return [
            f"the validator of {what} failed: {outcome.error_type or outcome.kind}: {outcome.message or 'no message'}"
        ]
    value = outcome.value
    if value is None or value is True or value == []:
        return []
    if value is False:
        return [f"the validator of {what} is not satisfied"]
    if isinstance(value, dict) and "ok" in value:
        reasons = [str(r) for r in value.get("reasons") or ()]
        return [] if value["ok"] else reasons or [f"the validator of {what} is not satisfied"]
    if isinstance(value, list):
        return [str(v) for v in value]
    return [value if isinstance(value, str) else canonical(plain(value))]
