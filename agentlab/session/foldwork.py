"""The fold of work: model requests and answers, tool calls, effects, the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agentlab.context import Block, add, response_tokens, result_tokens
from agentlab.context.drift import COURSE_ROUNDS, extended
from agentlab.events import Event
from agentlab.evolve import evolve
from agentlab.guard import action_of, observe
from agentlab.session.foldoutside import OUTSIDE_HANDLERS, with_call
from agentlab.session.foldspending import answered, called, failed, requested, tried
from agentlab.session.state import Call, LoopState, State, StepStats, operation

Changes = dict[str, Any]
LARGE_RESULT_MS = 5_000.0
"""A tool call that took this many milliseconds counts as a milestone (a large query finished)."""
MAX_STATS = 200


def _stats(state: State, **amounts: float) -> dict[str, StepStats]:
    step = state.step
    name = step.id if step else "-"
    old = state.plan.stats.get(name)
    if old is None:
        if len(state.plan.stats) >= MAX_STATS:
            name, old = "(others)", state.plan.stats.get("(others)", StepStats())
        else:
            old = StepStats()
    new = evolve(old, **{k: getattr(old, k) + v for k, v in amounts.items()})
    return {**state.plan.stats, name: new}


# --- model ---------------------------------------------------------------------------------------------------------


def _model_request(state: State, event: Event) -> Changes:
    p = event.payload
    model = evolve(state.model, request_id=p["request_id"], request_seq=event.seq, purpose=p["purpose"])
    return {"model": model, "budget": requested(state, event)}


def _model_response(state: State, event: Event) -> Changes:
    p = event.payload
    changes: Changes = {
        "model": evolve(
            state.model, request_id="", request_seq=0, purpose="", failures=0, not_before_us=0, waited_s=0.0
        ),
        "budget": answered(state, event),
    }
    stats = _stats(
        state,
        model_calls=1,
        input_tokens=event.input_tokens or 0,
        output_tokens=event.output_tokens or 0,
        duration_ms=event.duration_ms or 0.0,
    )
    plan = evolve(state.plan, stats=stats)
    if p["purpose"] != "act":
        changes["plan"] = plan
        return {**changes, **_aside(state, event)}
    block = Block(event.seq, "response", response_tokens(p, event.payload_text), state.context.round + 1)
    context = add(state.context, block)
    if block.round <= COURSE_ROUNDS:
        context = evolve(context, course=extended(context.course, p))
    changes["context"] = context
    changes["turns"] = state.turns + 1
    changes["responses_unread"] = not p.get("tool_calls")
    changes["plan"] = evolve(plan, rounds=plan.rounds + 1, answer=p.get("text", "")[:4000])
    return changes


def _aside(state: State, event: Event) -> Changes:
    """An answer that is no action: a statement after a recovery, a summary for a compaction, a judgement of drift."""
    purpose, text = event.payload["purpose"], event.payload.get("text") or "(none)"
    if purpose == "statement":
        return {"recovery": evolve(state.recovery, statement=text, statement_seq=event.seq)}
    if purpose == "summary":
        return {"context": evolve(state.context, told=text)}
    return {"context": evolve(state.context, judged_round=state.context.round)}


def _model_error(state: State, event: Event) -> Changes:
    p = event.payload
    will_retry = bool(p["will_retry"])
    delay = float(p.get("delay_s") or 0.0)
    model = evolve(
        state.model,
        request_id="",
        request_seq=0,
        purpose="",
        failures=state.model.failures + 1,
        not_before_us=event.ts + round(delay * 1e6) if will_retry else 0,
        waited_s=state.model.waited_s + delay,
        gave_up="" if will_retry else f"{p['kind']}: {p['message']}"[:500],
    )
    spent = failed(state, event)
    stats = _stats(state, retries=1 if will_retry else 0, errors=1)
    if state.model.purpose in ("summary", "judge") and not will_retry:
        # Work can go on without either: conclusions are then drawn by rule, drift is measured by words.
        context = evolve(state.context, model_failed=True, judged_round=state.context.round)
        return {
            "context": context,
            "model": evolve(model, failures=0, waited_s=0.0, gave_up=""),
            "budget": spent,
            "plan": evolve(state.plan, stats=stats),
        }
    return {
        "model": model,
        "budget": spent,
        "plan": evolve(state.plan, stats=stats),
    }


# --- tools ---------------------------------------------------------------------------------------------------------


def _tool_requested(state: State, event: Event) -> Changes:
    p = event.payload
    call = Call(
        call_id=p["call_id"],
        tool=p["tool"],
        input=p["input"],
        input_hash=event.input_hash or "",
        effect=p["effect"],
        seq=event.seq,
        stateful_read=bool(p.get("stateful_read")),
        volatile=tuple(p.get("volatile", ())),
    )
    inherited = state.effects.inherited.get(operation(call.tool, call.input_hash))
    if inherited and call.effect == "external":  # open in a session that this one is forked from: verified first
        call = evolve(call, status="pending", key=inherited)
    return {"calls": (*state.calls, call)}


def _tool_started(state: State, event: Event) -> Changes:
    call = state.call(event.payload["call_id"])
    if call is None:
        return {}
    return {
        "calls": with_call(state, call.call_id, status="started", started_in=event.incarnation, started_ts=event.ts)
    }


def _answered(state: State, event: Event, kind: str) -> Changes:
    p = event.payload
    call = state.call(p["call_id"])
    if call is None:
        return {}
    duration = event.duration_ms or 0.0
    reused = bool(p.get("reused"))
    stats = _stats(state, tool_calls=1, duration_ms=duration, errors=1 if kind == "error" else 0)
    plan = evolve(state.plan, stats=stats)
    if call.superseded:
        return {
            "calls": tuple(c for c in state.calls if c.call_id != call.call_id),
            "plan": plan,
            "budget": called(state, event, call, reused),
        }
    step = state.step
    good = kind == "result"
    plan = evolve(plan, failures=_failures(plan.failures, call, p, good))
    if good and step is not None and plan.started:
        if step.tool == call.tool and not step.validator:
            plan = evolve(plan, claimed=p.get("summary") or call.tool)
        if step.validator and (call.effect in ("sandboxed", "external") or step.tool == call.tool):
            plan = evolve(plan, to_validate=True)
    if call.tool == "step_done" and good:
        plan = evolve(plan, claimed=str(call.input.get("summary") or "done"), to_validate=bool(step and step.validator))
    sandbox = evolve(state.sandbox, losses=0) if state.sandbox.losses else state.sandbox
    if call.effect == "sandboxed" and not p.get("not_run"):
        sandbox = evolve(
            sandbox,
            since_snapshot=(*sandbox.since_snapshot, (call.call_id, event.seq)),
            changed_bytes=p.get("changed_bytes", sandbox.changed_bytes),
        )
    counted = 0 if good else state.errors_in_a_row + 1
    return {
        "loop": _observed(state, event, call) if call.effect != "builtin" and not reused else state.loop,
        "calls": tuple(c for c in state.calls if c.call_id != call.call_id),
        "context": add(
            state.context, Block(event.seq, kind, result_tokens(event.payload_text), state.context.round, call.call_id)
        ),
        "plan": plan,
        "sandbox": sandbox,
        "budget": called(state, event, call, reused),
        "errors_in_a_row": counted,
        "checkpoint": evolve(
            state.checkpoint, large_result=state.checkpoint.large_result or duration >= LARGE_RESULT_MS
        ),
    }


def _failures(failures: Mapping[str, int], call: Call, payload: Mapping[str, Any], good: bool) -> Mapping[str, int]:
    """Failed tries by tool: a success forgets those of its tool; a call that never ran is none."""
    if good:
        return {k: v for k, v in failures.items() if k != call.tool} if call.tool in failures else failures
    if (
        call.effect == "builtin"
        or (payload.get("not_run") and payload.get("kind") != "busy_elsewhere")
        or payload.get("kind") == "bad_input"
    ):
        return failures
    tries = int(payload.get("tries") or 1)
    if call.tool not in failures and len(failures) >= MAX_STATS:
        return failures
    return {**failures, call.tool: failures.get(call.tool, 0) + tries}


class _Asked(NamedTuple):
    """A call as the guard reads the request for it."""

    payload: Mapping[str, Any]


def _observed(state: State, event: Event, call: Call) -> LoopState:
    """The guard after one more finished call."""
    loop = state.loop
    if not loop.policy.enabled:
        return loop
    asked = _Asked({"tool": call.tool, "input": call.input})
    action = action_of(asked, event, call, batch=call.call_id.partition(".")[0], after_person=loop.person)
    memory, finding = observe(loop.memory, action, loop.policy)
    if finding is None:
        return evolve(loop, memory=memory, person=False)
    verdict = {
        "rule": finding.rule,
        "action": finding.action,
        "evidence": list(finding.evidence),
        "message": finding.message,
    }
    return evolve(loop, memory=memory, person=False, verdict=verdict)


def _tool_result(state: State, event: Event) -> Changes:
    return _answered(state, event, "result")


def _tool_error(state: State, event: Event) -> Changes:
    return _answered(state, event, "error")


def _retry_scheduled(state: State, event: Event) -> Changes:
    p = event.payload
    reason = str(p["reason"])[:500]
    if p["what"] == "verify":  # an effect whose call failed: first it is verified
        return {"calls": with_call(state, p["ref"], last_error=reason)}
    calls = with_call(
        state,
        p["ref"],
        status="requested",
        tries=p["attempt"],
        not_before_us=event.ts + round(float(p["delay_s"]) * 1e6),
        last_error=reason,
    )
    changes = {"calls": calls, "plan": evolve(state.plan, stats=_stats(state, retries=1))}
    return {**changes, "budget": tried(state, event)}


WORK_HANDLERS: dict[str, Callable[[State, Event], Changes]] = {
    "model_request": _model_request,
    "model_response": _model_response,
    "model_error": _model_error,
    "tool_requested": _tool_requested,
    "tool_started": _tool_started,
    "tool_result": _tool_result,
    "tool_error": _tool_error,
    "retry_scheduled": _retry_scheduled,
    **OUTSIDE_HANDLERS,
}
