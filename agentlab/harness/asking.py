"""Asking the model: the request from the three layers, the answer as events, errors as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentlab import budget
from agentlab.context import build_messages, task_text
from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import ModelError, NoCredentials, UserError
from agentlab.events import Draft, Fixed, FixedList, canonical, digest, input_hash, plain
from agentlab.harness.retrying import model_delay
from agentlab.harness.rig import Rig
from agentlab.harness.telling import RULES, RULES_WITH_PLAN, result_text, statement_prompt, status_text
from agentlab.models.digest import request_digest
from agentlab.ports import ModelReply, ModelRequest
from agentlab.session.commands import AskModel
from agentlab.session.decide import request_estimate


def perform_ask(command: AskModel, rig: Rig) -> list[Draft]:
    """Write the request ahead, ask once, answer with the response or the error."""
    rig.wait_until(command.not_before_us)
    request = build_request(rig, command.purpose)
    request_id = rig.ids.new("r")
    request = replace(request, request_id=request_id, digest=request_digest(request))
    rig.recorder.commit((_request_draft(rig, request, request_id, command),))
    rig.acknowledge()
    started = rig.clock.monotonic()
    reach(CrashPoint.MODEL_SEND, "before", command.purpose)
    try:
        reply = rig.model.complete(request, rig.on_text)
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
    system, tools = rig.fixed_layer(lambda: _fixed_layer(rig))
    task = task_text(
        definition.goal, definition.user_input, definition.constraints, definition.params, state.context.anchors
    )
    if purpose == "statement":
        content = [{"type": "text", "text": task}, {"type": "text", "text": statement_prompt(state)}]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    else:
        rig.prune()
        shown = {block.seq: rig.rendered(block.seq, block_content) for block in state.context.blocks}
        messages = build_messages(task, state.context, shown, status_text(state))
    return ModelRequest(
        system=system,
        tools=tools,
        messages=messages,
        max_tokens=definition.limits.max_output_tokens,
        purpose="statement" if purpose == "statement" else "act",
        params=definition.model_params,
        timeout_s=definition.limits.model_timeout_s,
    )


def _fixed_layer(rig: Rig) -> tuple[FixedList, FixedList]:
    definition = rig.run.definition
    rules = RULES_WITH_PLAN if not definition.steps else RULES
    text = "\n\n".join(part for part in (definition.system, rules) if part)
    system = Fixed({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})
    return FixedList([system]), FixedList(Fixed(spec.for_model()) for spec in rig.run.tools.values())


def block_content(rig: Rig, seq: int) -> list[Fixed]:
    """The API content of a scratch block: an answer's blocks with our call ids, or one tool_result."""
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
    text = result_text(rig.content(dict(payload)), event.type == "tool_error", seq)
    result = {"type": "tool_result", "tool_use_id": payload["call_id"], "content": text}
    return [Fixed({**result, "is_error": True} if event.type == "tool_error" else result)]


def _request_draft(rig: Rig, request: ModelRequest, request_id: str, command: AskModel) -> Draft:
    state = rig.state
    blocks = state.context.blocks
    reserved = request_estimate(state, rig.run.definition)
    payload = {
        "request_id": request_id,
        "purpose": command.purpose,
        "layers": {
            "fixed": {"system": rig.fixed_layer(lambda: _fixed_layer(rig))[0][0].digest, "tools": len(request.tools)},
            "task": {
                "digest": digest(canonical(request.messages[0]["content"][0])),
                "anchors": len(state.context.anchors),
            },
            "scratch": {"blocks": len(blocks), "tokens": state.context.tokens, "dropped": state.context.dropped},
        },
        "blocks": [] if command.purpose == "statement" else _ranges([b.seq for b in blocks]),
        "notes": list(state.context.notes),
        "tokens_estimate": reserved["input_tokens"],
        "reserved": reserved,
        "digest": request.digest,
    }
    return Draft("model_request", payload, step=_step(rig), attempt=state.plan.attempt, model=rig.model.name)


def _ranges(seqs: Sequence[int]) -> list[list[int]]:
    """Ascending numbers as ``[first, last]`` runs: the reference stays short however long the window."""
    out: list[list[int]] = []
    for seq in seqs:
        if out and seq == out[-1][1] + 1:
            out[-1][1] = seq
        else:
            out.append([seq, seq])
    return out


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
    will_retry = error.retryable and allowed
    payload: dict[str, Any] = {
        "request_id": request_id,
        "kind": error.kind,
        "message": str(error)[:2000],
        "status": error.status,
        "retry_after_s": error.retry_after_s,
        "will_retry": will_retry,
        "delay_s": delay if will_retry else 0.0,
        "at_risk": error.sent and error.kind in ("timeout", "connection", "malformed", "empty"),
    }
    return Draft(
        "model_error",
        {k: v for k, v in payload.items() if v is not None},
        error={"type": error.kind, "message": str(error)[:2000]},
        error_type=error.kind,
        duration_ms=duration_ms,
        step=_step(rig),
        attempt=rig.state.plan.attempt,
        model=rig.model.name,
        parent_seq=rig.state.model.request_seq,
    )


def _cost(rig: Rig, reply: ModelReply) -> int | None:
    prices = rig.run.definition.budget.get("prices")
    if not isinstance(prices, Mapping):
        return None
    price = prices.get(reply.model) or prices.get(rig.model.name)
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
