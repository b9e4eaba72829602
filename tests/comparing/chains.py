"""A task of equal commands for closed forms: each takes its time in the sandbox, and nothing else takes any."""

import time
from pathlib import Path
from typing import Any

from agentlab.authoring import Task, step, tool
from agentlab.calling import task_params
from agentlab.models.scripted import call, say
from agentlab.models.view import View


def work(number: int, seconds: float = 0.0) -> int:
    """Do one piece of work."""
    time.sleep(seconds)
    _wait(number)
    Path(f"piece-{number}").write_text("done")
    return number


def _wait(number: int) -> None:
    """Where a test needs it: the piece ``held`` waits until the file ``gate`` is there, or, the first time, to be killed."""
    params = task_params()
    if number != params.get("held"):
        return
    gate, once = Path(params.get("gate", "/")), params.get("once")
    while not gate.exists():
        time.sleep(0.01)
    if once and not Path(once).exists():
        Path(once).touch()
        time.sleep(30)


def policy(view: View) -> Any:
    """Call the tool of the current step."""
    current = view.status.get("step")
    return [say("on it"), call("work", number=int(str(current)[1:]))] if current else say("done")


def slow_policy(view: View) -> Any:
    """The same, and each piece takes a quarter of a second."""
    current = view.status.get("step")
    return [say("on it"), call("work", number=int(str(current)[1:]), seconds=0.25)] if current else say("done")


def chain(length: int, policy: str = "policy", **changes: Any) -> Task:
    """``length`` steps of one command each."""
    return Task(
        name="chain",
        goal="Do all the pieces.",
        tools=(tool(work, effect="sandboxed"),),
        steps=tuple(step(f"p{n}", f"Piece {n}", tool="work") for n in range(length)),
        model=f"scripted:tests.comparing.chains:{policy}",
        strategy="nothing",
        **changes,
    )
