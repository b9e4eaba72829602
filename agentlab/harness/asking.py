"""Asking the model: the request from the three layers, the answer as events, errors as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentlab import budget
from agentlab.context import (
    WHOLE,
    ContextState,
    build_messages,
    estimate_tokens,
    fixed_text,
    plan_cut,
    ranges,
    result_text,
    task_block,
    task_text,
)
from agentlab.context.messages import AGAIN
from agentlab.crashpoints import CrashPoint, reach
from agentlab.definition import Definition
from agentlab.errors import ModelError, NoCredentials, UserError
from agentlab.events import Draft, Fixed, FixedList, canonical, input_hash, plain
from agentlab.harness import compacting, drifting, pooling
from agentlab.harness.retrying import model_delay, retries_spent
from agentlab.harness.rig import Rig
from agentlab.harness.telling import RULES, RULES_WITH_PLAN, statement_prompt, status_text
from agentlab.models.digest import request_digest
from agentlab.ports import Model, ModelReply, ModelRequest
from agentlab.session.commands import AskModel
from agentlab.session.spending import limited, request_base, request_estimate


def perform_ask(command: AskModel, rig: Rig) -> list[Draft]:
    """Write the request ahead, ask once, answer with the response or the error."""
    if not rig.wait_until(command.not_before_us) or not pooling.pace(rig, "requests"):
        return []  # a pause was asked for: nothing is sent
    drift = drifting.measure(rig) if command.purpose == "act" else None
    rig.recorder.stage(drifting.told(rig, drift))
    request = build_request(rig, command.purpose)
    over = _over(rig, request) if command.purpose == "act" else 0
    if over:
        return [_made_to_fit(rig, over)]
    request_id = rig.ids.new("r")
    request = replace(request, request_id=request_id, digest=request_digest(request))
    rig.recorder.commit((_request_draft(rig, request, request_id, command, drift),))
    rig.acknowledge()
    started = rig.clock.monotonic()
    reach(CrashPoint.MODEL_SEND, "before", command.purpose)
    try:
        reply = _model(rig, command.purpose).complete(request, rig.on_text)
        if not reply.content:
            raise ModelError("empty", "the model answered with nothing")
    except (ModelError, UserError) as error:
        # A model that can not even be made (no key, no such name) pauses the session like one that refuses the key.
        kind = "auth" if isinstance(error, NoCredentials) else "bad_request"
        failed = error if isinstance(error, ModelError) else ModelError(kind, str(error), sent=False)
        reach(CrashPoint.MODEL_REPLY, "before", failed.kind)
        return [_error_draft(rig, failed, request_id, command.purpose, _ms(rig, started))]
    reach(CrashPoint.MODEL_REPLY, "before", command.purpose)
    return _answer_drafts(rig, reply, request_id, command.purpose, _ms(rig, started))


def build_request(rig: Rig, purpose: str) -> ModelRequest:
    """The request that the folded state implies: byte-stable fixed layer, task layer, scratch by reference."""
    definition, state = rig.run.definition, rig.state
    system, tools = rig.fixed_layer(lambda: fixed_layer(rig.run.definition))
    task = rig.task_layer(lambda: task_block(_task_text(rig, ())))
    if purpose in ("statement", "judge"):
        asked = statement_prompt(state) if purpose == "statement" else drifting.judge_text(rig)
        messages: list[dict[str, Any]] = [{"role": "user", "content": [task, {"type": "text", "text": asked}]}]
    elif purpose == "summary":
        messages = _messages(rig, task, compacting.leaving(rig), compacting.SUMMARY_PROMPT)
    else:
        rig.prune()
        again = f"{AGAIN}\n\n{_task_text(rig, definition.constraints)}" if state.context.restate else ""
        messages = _messages(rig, task, state.context, status_text(state, definition.goal), again)
    return ModelRequest(
        system=system,
        tools=tools,
        messages=messages,
        max_tokens=definition.limits.max_output_tokens,
        purpose=purpose if purpose in ("statement", "summary", "judge") else "act",  # type: ignore[arg-type]
        params=definition.model_params,
        timeout_s=definition.limits.model_timeout_s,
    )


def _task_text(rig: Rig, constraints: Sequence[str]) -> str:
    d = rig.run.definition
    return task_text(d.goal, d.user_input, constraints, d.params, rig.state.context.anchors)


def _messages(rig: Rig, task: Fixed, context: ContextState, summary: str, again: str = "") -> list[dict[str, Any]]:
    shown = {block.seq: rig.rendered(block.seq, block.cap, block_content) for block in context.blocks}
    return build_messages(task, context, shown, summary, again)


def _model(rig: Rig, purpose: str) -> Model:
    spec = rig.state.context.spec
    return rig.model_for({"summary": spec.model, "judge": spec.judge}.get(purpose, "session"))


def request_tokens(rig: Rig, request: ModelRequest) -> int:
    """Upper bound of the tokens of a request to act: its fixed layer and its texts as they are, scratch as accounted."""
    told = [*request.messages[0]["content"][:2], *request.messages[-1]["content"]]
    texts = sum([len(b["text"]) + 8 for b in told if b.get("type") == "text"])
    return estimate_tokens(rig.fixed_chars + texts + 32) + rig.state.context.tokens


def _over(rig: Rig, request: ModelRequest) -> int:
    """The tokens of a request that would pass the window; 0 when it fits."""
    tokens = request_tokens(rig, request)
    return tokens if tokens > rig.run.definition.limits.context_tokens else 0


def _made_to_fit(rig: Rig, tokens: int) -> Draft:
    """A compaction instead of a request that would pass the window; the word that nothing is left to compact."""
    context = rig.state.context
    room = rig.run.definition.limits.context_tokens - (tokens - context.tokens)
    cut = plan_cut(context, room) if room > 0 else None
    return compacting.compaction(rig, cut) if cut is not None else compacting.too_large(rig, tokens)


def fixed_layer(definition: Definition) -> tuple[FixedList, FixedList]:
    """System blocks and tools of a session: role, rules, global constraints; the same bytes in every request."""
    rules = RULES_WITH_PLAN if not definition.steps else RULES
    text = fixed_text(definition.system, rules, definition.constraints)
    system = Fixed({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})
    return FixedList([system]), FixedList(Fixed(spec.for_model()) for spec in definition.tools)


def block_content(rig: Rig, seq: int, cap: int = WHOLE) -> list[Fixed]:
    """The API content of a scratch block: an answer's blocks with our call ids, or one tool_result, shortened to ``cap``."""
    event = rig.event(seq)
    payload = event.payload
    if event.type == "model_response":
        calls = iter(payload.get("tool_calls") or ())
        blocks = []
        for block in rig.content(payload["content"]):
            if block.get("type") == "tool_use":
                call_input = block.get("input")
                block = {**block, "id": next(calls), "input": call_input if isinstance(call_input, dict) else {}}
            elif block.get("type") == "text" and not block.get("text", "").strip():
                continue
            blocks.append(Fixed(block))
        return blocks
    text = result_text(rig.content(dict(payload)) if cap else {}, event.type == "tool_error", seq, cap)
    result = {"type": "tool_result", "tool_use_id": payload["call_id"], "content": text}
    return [Fixed({**result, "is_error": True} if event.type == "tool_error" else result)]


