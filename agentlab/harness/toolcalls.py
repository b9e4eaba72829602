"""Tool calls: pure ones in the tool host, sandboxed ones as idempotent executions, built-in ones from the log.

Whatever goes wrong becomes a ``tool_error`` that the model sees. External effects are in
:mod:`agentlab.harness.effects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab.crashpoints import CrashPoint, misdeed, reach
from agentlab.definition import STEP_KINDS, StepSpec, ToolSpec, step_to_json
from agentlab.errors import SandboxError, SandboxGone, ToolHostError
from agentlab.events import Draft, plain
from agentlab.harness import effects, pooling
from agentlab.harness.anchoring import remember
from agentlab.harness.recalling import recall
from agentlab.harness.retrying import retries_spent, tool_delay
from agentlab.harness.rig import Rig
from agentlab.policies import asks_for_bytes
from agentlab.ports import Completed, ToolInvocation, ToolOutcome
from agentlab.session.commands import AnswerCall, RunCall
from agentlab.session.state import Call
from agentlab.toolhost.outcome import result_of

MAX_PLAN = 100


def perform_call(command: RunCall, rig: Rig) -> list[Draft]:
    """Carry out one call and answer with its result, its error, or a retry."""
    call = rig.state.call(command.call_id)
    assert call is not None
    tool = rig.tool(call.tool)
    arguments = rig.arguments(call)
    problem = bad_input(tool, arguments)
    if problem:
        return [error_draft(rig, call, problem, kind="bad_input")]
    if tool.builtin:
        return _builtin(rig, call, tool, arguments)
    if not rig.wait_until(command.not_before_us) or not pooling.pace(rig, call.tool):
        return []  # a pause was asked for: nothing is sent
    rig.recorder.commit()
    rig.acknowledge()
    # An input may have landed first, and the call was sealed again: its number makes the key, so it is read anew.
    call = rig.state.call(command.call_id)
    assert call is not None
    if tool.effect == "external":
        return effects.perform_effect(rig, call, tool, arguments)
    if tool.effect == "sandboxed":
        return _sandboxed(rig, call, tool, arguments)
    return _pure(rig, call, tool, arguments)


def perform_answer(command: AnswerCall, rig: Rig) -> list[Draft]:
    """Give a call its one result without running it."""
    call = rig.state.call(command.call_id)
    assert call is not None
    if not command.ok:
        return [error_draft(rig, call, command.text, kind=command.kind, not_run=True)]
    drafts = [result_draft(rig, call, command.text, not_run=True)]
    if command.kind == "settled":
        completed = {"key": call.key, "call_id": call.call_id, "tool": call.tool, "verified": "by a person"}
        drafts.insert(
            0, Draft("effect_completed", completed, tool_name=call.tool, call_id=call.call_id, effect_key=call.key)
        )
    return drafts


def bad_input(tool: ToolSpec, arguments: Mapping[str, Any]) -> str | None:
    """What is wrong with a call's input, or None: missing or unknown arguments, or no JSON object at all."""
    if "$malformed" in arguments:
        return f"the input of {tool.name} is not a JSON object"
    schema = tool.input_schema
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    if missing:
        return f"{tool.name} needs {', '.join(missing)}; its input schema says what each one is"
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and schema.get("additionalProperties") is False:
        unknown = sorted(set(arguments) - set(properties))
        if unknown:
            return f"{tool.name} has no argument {', '.join(unknown)}; it takes {', '.join(properties) or 'none'}"
    return None


# --- results as drafts ---------------------------------------------------------------------------------------------


def _place(rig: Rig, call: Call) -> dict[str, Any]:
    return {
        "tool_name": call.tool,
        "input_hash": call.input_hash,
        "step": rig.state.plan.current or None,
        "attempt": rig.state.plan.attempt,
        "call_id": call.call_id,
        "parent_seq": call.seq,
    }


def result_draft(
    rig: Rig, call: Call, output: Any, outcome: ToolOutcome | None = None, *, exit_code: int | None = None, **extra: Any
) -> Draft:
    """The one ``tool_result`` of a call."""
    payload: dict[str, Any] = {"call_id": call.call_id, "tool": call.tool, "output": output, "summary": summary(output)}
    if outcome is not None:
        payload.update({k: v for k, v in (("stdout", outcome.stdout), ("stderr", outcome.stderr)) if v})
    if exit_code is not None:
        payload["exitCode"] = exit_code
    payload.update(extra)
    price = rig.tool(call.tool).price_microusd if call.tool in rig.run.tools else None
    return Draft(
        "tool_result",
        payload,
        duration_ms=outcome.duration_ms if outcome is not None else None,
        cost_microusd=price,
        effect_key=call.key or None,
        **_place(rig, call),
    )


