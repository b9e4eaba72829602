"""A task long enough to be hit many times: importable, so that real harness processes find it by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agentlab as al
from agentlab.explorer.outbox import deliver, find
from agentlab.models.view import View


def measure(text: str) -> dict[str, int]:
    """How long a text is."""
    return {"length": len(text)}


def write(name: str) -> dict[str, int]:
    """Write a file; twice is as good as once."""
    Path(name).write_text(name)
    return {"files": len(list(Path(".").glob("f*")))}


def send(message: str, idempotency_key: str = "") -> dict[str, Any]:
    """Deliver a message."""
    return dict(deliver(message, idempotency_key))


def was_sent(key: str) -> dict[str, Any]:
    """Whether the message with ``key`` was delivered."""
    found = find(key)
    if found is None:
        return {"outcome": "not_done", "evidence": f"nothing with {key}"}
    return {"outcome": "completed", "result": found, "evidence": f"delivery {found['id']} has {key}"}


def policy(view: View) -> Any:
    """Measures, writes and sends, some times each, whatever goes wrong on the way."""
    for name, argument, rounds in (("measure", "text", 6), ("write", "name", 4), ("send", "message", 3)):
        done = len([found for found in view.results(name) if not found.is_error])
        if done < rounds:
            return [al.say(f"{name} number {done + 1}"), al.call(name, **{argument: f"f{done + 1}"})]
    return al.say("all done")


ROUNDS = al.Task(
    name="rounds",
    goal="Measure, write and send, some rounds of each.",
    tools=(
        al.tool(measure, effect="pure", retries=3),
        al.tool(write, effect="sandboxed", retries=3),
        al.tool(send, effect="external", honours_key=True, verify=was_sent),
    ),
    model=policy,
    limits={"errors_in_a_row": 30},
    guard={"rules": ()},
)
