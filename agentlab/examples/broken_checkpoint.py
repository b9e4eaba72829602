"""The mistake: a checkpoint of its own, saved before the side effect and never after, is asked whether that happened."""

from __future__ import annotations

from typing import Any

from agentlab.authoring import Task, step, tool
from agentlab.explorer import outbox
from agentlab.models.scripted import call, say
from agentlab.models.view import View


def order(item: str, idempotency_key: str = "") -> dict[str, Any]:
    """Order an item from a shop that knows no keys."""
    outbox.save("checkpoint", {"ordered": []})  # the mistake: what follows is in no checkpoint
    return {"id": outbox.deliver(f"order {item}")["id"]}


def was_ordered(key: str) -> dict[str, Any]:
    """Ask the checkpoint (the right thing: ask the shop)."""
    saved = outbox.load("checkpoint") or {"ordered": []}
    return {"outcome": "completed" if key in saved["ordered"] else "not_done", "evidence": "by the checkpoint"}


def policy(view: View) -> Any:
    """Order once, then end."""
    if view.status.get("step") == "order":
        return [say("Ordering."), call("order", item="a lamp")]
    return say("The lamp is ordered.")


TASK = Task(
    name="broken_checkpoint",
    goal="Order one lamp.",
    tools=(tool(order, effect="external", verify=was_ordered),),
    steps=(step("order", tool="order", kind="downstream"),),
    model=policy,
)
