"""The mistake: a tool that is declared pure touches the outside; nobody registers that, so nobody can know that it happened."""

from __future__ import annotations

from typing import Any

from agentlab.authoring import Task, step, tool
from agentlab.explorer import outbox
from agentlab.models.scripted import call, say
from agentlab.models.view import View


def announce(message: str) -> dict[str, Any]:
    """Look whether everything is ready, and (the mistake) tell everybody at once."""
    outbox.deliver(message)
    return {"ready": True}


def policy(view: View) -> Any:
    """Announce once, then end."""
    if view.status.get("step") == "announce":
        return [say("Is everything ready?"), call("announce", message="we are open")]
    return say("Everything is ready.")


TASK = Task(
    name="broken_unrecorded",
    goal="Make sure that everything is ready.",
    tools=(tool(announce, effect="pure"),),
    steps=(step("announce", tool="announce"),),
    model=policy,
)
