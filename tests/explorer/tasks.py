"""Small tasks that run in both worlds: importable, so that real harness processes find them by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import agentlab as al
from agentlab.examples.sound_delivery import send, was_sent
from agentlab.models.view import View


def write_line(text: str) -> dict[str, int]:
    """Append a line to the report."""
    with open("report.txt", "a", encoding="utf-8") as file:
        file.write(text + "\n")
    return {"lines": len(Path("report.txt").read_text().splitlines())}


def measure(text: str) -> int:
    """How long a text is."""
    return len(text)


def policy(view: View) -> Any:
    """One call a step."""
    current = view.status.get("step")
    if current == "measure":
        return [al.say("Measuring."), al.call("measure", text="hello")]
    if current == "write":
        return [al.say("Writing."), al.call("write_line", text="hello")]
    if current == "send":
        return [al.say("Sending."), al.call("send", message="done")]
    return al.say("All done.")


SMALL = al.Task(
    name="small",
    goal="Measure a text, write it down, and send one message.",
    tools=(
        al.tool(measure, effect="pure"),
        al.tool(write_line, effect="sandboxed"),
        al.tool(send, effect="external", honours_key=True, verify=was_sent),
    ),
    steps=(
        al.step("measure", tool="measure"),
        al.step("write", tool="write_line"),
        al.step("send", tool="send", kind="downstream"),
    ),
    model=policy,
)

ALL = replace(
    SMALL,
    name="all",
    tools=(
        al.tool(measure, effect="pure", retries=1),
        al.tool(write_line, effect="sandboxed"),
        al.tool(send, effect="external", honours_key=True, verify=was_sent, once_per_content=True),
    ),
    policy="every=2",
)
"""Whatever a session can reach: every kind of tool, an effect that happens once per content, checkpoints."""
