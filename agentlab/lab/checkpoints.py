"""Checkpoints as a person reads them: one row each, and the whole picture that one stands for, as JSON.

What is stored is small: the folded state and a cursor. The picture is put together when it is asked for, from that
state and the events up to its cursor; every call in it names the event that holds its input and output whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentlab.definition import Definition
from agentlab.errors import UnknownName
from agentlab.events import Event, canonical, iso, plain
from agentlab.session.decide import Run, decide
from agentlab.session.recovery import done_steps, next_step
from agentlab.session.state import State

SHOWN = 200
"""Characters of an input or output that a summary shows; the event holds all of it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint. ``seq`` is its event, ``cursor`` the last event that its state includes."""

    session_id: str
    seq: int
    cursor: int
    checkpoint_id: str
    schema_version: int
    created_at: str
    reason: str
    label: str
    scheme: str
    snapshot: str
    size_bytes: int
    duration_ms: float

    @classmethod
    def of(cls, event: Event) -> Checkpoint:
        """The checkpoint that a ``checkpoint_written`` event tells of."""
        p = event.payload
        return cls(
            session_id=event.session_id,
            seq=event.seq,
            cursor=p["cursor"],
            checkpoint_id=p["checkpoint_id"],
            schema_version=p["schema_version"],
            created_at=iso(event.ts),
            reason=p["reason"],
            label=p.get("label") or "",
            scheme=p.get("scheme") or "hybrid",
            snapshot=p.get("snapshot") or "",
            size_bytes=p["size_bytes"],
            duration_ms=event.duration_ms or 0.0,
        )

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def checkpoints_of(events: Iterable[Event]) -> list[Checkpoint]:
    """Every checkpoint of a session, oldest first."""
    return [Checkpoint.of(event) for event in events if event.type == "checkpoint_written"]


def find(known: Sequence[Checkpoint], name: str | int) -> Checkpoint:
    """The checkpoint of that event number, id or label (the newest of a label), or ``newest``.

    Raises:
        UnknownName: none is called so.
    """
    wanted = str(name)
    for checkpoint in reversed(known):
        if wanted in ("newest", str(checkpoint.seq), checkpoint.checkpoint_id) or (
            wanted and wanted == checkpoint.label
        ):
            return checkpoint
    raise UnknownName("checkpoint", wanted, [c.label or str(c.seq) for c in known])


def picture(
    checkpoint: Checkpoint,
    state: State,
    definition: Definition,
    events: Iterable[Event],
    content: Callable[[Any], Any],
) -> dict[str, Any]:
    """Everything that a checkpoint stands for, as JSON with the field names of the README's example.

    ``state`` is the state that it stores, ``events`` the session's events from the first on (what lies after the
    cursor is not looked at), ``content`` fetches spilled values. ``task_status`` has *current_step*, *completed_steps*
    (id, event, output summary) and *pending_steps* (with parameters and expected result); ``side_effects`` the
    external effects by tool with key and state, and the files of the workspace's snapshot are named by ``snapshot``;
    ``resource_usage`` what is used, at risk and left.
    """
    past = [event for event in events if event.seq <= checkpoint.cursor]
    return {
        "checkpoint_id": checkpoint.checkpoint_id,
        "schema_version": checkpoint.schema_version,
        "session_id": checkpoint.session_id,
        "created_at": checkpoint.created_at,
        "reason": checkpoint.reason,
        "label": checkpoint.label,
        "goal": definition.goal,
        "original_input": definition.user_input or definition.goal,
        "constraints": list(definition.constraints),
        "parameters": dict(definition.params),
        "task_status": task_status(state),
        "next_action": next_action(state, definition),
        "tool_calls": tool_calls(past, content),
        "side_effects": side_effects(past, state),
        "resource_usage": resource_usage(state),
        "confirmed_facts": confirmed_facts(state),
        "context_summary": context_summary(state),
        "snapshot": checkpoint.snapshot or None,
        "cursor": checkpoint.cursor,
    }


def task_status(state: State) -> dict[str, Any]:
    """Where the plan is: the step in progress or to begin, what is complete, what is to come."""
    known = {step_id: (seq, summary) for step_id, seq, summary in state.plan.recent}
    completed = []
    for step_id in done_steps(state):
        seq, summary = known.get(step_id, (None, ""))
        completed.append({"step": step_id, "seq": seq, "summary": summary})
    begun = len(completed)
    pending = [
        {
            "step": s.id,
            "title": s.title,
            "kind": s.kind,
            "parameters": dict(s.parameters),
            "expected_result": s.expected,
        }
        for s in state.plan.steps[begun:]
    ]
    return {
        "current_step": next_step(state),
        "completed_steps": completed,
        "pending_steps": pending,
        "attempt": state.plan.attempt,
        "round": state.plan.rounds,
    }


def next_action(state: State, definition: Definition) -> dict[str, Any]:
    """What comes next, with its parameters: a call that waits for its result, or what the harness would do."""
    for call in state.calls:
        return {"action": call.tool, "parameters": dict(call.input), "status": call.status, "call_id": call.call_id}
    command = decide(state, Run.of(definition)).to_json()
    step = state.step
    parameters = dict(step.parameters) if step is not None else {}
    return {"action": command.pop("command"), "parameters": {**parameters, **command}, "status": "planned"}


def tool_calls(events: Sequence[Event], content: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """Every tool call: its input and output in short, and the events that hold them whole."""
    calls: dict[str, dict[str, Any]] = {}
    for event in events:
        p = event.payload
        if event.type == "tool_requested":
            calls[p["call_id"]] = {
                "call_id": p["call_id"],
                "tool": p["tool"],
                "seq": event.seq,
                "input_hash": event.input_hash,
                "input": _short(content(p["input"])),
                "result_seq": None,
                "status": "pending",
                "output": "",
            }
        elif event.type in ("tool_result", "tool_error") and p["call_id"] in calls:
            good = event.type == "tool_result"
            output = p.get("summary") if good else p.get("message")
            calls[p["call_id"]].update(
                result_seq=event.seq, status="ok" if good else "error", output=_short(output if output else "")
            )
    return list(calls.values())


_STATES = {
    "effect_pending": "pending",
    "effect_completed": "completed",
    "effect_failed": "not_done",
    "effect_in_doubt": "in_doubt",
}


def side_effects(events: Sequence[Event], state: State) -> dict[str, list[dict[str, Any]]]:
    """External effects by tool: key, state, the newest event that says so."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.type not in _STATES:
            continue
        p = event.payload
        found[p["key"]] = {"tool": p["tool"], "key": p["key"], "state": _STATES[event.type], "seq": event.seq}
    out: dict[str, list[dict[str, Any]]] = {}
    for effect in found.values():
        out.setdefault(effect.pop("tool"), []).append(effect)
    return out


