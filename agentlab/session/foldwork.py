"""The fold of work: model requests and answers, tool calls, effects, the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agentlab import budget
from agentlab.context import Block, add, response_tokens, result_tokens
from agentlab.context.drift import COURSE_ROUNDS, extended
from agentlab.events import Event
from agentlab.evolve import evolve
from agentlab.guard import action_of, observe
from agentlab.session.foldspending import answered, called, failed, requested, tried
from agentlab.session.state import Call, LoopState, Settled, State, StepStats, operation

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


def _with_call(state: State, call_id: str, **changes: Any) -> tuple[Call, ...]:
    return tuple(evolve(c, **changes) if c.call_id == call_id else c for c in state.calls)


def _not_happened(state: State, call_id: str) -> tuple[Call, ...]:
    """An effect that did not happen may be tried again; that of a superseded call is not wanted any more."""
    kept = tuple(c for c in state.calls if not (c.call_id == call_id and c.superseded))
    return _with_call(evolve(state, calls=kept), call_id, status="requested")


def _tool_started(state: State, event: Event) -> Changes:
    call = state.call(event.payload["call_id"])
    if call is None:
        return {}
    return {
        "calls": _with_call(state, call.call_id, status="started", started_in=event.incarnation, started_ts=event.ts)
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
    if call.effect == "builtin" or payload.get("not_run") or payload.get("kind") == "bad_input":
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
        return {"calls": _with_call(state, p["ref"], last_error=reason)}
    calls = _with_call(
        state,
        p["ref"],
        status="requested",
        tries=p["attempt"],
        not_before_us=event.ts + round(float(p["delay_s"]) * 1e6),
        last_error=reason,
    )
    changes = {"calls": calls, "plan": evolve(state.plan, stats=_stats(state, retries=1))}
    return {**changes, "budget": tried(state, event)}


# --- effects -------------------------------------------------------------------------------------------------------


def _effect_pending(state: State, event: Event) -> Changes:
    p = event.payload
    call = state.call(p["call_id"])
    tries = call.tries + 1 if call else 1
    first = {**state.effects.first_calls}
    first.setdefault(operation(p["tool"], p["input_hash"]), _first_seq(p["key"], event))
    return {
        "calls": _with_call(
            state,
            p["call_id"],
            status="pending",
            key=p["key"],
            tries=tries,
            started_in=event.incarnation,
            started_ts=event.ts,
        ),
        "effects": evolve(state.effects, first_calls=first),
        "budget": budget.sent(state.budget, p["tool"], event.ts),
    }


def _first_seq(key: str, event: Event) -> int:
    # Keys made from a call end in its seq; keys by content have none and are found by the key itself.
    tail = key.rpartition("#")[2]
    return int(tail) if tail.isdecimal() else event.seq


def _effect_completed(state: State, event: Event) -> Changes:
    p = event.payload
    call = state.call(p["call_id"])
    input_hash = call.input_hash if call else p.get("input_hash", "")
    first = dict(state.effects.first_calls)
    first_seq = first.pop(operation(p["tool"], input_hash), event.seq)
    # The tool_result follows in the same commit, hence seq + 1.
    settled = Settled(p["key"], p["tool"], input_hash, first_seq, event.seq + 1, "completed")
    effects = evolve(
        state.effects,
        first_calls=first,
        recent=(*state.effects.recent, settled),
        completed=state.effects.completed + 1,
        inherited={k: v for k, v in state.effects.inherited.items() if v != p["key"]},
    )
    return {"effects": effects}


def _effect_failed(state: State, event: Event) -> Changes:
    return {"calls": _not_happened(state, event.payload["call_id"])}


def _effect_verified(state: State, event: Event) -> Changes:
    following = event.payload["next"]
    if following == "retry":
        return {"calls": _not_happened(state, event.payload["call_id"])}
    return {}


def _effect_in_doubt(state: State, event: Event) -> Changes:
    return {"calls": _with_call(state, event.payload["call_id"], status="in_doubt")}


# --- sandbox -------------------------------------------------------------------------------------------------------


def _sandbox_ready(state: State, event: Event) -> Changes:
    p = event.payload
    sandbox = evolve(
        state.sandbox,
        status="provisioned",
        sandbox_id=p["sandbox_id"],
        record=p["record"],
        generation=p["generation"],
        filled=False,
        stale=False,
    )
    return {"sandbox": sandbox}


def _sandbox_attached(state: State, event: Event) -> Changes:
    # A harness that died between provisioning and filling leaves an empty sandbox: it is filled again.
    return {"sandbox": evolve(state.sandbox, status="ready" if state.sandbox.filled else "provisioned")}


def _sandbox_lost(state: State, event: Event) -> Changes:
    calls = tuple(
        evolve(c, status="lost") if c.effect == "sandboxed" and c.status == "started" else c for c in state.calls
    )
    return {
        "sandbox": evolve(state.sandbox, status="lost", filled=False, losses=state.sandbox.losses + 1),
        "calls": calls,
    }


def _sandbox_restored(state: State, event: Event) -> Changes:
    p = event.payload
    sandbox = evolve(state.sandbox, status="ready", filled=True, stale=False)
    if "since" in p:  # an earlier snapshot served, or none
        since = tuple((call_id, seq) for call_id, seq in p["since"])
        sandbox = evolve(sandbox, snapshot=p["snapshot"] or "", since_snapshot=since)
    changes: Changes = {"sandbox": sandbox}
    notes = [_differs(d) for d in p["differs"]]
    notes += [f"After a sandbox loss, {c} was not run again: check where it stands." for c in p["not_rerun"]]
    if notes:
        changes["context"] = evolve(state.context, notes=(*state.context.notes, *notes[:20]))
    if p["rerun"]:
        changes["recovery"] = evolve(state.recovery, redone=tuple(p["rerun"])[-50:])
    return changes


def _differs(found: dict[str, Any]) -> str:
    said = f"After a sandbox loss, {found['tool']} ({found['call_id']}) was run again and gave another result than recorded."
    if "now" not in found:
        return said
    return f"{said} Recorded: {found['recorded']}. Now: {found['now']}."


def _snapshot_taken(state: State, event: Event) -> Changes:
    return {"sandbox": evolve(state.sandbox, snapshot=event.payload["digest"], since_snapshot=(), changed_bytes=0)}


def _sandbox_destroyed(state: State, event: Event) -> Changes:
    return {"sandbox": evolve(state.sandbox, status="none", record={})}


WORK_HANDLERS: dict[str, Callable[[State, Event], Changes]] = {
    "model_request": _model_request,
    "model_response": _model_response,
    "model_error": _model_error,
    "tool_requested": _tool_requested,
    "tool_started": _tool_started,
    "tool_result": _tool_result,
    "tool_error": _tool_error,
    "retry_scheduled": _retry_scheduled,
    "effect_pending": _effect_pending,
    "effect_completed": _effect_completed,
    "effect_failed": _effect_failed,
    "effect_verified": _effect_verified,
    "effect_in_doubt": _effect_in_doubt,
    "sandbox_ready": _sandbox_ready,
    "sandbox_attached": _sandbox_attached,
    "sandbox_lost": _sandbox_lost,
    "sandbox_restored": _sandbox_restored,
    "snapshot_taken": _snapshot_taken,
    "sandbox_destroyed": _sandbox_destroyed,
}
