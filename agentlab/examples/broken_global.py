"""The mistake: results are collected in a global; the process that held it dies, and the total is another one."""

from __future__ import annotations

from typing import Any

from agentlab.authoring import Task, step, tool, validator
from agentlab.models.scripted import call, say
from agentlab.models.view import View

AMOUNTS: list[int] = []


def note_amount(amount: int) -> str:
    """Take an amount down."""
    AMOUNTS.append(amount)  # the mistake: nothing outside this process knows of it
    return "noted"


def added_up() -> list[str]:
    """Whether the amounts are 42 in all."""
    return [] if sum(AMOUNTS) == 42 else [f"the amounts are {sum(AMOUNTS)} in all"]


def policy(view: View) -> Any:
    """Two amounts, one after the other."""
    current = view.status.get("step")
    if current is None:
        return say("Both amounts are noted.")
    return [say("Noting."), call("note_amount", amount=20 if current == "first" else 22)]


TASK = Task(
    name="broken_global",
    goal="Note 20 and 22.",
    tools=(tool(note_amount, effect="pure"),),
    steps=(step("first", tool="note_amount"), step("second", tool="note_amount")),
    validator=validator(added_up, effect="pure"),
    limits={"attempts": 1},
    model=policy,
)
