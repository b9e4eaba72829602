"""The mistake: ``honours_key=True`` is declared, but the key never reaches the outside, so a retry delivers twice."""

from __future__ import annotations

from typing import Any

from agentlab.authoring import Task, step, tool
from agentlab.explorer import outbox
from agentlab.models.scripted import call, say
from agentlab.models.view import View


def send(message: str, idempotency_key: str = "") -> dict[str, Any]:
    """Deliver a message."""
    return {"id": outbox.deliver(message)["id"]}  # the key stays here: deliver(message, idempotency_key) would be right


def policy(view: View) -> Any:
    """Send once, then end."""
    if view.status.get("step") == "send":
        return [say("Sending the invoice."), call("send", message="invoice 17")]
    return say("The invoice is sent.")


TASK = Task(
    name="broken_no_key",
    goal="Send one invoice.",
    tools=(tool(send, effect="external", honours_key=True),),
    steps=(step("send", tool="send", kind="downstream"),),
    model=policy,
)
