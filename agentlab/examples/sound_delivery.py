"""The same work done right: the key goes along, verify asks the outside, the total is made from what is on record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentlab.authoring import Task, step, tool
from agentlab.definition import PolicySpec
from agentlab.explorer import outbox
from agentlab.models.scripted import call, say
from agentlab.models.view import View


def note_amount(amount: int) -> int:
    """Take an amount down in the workspace; the sum so far."""
    path = Path("amounts.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    path.write_text("\n".join([*lines, str(amount)]) + "\n")
    return sum(map(int, lines)) + amount


def send(message: str, idempotency_key: str) -> dict[str, Any]:
    """Deliver a message."""
    return {"id": outbox.deliver(message, idempotency_key)["id"]}


def was_sent(key: str) -> dict[str, Any]:
    """Whether the outside has it."""
    found = outbox.find(key)
    return {"outcome": "completed", "result": found} if found is not None else {"outcome": "not_done"}


def policy(view: View) -> Any:
    """Two amounts, then one message."""
    current = view.status.get("step")
    if current in ("first", "second"):
        return [say("Noting."), call("note_amount", amount=20 if current == "first" else 22)]
    if current in ("send", "send_again"):
        return [say("Sending."), call("send", message="the total is 42")]
    return say("All done.")


BLIND = Task(
    name="sound_blind",
    goal="Send one message to a service that honours keys and can not be asked.",
    tools=(tool(send, effect="external", honours_key=True),),
    steps=(step("send", tool="send", kind="downstream"),),
    model=policy,
)
"""Sound without verify: a retry with the same key is one delivery."""


def send_plain(message: str) -> dict[str, Any]:
    """Deliver a message to a service that knows no keys."""
    return {"id": outbox.deliver(message)["id"]}


def plain_policy(view: View) -> Any:
    """One message."""
    if view.status.get("step") == "send":
        return [say("Sending."), call("send_plain", message="the total is 42")]
    return say("All done.")


DOUBT = Task(
    name="sound_doubt",
    goal="Send one message to a service that knows no keys and can not be asked.",
    tools=(tool(send_plain, effect="external"),),
    steps=(step("send", tool="send_plain", kind="downstream"),),
    model=plain_policy,
)
"""Sound with neither: where nobody can tell whether it happened, a person is asked."""

AGAIN = Task(
    name="sound_again",
    goal="Send one message, and ask for the same once more: the record answers the second time.",
    tools=(tool(send, effect="external", honours_key=True, verify=was_sent),),
    steps=(step("send", tool="send", kind="downstream"), step("send_again", tool="send", kind="downstream")),
    model=policy,
    policy=PolicySpec("every_steps", {"n": 1}),
)
"""Sound with a checkpoint between an effect and the next wish for it."""

TASK = Task(
    name="sound_delivery",
    goal="Add 20 and 22, and send the total once.",
    tools=(
        tool(note_amount, effect="sandboxed"),
        tool(send, effect="external", honours_key=True, verify=was_sent),
    ),
    steps=(
        step("first", tool="note_amount"),
        step("second", tool="note_amount"),
        step("send", tool="send", kind="downstream"),
    ),
    model=policy,
)