def error_draft(
    rig: Rig, call: Call, message: str, outcome: ToolOutcome | None = None, *, kind: str = "raised", **extra: Any
) -> Draft:
    """The one ``tool_error`` of a call; ``error_type`` is the exception's type or the kind of failure."""
    error_type = (outcome.error_type if outcome is not None else None) or kind
    payload: dict[str, Any] = {"call_id": call.call_id, "tool": call.tool, "message": message, "kind": kind, **extra}
    if outcome is not None:
        shown = (("stdout", outcome.stdout), ("stderr", outcome.stderr), ("traceback", outcome.traceback))
        payload.update({k: v for k, v in shown if v})
    return Draft(
        "tool_error",
        payload,
        error={"type": error_type, "message": message[:2000]},
        error_type=error_type,
        duration_ms=outcome.duration_ms if outcome is not None else None,
        effect_key=call.key or None,
        **_place(rig, call),
    )


def summary(output: Any) -> str:
    """A result in one short line."""
    if isinstance(output, Mapping):
        return ", ".join(f"{k}={str(v)[:60]}" for k, v in list(output.items())[:8])[:300]
    return str(output)[:300]


def failed(rig: Rig, call: Call, tool: ToolSpec, outcome: ToolOutcome) -> list[Draft]:
    """A failed try of a call without external effect: again within the tool's limit, else an error for the model."""
    message = outcome.message or outcome.kind or "failed"
    kind = outcome.kind or "raised"
    if call.tries + 1 < tool.tries and not retries_spent(rig.run.definition, rig.state):
        delay = tool_delay(call.tries, call.call_id)
        payload = {"what": "tool", "reason": message, "attempt": call.tries + 1, "delay_s": delay, "ref": call.call_id}
        error = {"type": outcome.error_type or kind, "message": message[:2000]}
        return [
            Draft(
                "retry_scheduled",
                payload,
                error=error,
                error_type=outcome.error_type or kind,
                duration_ms=outcome.duration_ms,
                **_place(rig, call),
            )
        ]
    return [error_draft(rig, call, message, outcome, kind=kind, tries=call.tries + 1)]


# --- the three places where a call runs -----------------------------------------------------------------------------


def invocation(
    rig: Rig, call: Call, tool: ToolSpec, arguments: Mapping[str, Any], key: str | None = None
) -> ToolInvocation:
    """The call as the tool host (or the sandbox) gets it."""
    assert tool.ref is not None
    wrong = misdeed("tool", call.tool, call.call_id)
    limit = wrong[1] if wrong is not None and wrong[0] == "timeout" else tool.timeout_s
    return ToolInvocation(
        call.call_id,
        tool.ref,
        arguments,
        key=key,
        timeout_s=min(limit, tool.timeout_s),
        params=rig.run.definition.params,
        misdeed=wrong,
    )


def _pure(rig: Rig, call: Call, tool: ToolSpec, arguments: Mapping[str, Any]) -> list[Draft]:
    rig.recorder.commit()
    rig.acknowledge()
    reach(CrashPoint.TOOL_SEND, "before", call.tool)
    try:
        outcome = rig.toolhost.call(invocation(rig, call, tool, arguments))
    except ToolHostError as error:
        outcome = ToolOutcome(False, kind="died", message=str(error), sent=False)
    reach(CrashPoint.TOOL_REPLY, "before", call.tool)
    if outcome.ok:
        return [result_draft(rig, call, outcome.value, outcome)]
    return failed(rig, call, tool, outcome)


