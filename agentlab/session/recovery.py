"""The recovery plan: four steps in a fixed order, decided purely, each safe to be killed in.

Load, rebuild, verify, statement (section "Recovery" of the README). The loading itself has happened when a state
exists; what it found is told by the first event. The sandbox is taken up, or replaced, before the context is
rebuilt, because what it lost belongs to the facts.
"""

from __future__ import annotations

from typing import Any

from agentlab.definition import Definition
from agentlab.errors import PayloadError
from agentlab.events import parse
from agentlab.session import commands as c
from agentlab.session import spending
from agentlab.session.schemes import scheme_named
from agentlab.session.state import State
from agentlab.session.strategies import strategy_named

MAX_CORRECTIONS = 1
CORRECTION = "Your statement does not agree with the log: "
"""How the note begins that a wrong statement gets; it is gone once a statement agrees."""
SHOWN_EFFECTS = 20


def decide_sandbox(state: State, needed: bool) -> c.Command | None:
    """Get a filled sandbox when the task needs one, else None."""
    sandbox = state.sandbox
    if sandbox.status == "unattached":
        return c.AttachSandbox(sandbox.sandbox_id)
    if sandbox.status == "provisioned":
        return c.FillWorkspace(sandbox.snapshot, tuple(call_id for call_id, _ in sandbox.since_snapshot))
    if sandbox.status == "lost" or (sandbox.status == "none" and needed):
        return c.ProvisionSandbox(sandbox.generation + 1)
    return None


def decide_recovery(state: State, definition: Definition) -> c.Command | None:
    """The next command of a recovery in progress, or None when there is none."""
    recovery = state.recovery
    if recovery.phase == "":
        return None
    if recovery.phase == "needed":
        return c.StartRecovery(recovery.cause, plan(state, definition))
    if recovery.phase == "sandbox":
        if state.sandbox.status in ("unattached", "provisioned", "lost"):
            return decide_sandbox(state, True)
        return c.RebuildContext()
    if recovery.phase == "verify":
        for call in state.calls:
            if call.status == "pending":
                return c.VerifyEffect(call.call_id, call.tool, call.key)
        return c.FinishVerification(sum(1 for call in state.calls if call.status == "in_doubt"))
    skipped = False
    if recovery.phase == "statement":
        strategy = strategy_named(definition.strategy)
        for call in state.calls:
            error = strategy.interrupts(call)
            if error:
                return c.AnswerCall(call.call_id, call.tool, False, error, "interrupted")
        if strategy.asks(state):
            return _statement(state, definition)
        skipped = True
    if state.control.confirm and not recovery.confirmed:
        return c.AskPerson(_confirmation(state), "recovery", options=("approve", "deny"))
    return c.CompleteRecovery(skipped_statement=skipped)


def _statement(state: State, definition: Definition) -> c.Command:
    """The fourth step: ask, check by rule, have it corrected once, then pause for a person."""
    recovery = state.recovery
    if recovery.statement:
        return c.CheckStatement(recovery.statement)
    if recovery.corrections > MAX_CORRECTIONS:
        return c.Pause("statement", "the model's account of where it is does not agree with the log")
    empty = spending.request_forbidden(state, definition, spending.request_estimate(state, definition))
    if empty:
        return c.Pause("budget", empty)
    drawing = spending.draw(state, spending.request_bound(state, definition))
    if drawing is not None:
        return drawing
    return c.AskModel("statement", spending.request_not_before(state))


def _confirmation(state: State) -> str:
    facts = expected_statement(state)
    done = ", ".join(facts["completed_steps"]) or "no step"
    effects = f", {len(facts['effects_done'])} effects" if facts["effects_done"] else ""
    return f"The session was recovered: {done} done{effects}, next is {facts['next_step'] or 'the end'}. May it go on?"


def plan(state: State, definition: Definition) -> tuple[str, ...]:
    """The recovery as lines for a person. Pure; the same state gives the same plan."""
    recovery = state.recovery
    scheme = scheme_named(definition.scheme)
    rests = scheme.rests_on_checkpoints()
    cursor = recovery.cursor if rests else 0
    from_where = (
        f" from the checkpoint at {recovery.checkpoint_seq}"
        if rests and recovery.checkpoint_seq
        else " (no checkpoint)"
    )
    lines = [f"load: state at event {cursor}{from_where}, then {recovery.cursor - cursor + recovery.replayed} events"]
    if scheme.goes_back(state):
        to = f"the checkpoint at {state.checkpoint.seq}" if state.checkpoint.seq else "the beginning"
        lines.append(f"go back: to {to}; what came after it is superseded and done again")
    if state.sandbox.status == "unattached":
        lines.append(
            f"sandbox: take up {state.sandbox.sandbox_id};"
            f" if it is gone, restore and run again {len(state.sandbox.since_snapshot)} commands"
        )
    strategy = strategy_named(definition.strategy)
    facts = "goal, confirmed facts, next action" if strategy.purifies() else "the history as it was"
    lines.append(f"rebuild: {facts}")
    pending = [call.key for call in state.calls if call.status == "pending"]
    lines.append("verify: " + (", ".join(pending) if pending else "no effect is pending"))
    if strategy.asks(state):
        lines.append("statement: the model says where it is; checked against the log")
    else:
        lines.append(
            f"statement: not asked for (strategy {strategy.name})" if state.turns else "statement: nothing was said yet"
        )
    if state.control.confirm:
        lines.append("confirm: a person is asked before it goes on")
    if state.calls:
        lines.append("then: " + ", ".join(f"{call.tool} ({call.status})" for call in state.calls))
    return tuple(lines)


def done_steps(state: State) -> list[str]:
    """Ids of the steps that are complete in this attempt."""
    done = state.plan.current - 1 if state.plan.started else state.plan.current
    return [step.id for step in state.plan.steps[: max(0, done)]]


def next_step(state: State) -> str | None:
    """The id of the step in progress or to begin, None when all are done."""
    steps = state.plan.steps
    index = state.plan.current - 1 if state.plan.started else state.plan.current
    return steps[index].id if 0 <= index < len(steps) else None


def expected_statement(state: State) -> dict[str, Any]:
    """What the log says: completed steps, next step, keys of the newest effects that are done."""
    return {
        "completed_steps": done_steps(state),
        "next_step": next_step(state),
        "effects_done": [s.key for s in state.effects.recent if s.outcome == "completed"][-SHOWN_EFFECTS:],
    }


def check_statement(text: str, expected: dict[str, Any]) -> tuple[str, ...]:
    """What is wrong with a statement, by rule; empty when it agrees with ``expected``."""
    start, end = text.find("{"), text.rfind("}")
    try:
        said = parse(text[start : end + 1]) if start >= 0 else None
    except PayloadError:
        said = None
    if not isinstance(said, dict):
        return ("the statement is not a JSON object with completed_steps, next_step and effects_done",)
    wrong = []
    for name, true in expected.items():
        value = said.get(name)
        same = (
            sorted(map(str, value)) == sorted(true)
            if isinstance(true, list) and isinstance(value, list)
            else value == true
        )
        if not same:
            wrong.append(f"{name} is {true!r}, not {value!r}")
    return tuple(wrong)
