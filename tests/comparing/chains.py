"""A task of equal commands for closed forms: each takes its time in the sandbox, and nothing else takes any."""

from pathlib import Path
from typing import Any

from agentlab.authoring import Task, step, tool
from agentlab.models.scripted import call, say
from agentlab.models.view import View


def work(number: int) -> int:
    """Do one piece of work."""
    Path(f"piece-{number}").write_text("done")
    return number


def policy(view: View) -> Any:
    """Call the tool of the current step."""
    current = view.status.get("step")
    return [say("on it"), call("work", number=int(str(current)[1:]))] if current else say("done")


def chain(length: int, **changes: Any) -> Task:
    """``length`` steps of one command each."""
    return Task(
        name="chain",
        goal="Do all the pieces.",
        tools=(tool(work, effect="sandboxed"),),
        steps=tuple(step(f"p{n}", f"Piece {n}", tool="work") for n in range(length)),
        model="scripted:tests.comparing.chains:policy",
        strategy="nothing",
        **changes,
    )