def _sandboxed(rig: Rig, call: Call, tool: ToolSpec, arguments: Mapping[str, Any]) -> list[Draft]:
    exec_id = execution_id(call.call_id, call.tries, rig.state.sandbox.restores)
    ahead = []
    if not tool.repeatable and call.status == "requested":
        payload = {"call_id": call.call_id, "tool": call.tool, "exec_id": exec_id}
        ahead.append(Draft("tool_started", payload, **_place(rig, call)))
    rig.recorder.commit(ahead)
    rig.acknowledge()
    assert rig.sandbox is not None
    try:
        completed = rig.sandbox.execute(exec_id, rig.execution_for(invocation(rig, call, tool, arguments)))
    except SandboxGone as error:
        return [lost_draft(rig, str(error))]
    except SandboxError as error:
        return failed(rig, call, tool, ToolOutcome(False, kind="died", error_type="SandboxError", message=str(error)))
    rig.unacknowledged.append(exec_id)
    outcome = result_of(completed)
    if outcome.ok:
        extra = {**_cut(completed), **_changed(rig)}
        return [result_draft(rig, call, outcome.value, outcome, exit_code=completed.exit_code, **extra)]
    drafts = failed(rig, call, tool, outcome)
    return drafts


def execution_id(call_id: str, tries: int | str, restores: int) -> str:
    """The id of one execution of a call: what ran in a workspace that a restore took back is another one."""
    return f"{call_id}.{tries}" + (f"r{restores}" if restores else "")


def _changed(rig: Rig) -> dict[str, Any]:
    """How much no snapshot holds, where the checkpoint policy wants to know; looking costs a walk over the workspace."""
    if rig.sandbox is None or not asks_for_bytes(rig.run.definition.policy):
        return {}
    try:
        return {"changed_bytes": rig.sandbox.changed_bytes()}
    except SandboxGone:
        return {}  # the next command finds the loss; this one's result is known


def _cut(completed: Completed) -> dict[str, Any]:
    return {"truncated": True} if completed.truncated else {}


def lost_draft(rig: Rig, reason: str) -> Draft:
    """The event that says that the sandbox is gone."""
    sandbox = rig.state.sandbox
    rig.sandbox = None
    payload = {
        "sandbox_id": sandbox.sandbox_id,
        "reason": reason,
        "last_snapshot": sandbox.snapshot or None,
        "unsaved": len(sandbox.since_snapshot),
    }
    error = {"type": "SandboxGone", "message": reason[:2000]}
    return Draft("sandbox_lost", payload, error=error, error_type="SandboxGone", step=rig.state.plan.current or None)


# --- built-in tools ------------------------------------------------------------------------------------------------


def _builtin(rig: Rig, call: Call, tool: ToolSpec, arguments: Mapping[str, Any]) -> list[Draft]:
    if tool.builtin == "plan":
        return _plan(rig, call, arguments)
    if tool.builtin == "remember":
        anchors, words, wrong = remember(rig, arguments)
        return [*anchors, error_draft(rig, call, words, kind=wrong) if wrong else result_draft(rig, call, words)]
    if tool.builtin == "recall":
        found, wrong = recall(rig, arguments)
        return [error_draft(rig, call, wrong, kind="bad_input") if wrong else result_draft(rig, call, found)]
    return [result_draft(rig, call, "noted")]


def _plan(rig: Rig, call: Call, arguments: Mapping[str, Any]) -> list[Draft]:
    items = arguments["steps"]
    if rig.state.plan.steps:
        return [error_draft(rig, call, "this task has a plan already; follow its steps", kind="bad_input")]
    if not isinstance(items, list) or not 0 < len(items) <= MAX_PLAN:
        return [error_draft(rig, call, f"steps must be a list of 1 to {MAX_PLAN} steps", kind="bad_input")]
    steps = []
    for item in items:
        if not isinstance(item, Mapping) or not str(item.get("id", "")).strip():
            return [error_draft(rig, call, "each step needs an id", kind="bad_input")]
        kind = str(item.get("kind") or "work")
        tool = item.get("tool") if item.get("tool") in rig.run.tools else None
        parameters = item.get("parameters")
        steps.append(
            StepSpec(
                id=str(item["id"]),
                title=str(item.get("title") or ""),
                kind=kind if kind in STEP_KINDS else "work",
                tool=tool,
                parameters=plain(parameters) if isinstance(parameters, Mapping) else {},
                expected=str(item.get("expected") or ""),
            )
        )
    if len({step.id for step in steps}) < len(steps):
        return [error_draft(rig, call, "step ids must differ", kind="bad_input")]
    plan_set = Draft("plan_set", {"steps": [step_to_json(s) for s in steps], "source": "model"})
    return [result_draft(rig, call, f"plan of {len(steps)} steps accepted"), plan_set]
