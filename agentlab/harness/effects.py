"""External effects: register *pending*, execute with the key, record; and verify before anything is repeated.

The key belongs to the operation (this tool with this canonical input, first asked for at seq N), not to the
call: every later equal call finds the record, whoever asks again and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab.crashpoints import CrashPoint, reach
from agentlab.definition import ToolSpec
from agentlab.errors import ToolHostError
from agentlab.events import Draft, parse
from agentlab.harness import toolcalls
from agentlab.harness.contentonce import answered_elsewhere, overtaken
from agentlab.harness.effectindex import settled_by_key, settled_effect
from agentlab.harness.rig import Rig
from agentlab.ports import ToolInvocation, ToolOutcome
from agentlab.session.commands import VerifyEffect
from agentlab.session.state import LEFT_UNDONE, Call, Settled, operation


def effect_key(rig: Rig, call: Call, tool: ToolSpec) -> str:
    """The idempotency key of the operation that ``call`` asks for; the same over retries and restarts."""
    if tool.once_per_content:
        return f"content:{call.input_hash.removeprefix('sha256:')[:32]}"
    session = rig.state.session_id
    if tool.repeat:
        return f"{session}#{call.seq}"
    inherited = rig.state.effects.inherited.get(operation(call.tool, call.input_hash))
    if inherited:
        return inherited
    first = rig.state.effects.first_calls.get(operation(call.tool, call.input_hash))
    return f"{session}#{call.seq if first is None else first}"


def perform_effect(rig: Rig, call: Call, tool: ToolSpec, arguments: Mapping[str, Any]) -> list[Draft]:
    """Execute one external effect at most once per operation.

    A try that fails after it may have reached the outside leaves the effect pending; it is verified next.
    """
    rig.recorder.commit()
    rig.acknowledge()
    # A tool that repeats on purpose still does the very same call once, also when a restore asks for it again.
    same = f"{rig.state.session_id}#{call.seq}"
    done = settled_by_key(rig, call.key or same) if tool.repeat else settled_effect(rig, call.tool, call.input_hash)
    left = done if done is not None and done.outcome == LEFT_UNDONE else None
    if done is not None and left is None and call.key in ("", done.key):
        return [toolcalls.result_draft(rig, call, recorded_output(rig, done), reused=True, effect_of=done.result_seq)]
    key = call.key or effect_key(rig, call, tool)
    taken_over = False
    if tool.once_per_content:
        answer, taken_over = answered_elsewhere(rig, call, key)
        if answer is not None:
            return answer
    if left is not None and not (call.key or taken_over):  # nobody knows whether it happened: it is not sent unasked
        text = f"a person left it undone (event {left.result_seq}) and it is asked for again"
        return [_in_doubt(rig, call, left.key, text)]
    pending = {
        "key": key,
        "call_id": call.call_id,
        "tool": call.tool,
        "input_hash": call.input_hash,
        "try": call.tries + 1,
    }
    place: dict[str, Any] = {
        "tool_name": call.tool,
        "call_id": call.call_id,
        "effect_key": key,
        "input_hash": call.input_hash,
    }
    # This append is the fence check: a zombie that lost the session stops here, before it touches the outside.
    rig.recorder.commit((Draft("effect_pending", pending, parent_seq=call.seq, step=_step(rig), **place),))
    rig.log.flush()
    call = rig.state.call(call.call_id) or call
    if taken_over:  # another session left it open: it is verified before anything is sent
        return []
    other = overtaken(rig, key) if tool.once_per_content else None
    if other is not None:
        return [_failed(rig, call, f"not sent: session {other!r} has claimed it meanwhile")]
    reach(CrashPoint.EFFECT_SEND, "before", call.tool)
    try:
        outcome = rig.toolhost.call(toolcalls.invocation(rig, call, tool, arguments, key))
    except ToolHostError as error:
        outcome = ToolOutcome(False, kind="died", message=str(error), sent=False)
    reach(CrashPoint.EFFECT_REPLY, "before", call.tool)
    if outcome.ok:
        return completed_drafts(rig, call, outcome.value, outcome)
    message = outcome.message or outcome.kind or "failed"
    if not outcome.sent:
        return not_done(rig, call, tool, f"it never began: {message}", outcome)
    reason = {"what": "verify", "reason": message, "attempt": call.tries, "delay_s": 0.0, "ref": call.call_id}
    kind = outcome.error_type or outcome.kind or "failed"
    failure = {"type": kind, "message": message[:2000]}
    place.update(error=failure, error_type=kind, duration_ms=outcome.duration_ms, step=_step(rig))
    return [Draft("retry_scheduled", reason, **place)]


def recorded_output(rig: Rig, done: Settled) -> Any:
    """The result of a settled effect: of this session's log, or of the session that it was forked from."""
    if done.output:
        return parse(rig.blobs.get(done.output).decode())
    return rig.content(dict(rig.event(done.result_seq).payload)).get("output")


def completed_drafts(
    rig: Rig, call: Call, value: Any, outcome: ToolOutcome | None = None, verified: str | None = None
) -> list[Draft]:
    """What an effect says, its state and the result: one commit."""
    payload: dict[str, Any] = {
        "key": call.key,
        "call_id": call.call_id,
        "tool": call.tool,
        "input_hash": call.input_hash,
    }
    extra: dict[str, Any] = {}
    if verified:
        payload["verified"] = verified
        extra["late"] = True
    done = Draft(
        "effect_completed", payload, tool_name=call.tool, call_id=call.call_id, effect_key=call.key, step=_step(rig)
    )
    return [done, toolcalls.result_draft(rig, call, value, outcome, **extra)]


