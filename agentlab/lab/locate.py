"""Locate: where is it, what did the step before do, what failed; each verdict with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentlab import process
from agentlab.budget import amount
from agentlab.budget.dimensions import shown
from agentlab.definition import Definition
from agentlab.events import Event, iso
from agentlab.session.recovery import next_step
from agentlab.session.spending import request_estimate, request_forbidden
from agentlab.session.state import Call, State

CHAIN = 12
"""Links of the chain of errors that are shown."""
SILENT_S = 30.0
"""Seconds without an event after which a living harness counts as making no progress."""

CONDITIONS = (
    "not_started", "harness_dead", "no_progress", "waiting_for_model", "tool_running", "tool_hung", "sandbox_dead",
    "waiting_for_person", "waiting_for_budget", "waiting_in_queue", "paused", "working", "ended", "unknown",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Located:
    """Where a session is.

    ``condition`` is one of :data:`CONDITIONS`; ``evidence`` says what it rests on; ``before`` is the newest decision
    and result before it; ``error`` the newest error with its event number; ``next`` says what to do. ``done`` is the last
    completed step, ``chain`` every error and death since, oldest first, at most the newest :data:`CHAIN`.
    """

    session_id: str
    condition: str
    evidence: tuple[str, ...]
    step: str | None
    last_event: int
    before: str
    error: str
    next: str
    done: str = ""
    chain: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.session_id}: {self.condition.replace('_', ' ')}" + (f" at step {self.step}" if self.step else "")
        ]
        lines += [f"  because {e}" for e in self.evidence]
        lines += [f"  before: {self.before}"] if self.before else []
        lines += [f"  error: {self.error}"] if self.error else []
        if len(self.chain) > 1:
            lines += [f"  since {self.done or 'the start'}:", *(f"    {link}" for link in self.chain)]
        return "\n".join([*lines, f"  next: {self.next}"])


def locate(
    state: State,
    alive: process.Liveness,
    definition: Definition,
    before: Event | None,
    error: Event | None,
    now_us: int,
    last: Event | None,
    rest: Event | None = None,
    queue: tuple[str, ...] = (),
    chain: Sequence[Event] = (),
) -> Located:
    """The finding for a state and the standing of its harness (``alive``), as :meth:`Reader.standing` gives them.

    ``before`` is the newest decision or result, ``error`` the newest error event, ``rest`` the newest ``session_paused``;
    ``queue`` says how the lab's queue stands; ``chain`` are the errors and deaths since the last completed step.
    """
    condition, evidence, following = _condition(state, alive, definition, now_us)
    if state.control.queued and condition in ("waiting_in_queue", "harness_dead", "paused"):
        evidence = (*evidence, *queue)
    detail = rest.payload.get("detail") if rest is not None and state.control.status == "paused" else None
    if detail:
        evidence = (*evidence, f"in detail: {detail}")
    if last is not None:
        evidence = (*evidence, f"the newest event is {last.seq} ({last.type})")
    return Located(
        session_id=state.session_id,
        condition=condition,
        evidence=evidence,
        step=next_step(state),
        last_event=state.seq,
        before=_described(before),
        error=_described(error),
        next=following,
        done=_done(state),
        chain=tuple(_link(event) for event in chain[-CHAIN:]),
    )


def _done(state: State) -> str:
    if not state.plan.recent:
        return ""
    step_id, seq, _ = state.plan.recent[-1]
    return f"step {step_id} (event {seq})"


def _link(event: Event) -> str:
    if event.type == "harness_died":
        how = event.payload.get("signal") or event.payload.get("exit_code")
        return f"event {event.seq} harness_died: {how}" if how is not None else f"event {event.seq} harness_died"
    said = str((event.error or {}).get("message", ""))
    return f"event {event.seq} {event.type} {event.error_type or ''}".rstrip() + (f": {said[:120]}" if said else "")


def _described(event: Event | None) -> str:
    if event is None:
        return ""
    said = event.payload.get("action") or event.payload.get("summary") or event.payload.get("message") or ""
    tool = f" {event.tool_name}" if event.tool_name else ""
    return f"event {event.seq} {event.type}{tool}" + (f": {str(said)[:200]}" if said else "")


_Finding = tuple[str, tuple[str, ...], str]


def _condition(state: State, alive: process.Liveness, definition: Definition, now_us: int) -> _Finding:
    control = state.control
    if control.status == "ended":
        return "ended", (f"session_ended says {control.outcome}",), "read the result, or fork it"
    if control.status == "waiting":
        question = str(control.question.get("question", ""))
        return "waiting_for_person", (f"event {control.question_seq} asks: {question}",), _answer(control.question)
    if control.status == "paused":
        if control.reason == "budget":
            return _short(state, definition)
        return "paused", (f"session_paused says {control.reason}",), "wake it"
    if not state.incarnation and control.pause_id:
        return (
            "paused",
            (_asked(state), "no harness has opened the session"),
            "wake it",
        )
    if not state.incarnation:
        return "not_started", ("no harness has opened the session",), "run or wake it"
    return _driven(state, alive, definition, now_us)


def _short(state: State, definition: Definition) -> _Finding:
    """A session that rests for its budget: what is short by how much, where the next model call is what does not fit."""
    says, budget = "session_paused says budget", state.budget
    needs = request_estimate(state, definition)
    found = "" if state.calls or budget.refused else request_forbidden(state, definition, needs)
    if found.startswith("cost_microusd:"):
        return "waiting_for_budget", (says,), "run it anew with the model's price; more money alone does not help"
    more = "extend the budget (%agent budget extend), then wake"
    left = budget.left(found)
    if left is None or left <= 0 or found == "wall_ms":
        return "waiting_for_budget", (says,), more
    need = amount(needs, found) + budget.kept.get(found, 0)
    missing = f"{shown(found, left)} {found} left, and the next model call is expected to need {shown(found, need)}"
    return "waiting_for_budget", (says, missing), more


def _answer(question: Mapping[str, Any]) -> str:
    kind = question.get("kind")
    if kind == "effect":
        return f"settle {question.get('key')} with done, retry or skip"
    return "approve or deny" if kind == "approval" else "reply"


def _driven(state: State, alive: process.Liveness, definition: Definition, now_us: int) -> _Finding:
    pid = state.process.get("pid")
    if alive == "unknown":
        return "unknown", (f"its harness runs on host {state.process.get('host')!r}",), "look there"
    if alive == "dead":
        if state.control.pause_id:
            return (
                "paused",
                (_asked(state), f"process {pid} is gone"),
                "wake it",
            )
        return "harness_dead", (f"process {pid} is gone: none has that pid and start time",), "wake it"
    age = max(0.0, (now_us - state.ts) / 1e6)
    stopped = process.stopped(int(state.process["pid"]))
    living = f"process {pid} is {'stopped (SIGSTOP)' if stopped else 'alive'}"
    record = state.sandbox.record
    if record and state.sandbox.status in ("ready", "provisioned") and process.liveness(record) == "dead":
        return (
            "sandbox_dead",
            (f"sandbox process {record.get('pid')} is gone", living),
            "continue or kill the harness: it restores the sandbox" if stopped else "nothing: the harness restores it",
        )
    if stopped:
        return "no_progress", (living,), "continue or kill the harness"
    if state.control.queued:
        said = f"event {state.control.queued_seq} (session_queued) says place {state.control.queued}"
        return "waiting_in_queue", (said, living), "wait for a free place, or raise the lab's max_sessions"
    if state.model.request_id:
        return (
            "waiting_for_model",
            (f"model_request {state.model.request_seq} has no answer since {iso(state.ts)}", living),
            "wait",
        )
    if state.calls:
        return _in_call(state, state.calls[0], definition, now_us, living)
    if age > SILENT_S:
        return "no_progress", (f"no event for {age:.0f} s", living), "look at its output in run/, or kill the harness"
    return "working", (living,), "wait"


def _in_call(state: State, call: Call, definition: Definition, now_us: int, living: str) -> _Finding:
    tool = definition.tool(call.tool)
    limit = tool.timeout_s if tool is not None else 60.0
    waited = max(0.0, (now_us - max(state.ts, call.not_before_us)) / 1e6)
    what = f"{call.tool} ({call.call_id}) has no result, asked for in event {call.seq}"
    if waited > limit:
        return (
            "tool_hung",
            (what, f"{waited:.0f} s exceed its limit of {limit:g} s", living),
            "kill the sandbox or the harness",
        )
    return "tool_running", (what, living), "wait"


def _asked(state: State) -> str:
    detail = f": {state.control.pause_detail}" if state.control.pause_detail else ""
    return f"a pause was asked for: {state.control.pause_reason}{detail}"