def _request_draft(
    rig: Rig, request: ModelRequest, request_id: str, command: AskModel, drift: float | None = None
) -> Draft:
    state = rig.state
    blocks = state.context.blocks
    reserved = request_estimate(state, rig.run.definition)
    payload = {
        "request_id": request_id,
        "purpose": command.purpose,
        "layers": {
            "fixed": {
                "system": rig.fixed_layer(lambda: fixed_layer(rig.run.definition))[0][0].digest,
                "tools": len(request.tools),
            },
            "task": {
                "digest": f"sha256:{request.messages[0]['content'][0].digest}",
                "anchors": len(state.context.anchors),
                **({} if drift is None else {"drift": drift}),
            },
            "scratch": {"blocks": len(blocks), "tokens": state.context.tokens, "dropped": state.context.dropped},
        },
        "blocks": ranges([b.seq for b in blocks]) if command.purpose == "act" else [],
        "notes": list(state.context.notes),
        "tokens_estimate": reserved["input_tokens"],
        "reserved": reserved,
        "digest": request.digest,
    }
    if command.purpose == "act" and limited(state):
        payload["estimate"] = request_base(state, rig.run.definition)
    return Draft("model_request", payload, step=_step(rig), attempt=state.plan.attempt, model=rig.model.name)


def _answer_drafts(rig: Rig, reply: ModelReply, request_id: str, purpose: str, duration_ms: float) -> list[Draft]:
    state = rig.state
    content = [plain_block(block) for block in reply.content]
    text = "\n".join(b["text"] for b in content if b.get("type") == "text").strip()
    uses = [b for b in content if b.get("type") == "tool_use"] if purpose == "act" else []
    call_ids = [f"c{state.model.request_seq}.{i}" for i in range(1, len(uses) + 1)]
    where: dict[str, Any] = {"step": _step(rig), "attempt": state.plan.attempt, "model": reply.model}
    usage = reply.usage
    response = Draft(
        "model_response",
        {
            "request_id": request_id,
            "purpose": purpose,
            "content": content,
            "stop_reason": reply.stop_reason,
            "text": text[:4000],
            "tool_calls": call_ids,
            **({"served_by": reply.request_id} if reply.request_id else {}),
        },
        duration_ms=duration_ms,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost_microusd=_cost(rig, reply),
        parent_seq=state.model.request_seq,
        **where,
    )
    if purpose == "judge":
        return [response, *drifting.judged(rig, text)]
    if purpose != "act":
        return [response]
    names = [str(use.get("name", "")) for use in uses]
    action = ", ".join(names) if names else "end of turn"
    why = text[:500] or ("the model gave no reason" if names else "the model had nothing more to do")
    decision = Draft("decision", {"action": action, "why": why, "last_result": _last_result(rig)}, **where)
    requested = [_requested(rig, use, call_id, where) for use, call_id in zip(uses, call_ids, strict=True)]
    return [response, decision, *requested]