def not_done(rig: Rig, call: Call, tool: ToolSpec, reason: str, outcome: ToolOutcome | None = None) -> list[Draft]:
    """An effect that surely did not happen: again within the limit, else an error for the model."""
    drafts = [_failed(rig, call, reason)]
    # A try that a crash cut short is not the tool's failure and does not use up its limit.
    cut = call.started_in < rig.recorder.incarnation
    if cut or call.tries < tool.tries:
        return drafts
    message = call.last_error or reason
    return [*drafts, toolcalls.error_draft(rig, call, message, outcome, kind="effect_failed", tries=call.tries)]


def perform_verify(command: VerifyEffect, rig: Rig) -> list[Draft]:
    """Ask the outside whether a pending effect happened; never repeats anything by itself.

    *completed* is recorded, *not done* counts only after the tool's settling time, *unknown* is retried with the
    same key where the outside honours keys and is put before a person where it does not.
    """
    call = rig.state.call(command.call_id)
    assert call is not None
    tool = rig.tool(call.tool)
    rig.recorder.commit()
    reach(CrashPoint.EFFECT_VERIFY, "before", call.tool)
    # Looked at before the outside is asked: what it sent right before its death the outside has by then.
    may_come = not tool.honours_key and _may_yet_come(rig, call)
    outcome, evidence, value = _ask_outside(rig, call, tool)
    if outcome == "not_done" and tool.settle_after_s:
        rig.wait_until(call.started_ts + round(tool.settle_after_s * 1e6))
        may_come = may_come and _may_yet_come(rig, call)
        outcome, evidence, value = _ask_outside(rig, call, tool)
    reach(CrashPoint.EFFECT_VERIFY, "after", call.tool)
    if outcome == "not_done" and may_come:
        outcome, evidence = "unknown", f"{evidence}; but the harness that sent it may be alive and send it yet"
    if outcome == "completed":
        return [
            _verified(rig, call, outcome, evidence, "record"),
            *completed_drafts(rig, call, value, verified=evidence),
        ]
    cut = call.started_in < rig.recorder.incarnation
    if outcome == "not_done":
        again = cut or call.tries < tool.tries
        drafts = not_done(rig, call, tool, evidence)
        return [_verified(rig, call, outcome, evidence, "retry" if again else "give_up"), *drafts]
    if tool.honours_key and (cut or call.tries < tool.tries):
        return [_verified(rig, call, outcome, evidence, "retry")]
    return [_verified(rig, call, outcome, evidence, "in_doubt"), _in_doubt(rig, call, call.key, evidence)]


def _failed(rig: Rig, call: Call, reason: str) -> Draft:
    """It surely did not happen."""
    payload = {"key": call.key, "call_id": call.call_id, "tool": call.tool, "reason": reason}
    return Draft(
        "effect_failed", payload, tool_name=call.tool, call_id=call.call_id, effect_key=call.key, step=_step(rig)
    )


def _in_doubt(rig: Rig, call: Call, key: str, reason: str) -> Draft:
    payload = {"key": key, "call_id": call.call_id, "tool": call.tool, "reason": reason}
    return Draft("effect_in_doubt", payload, tool_name=call.tool, call_id=call.call_id, effect_key=key, step=_step(rig))


def _may_yet_come(rig: Rig, call: Call) -> bool:
    """Whether the incarnation that sent this call is not known to be dead: what is not there yet may still come."""
    if call.started_in >= rig.recorder.incarnation:
        return False
    for event in rig.log.replay(1):
        if event.type == "harness_woken" and event.incarnation == call.started_in:
            sender = event.payload["process"]
            return dict(sender) != dict(rig.state.process) and not rig.known_dead(sender)
    return False


def _ask_outside(rig: Rig, call: Call, tool: ToolSpec) -> tuple[str, str, Any]:
    if tool.verify is None:
        return "unknown", "the tool has no verify function", None
    arguments = {"key": call.key, "arguments": rig.arguments(call)}
    asked = ToolInvocation(
        f"{call.call_id}.verify",
        tool.verify,
        arguments,
        key=call.key,
        timeout_s=tool.timeout_s,
        params=rig.run.definition.params,
    )
    try:
        outcome = rig.toolhost.call(asked)
    except ToolHostError as error:
        return "unknown", f"verify could not run: {error}", None
    if not outcome.ok:
        return "unknown", f"verify failed: {outcome.message or outcome.kind}", None
    value = outcome.value if isinstance(outcome.value, Mapping) else {"outcome": outcome.value}
    said = str(value.get("outcome"))
    if said not in ("completed", "not_done", "unknown"):
        return "unknown", f"verify gave {said!r} instead of completed, not_done or unknown", None
    return said, str(value.get("evidence") or f"verify says {said}"), value.get("result")


def _verified(rig: Rig, call: Call, outcome: str, evidence: str, following: str) -> Draft:
    payload = {
        "key": call.key,
        "call_id": call.call_id,
        "tool": call.tool,
        "outcome": outcome,
        "evidence": evidence,
        "next": following,
    }
    return Draft(
        "effect_verified", payload, tool_name=call.tool, call_id=call.call_id, effect_key=call.key, step=_step(rig)
    )


def _step(rig: Rig) -> int | None:
    return rig.state.plan.current or None
