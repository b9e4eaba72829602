"""The table of symptoms: what each is called, its likely cause, where to look, and what to do."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """A row of the table."""

    title: str
    cause: str
    look_at: str
    cure: str


_TABLE = """
drift: Answers drift away from the goal
    the goal is out of sight after many rounds
    the goal against recent answers
    restate the task in every round
doubled_effects: An external effect may have happened twice
    the registry of effects was not in force, or the outside can not be asked
    al.frames.effects(...) and the outside's own record
    register before the call, verify after a recovery; give the tool a verify function
repetition: The same action again and again
    a dead loop
    al.plots.loops(...), the decisions around these events
    let the guard pause, cap the rounds per step, tell the model what failed
unlimited_calls: Tokens are fine, calls outside are not
    outside calls cost money that no limit counts
    al.frames.calls(...) by tool, al.plots.burn(...)
    limit tool_calls and tool_calls_by_tool
amnesia: Amnesia after a recovery
    goal or plan were not in what was loaded
    the task layer and the checkpoint's state
    keep the task layer in every request; ask for a statement after each recovery
stuffed_history: The whole history is pasted back after a recovery
    old messages were loaded in full instead of a summary
    the first request after the recovery
    goal, confirmed facts and next action; nothing else
budget_trips: The budget trips
    limits are tight or estimates are off
    al.plots.burn(...)
    extend the dimension, or correct the estimates first
estimates_off: Estimates of tokens are off
    the estimate of a request does not fit this model
    tokens_estimate against input_tokens in al.frames.turns(...)
    raise (or lower) the safety factor of the estimate
crowding: Sessions slow each other
    too many sessions at once
    al.plots.timeline([...]), the events session_queued
    limit how many sessions run at once; more places if they only wait
frequent_checkpoints: Checkpoints are too frequent for what they save
    the policy writes one more often than crashes make worth while
    al.plots.policies(al.compare(...).frame), duration_s in al.frames.checkpoints(...)
    a longer interval: policy daly, or milestones; make them cheaper (scheme events or hybrid)
failing_tool: A tool fails more often than not
    the tool or its input is broken
    error_type and error_message in al.frames.calls(...)
    mend the tool, or tell the model how to call it
failing_step: The step that fails most
    its tool, its input, or what the step before left behind
    error_message in al.frames.calls(...) at these events
    a validator for the step before, another tool for this one, fewer retries
slowest_step: The slowest step
    where the time goes
    al.plots.timeline(...), al.plots.latency(...)
    split it, make its tool faster, or put a checkpoint after it
"""


def _parse(table: str) -> dict[str, Advice]:
    lines = table.strip().splitlines()
    rows = {}
    for at in range(0, len(lines), 4):
        name, title = lines[at].split(": ", 1)
        cause, look_at, cure = (line.strip() for line in lines[at + 1 : at + 4])
        rows[name] = Advice(title, cause, look_at, cure)
    return rows


ADVICE: dict[str, Advice] = _parse(_TABLE)
"""Advice by the symptom's name."""