def _requested(rig: Rig, use: Mapping[str, Any], call_id: str, where: Mapping[str, Any]) -> Draft:
    name = str(use.get("name", ""))
    call_input = use.get("input")
    arguments = call_input if isinstance(call_input, dict) else {"$malformed": plain(call_input)}
    spec = rig.run.tools.get(name)
    effect = "builtin" if spec is None or spec.builtin else spec.effect
    identity = {k: v for k, v in arguments.items() if spec is None or k not in spec.volatile}
    return Draft(
        "tool_requested",
        {
            "call_id": call_id,
            "tool": name,
            "input": arguments,
            "effect": effect,
            "model_call_id": str(use.get("id", "")),
            **({"stateful_read": True} if spec is not None and spec.stateful_read else {}),
            **({"volatile": list(spec.volatile)} if spec is not None and spec.volatile else {}),
        },
        tool_name=name,
        input_hash=input_hash(name, identity),
        call_id=call_id,
        **where,
    )


def plain_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """A content block as JSON that the log can carry."""
    try:
        canonical(dict(block))
        return dict(block)
    except Exception:
        clean: dict[str, Any] = plain(block)
        return clean


def _error_draft(rig: Rig, error: ModelError, request_id: str, purpose: str, duration_ms: float) -> Draft:
    limits, model = rig.run.definition.limits, rig.state.model
    delay = model_delay(error, model.failures, request_id)
    allowed = model.failures < limits.model_retries and model.waited_s + delay <= limits.retry_wait_s
    spent = retries_spent(rig.run.definition, rig.state)
    will_retry = error.retryable and allowed and not spent
    message = str(error)[:2000] + (f"; {spent}" if spent and error.retryable else "")
    payload: dict[str, Any] = {
        "request_id": request_id,
        "kind": error.kind,
        "message": message,
        "status": error.status,
        "retry_after_s": error.retry_after_s,
        "will_retry": will_retry,
        "delay_s": delay if will_retry else 0.0,
        "at_risk": error.sent and error.kind in ("timeout", "connection", "malformed", "empty"),
    }
    return Draft(
        "model_error",
        {k: v for k, v in payload.items() if v is not None},
        error={"type": error.kind, "message": message},
        error_type=error.kind,
        duration_ms=duration_ms,
        step=_step(rig),
        attempt=rig.state.plan.attempt,
        model=rig.model.name,
        parent_seq=rig.state.model.request_seq,
    )


def _cost(rig: Rig, reply: ModelReply) -> int | None:
    price = budget.price_of(rig.run.definition.budget.get("prices"), reply.model, rig.model.name)
    return None if price is None else budget.cost_microusd(reply.usage, price)


def _last_result(rig: Rig) -> str:
    for block in reversed(rig.state.context.blocks):
        if block.kind in ("result", "error"):
            event = rig.event(block.seq)
            said = event.payload.get("summary") or event.payload.get("message") or event.payload.get("output")
            text = said if isinstance(said, str) else canonical(plain(said))
            return f"{event.tool_name}: {'error: ' if block.kind == 'error' else ''}{text[:200]}"
    return "nothing yet"


def _step(rig: Rig) -> int | None:
    return rig.state.plan.current or None


def _ms(rig: Rig, started: float) -> float:
    return round((rig.clock.monotonic() - started) * 1000, 3)
