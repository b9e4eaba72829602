"""What the model is told in words: rules, the status restated each round, results, the recovery statement."""

from __future__ import annotations

from agentlab.events import canonical
from agentlab.session.recovery import CORRECTION, done_steps, expected_statement, next_step
from agentlab.session.state import LEFT_UNDONE, State

RULES = (
    "You work through the steps of a plan with the tools you are given. A tool may fail: read the error, then retry,"
    " take another way, or ask the user. Everything you did is in a log; call recall to read it again. Call step_done"
    " when the current step is done and it does not end by itself. When nothing is left to do, answer without a tool call."
)
RULES_WITH_PLAN = RULES + " There is no plan yet: for work of several steps declare one with the plan tool first."


def status_text(state: State, goal: str = "") -> str:
    """The current task summary, restated in every request: done, in progress, to come; without a plan the goal."""
    plan = state.plan
    if not plan.steps:
        return f"The task, in round {plan.rounds + 1}: {goal[:500]}" if goal and plan.rounds else ""
    step = state.step if plan.started else None
    status = {
        "step": step.id if step else next_step(state),
        "number": plan.current if plan.started else plan.current + 1,
        "of": len(plan.steps),
        "done": done_steps(state)[-20:],
        "round": plan.rounds + 1,
        "attempt": plan.attempt,
    }
    lines = [f"<status>{canonical(status)}</status>"]
    if step is not None:
        lines.append(
            f"Current step {status['number']} of {status['of']}: {step.id}" + (f" ({step.title})" if step.title else "")
        )
        if step.parameters:
            lines.append("Parameters: " + canonical(dict(step.parameters)))
        if step.expected:
            lines.append(f"Expected result: {step.expected}")
    return "\n".join(lines)


def recovery_note(state: State) -> str:
    """What the model is told after a crash: verified facts, not the history."""
    lines = ["You were interrupted and go on now. What the log confirms:"]
    for step_id, seq, summary in state.plan.recent[-20:]:
        lines.append(f"- step {step_id} is complete (event {seq}): {summary[:300]}")
    for settled in state.effects.recent[-20:]:
        what = "was left undone by a person" if settled.outcome == LEFT_UNDONE else "has happened"
        lines.append(f"- {settled.tool} {what} (key {settled.key}); it must not be repeated")
    for call in state.calls:
        if call.superseded:
            continue
        lines.append(f"- {call.tool} was asked for and has no result yet ({call.status}); its result follows")
    following = next_step(state)
    lines.append(f"Next step: {following}" if following else "All steps are complete.")
    return "\n".join(lines)


def statement_prompt(state: State) -> str:
    """The question that a model answers before it may act again."""
    facts = canonical(expected_statement(state))
    corrections = [note + "\n" for note in state.context.notes if note.startswith(CORRECTION)]
    return "".join(corrections[-1:]) + (
        "You were interrupted. Before anything else, state where you are: answer with one JSON object that has exactly the"
        " keys completed_steps (list of step ids), next_step (step id or null) and effects_done (list of keys)."
        f" These facts are confirmed by the log:\n<facts>{facts}</facts>"
    )