def resource_usage(state: State) -> dict[str, Any]:
    """What was used, what a crash left at risk, and what is left of each limit; tokens, calls, US dollars."""
    used: Mapping[str, int] = state.budget.used
    left = {name: state.budget.left(name) for name in state.budget.limits}
    risk: dict[str, int] = {}
    for amounts in state.budget.at_risk.values():
        for name, amount in amounts.items():
            risk[name] = risk.get(name, 0) + amount
    return {
        "tokens_consumed": used.get("input_tokens", 0) + used.get("output_tokens", 0),
        "input_tokens": used.get("input_tokens", 0),
        "output_tokens": used.get("output_tokens", 0),
        "tool_calls": used.get("tool_calls", 0),
        "model_calls": used.get("model_calls", 0),
        "cost_usd": used.get("cost_microusd", 0) / 1e6,
        "at_risk": risk,
        "left": left,
    }


def confirmed_facts(state: State) -> list[dict[str, Any]]:
    """What the log confirms: pinned facts, completed steps and settled effects, each with its event where it has one."""
    facts: list[dict[str, Any]] = [
        {"fact": f"{name}: {value}", "seq": None} for name, value in state.context.anchors.items()
    ]
    facts += [
        {"fact": f"step {step_id} is complete: {summary}", "seq": seq} for step_id, seq, summary in state.plan.recent
    ]
    facts += [
        {"fact": f"{settled.tool} has happened (key {settled.key})", "seq": settled.result_seq}
        for settled in state.effects.recent
        if settled.outcome == "completed"
    ]
    return facts


def context_summary(state: State) -> dict[str, Any]:
    """The scratch layer in numbers, and what the next request will be told besides it."""
    context = state.context
    return {
        "rounds": context.round,
        "blocks": len(context.blocks),
        "tokens": context.tokens,
        "dropped": context.dropped,
        "notes": list(context.notes),
    }


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else canonical(plain(value))
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
