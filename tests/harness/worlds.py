"""Small simulated worlds for the harness's tests: a task with a pure, a sandboxed and an external tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentlab.definition import BUILTIN_TOOLS, Definition, Limits, PolicySpec, StepSpec, ToolSpec, ValidatorSpec
from agentlab.harness.simulation import SimulatedWorld
from agentlab.models.scripted import ScriptedModel, call, say
from agentlab.models.view import View

OBJECT = {"type": "object", "properties": {}}


class Outside:
    """The world outside: what was really delivered, by key; it honours keys."""

    def __init__(self) -> None:
        self.delivered: dict[str, str] = {}
        self.requests = 0

    def send(self, message: str, idempotency_key: str) -> dict[str, str]:
        self.requests += 1
        self.delivered.setdefault(idempotency_key, message)
        return {"id": f"n{list(self.delivered).index(idempotency_key)}"}

    def was_sent(self, key: str) -> dict[str, Any]:
        if key in self.delivered:
            return {"outcome": "completed", "result": {"id": f"n{list(self.delivered).index(key)}"}}
        return {"outcome": "not_done"}


def add(a: int, b: int) -> int:
    return a + b


def write(text: str) -> dict[str, int]:
    with open("report.txt", "a", encoding="utf-8") as file:
        file.write(text)
    return {"size": Path("report.txt").stat().st_size}


def written() -> list[str]:
    path = Path("report.txt")
    return [] if path.exists() and path.read_text() == "one line\n" else ["report.txt does not hold one line"]


def policy(view: View) -> Any:
    step = view.status.get("step")
    if step == "add":
        return [say("adding"), call("add", a=1, b=2)]
    if step == "write":
        return [say("writing"), call("write", text="one line\n")]
    if step == "send":
        return [say("sending"), call("send", message="done")]
    return say("all done")


def local(name: str) -> dict[str, str]:
    return {"kind": "local", "name": name}


def tools() -> tuple[ToolSpec, ...]:
    return (
        ToolSpec("add", "Add.", OBJECT, effect="pure", ref=local("add")),
        ToolSpec("write", "Append to the report.", OBJECT, effect="sandboxed", ref=local("write")),
        ToolSpec(
            "send", "Send.", OBJECT, effect="external", ref=local("send"), verify=local("was_sent"), honours_key=True
        ),
        *BUILTIN_TOOLS.values(),
    )


def task(**changes: Any) -> Definition:
    fields: dict[str, Any] = {
        "task": "small",
        "goal": "Add, write one line, send one message.",
        "constraints": ("Send once.",),
        "model": "scripted:small",
        "steps": (
            StepSpec("add", tool="add"),
            StepSpec("write", validator=ValidatorSpec(local("written"))),
            StepSpec("send", tool="send", kind="downstream"),
        ),
        "tools": tools(),
        "validator": ValidatorSpec(local("written")),
        "limits": Limits(rounds_per_step=10),
        "policy": PolicySpec("default"),
    }
    return Definition(**{**fields, **changes})


def world(
    outside: Outside, model: Callable[[View], Any] = policy, extra: Mapping[str, Callable[..., Any]] | None = None
) -> SimulatedWorld:
    known: dict[str, Callable[..., Any]] = {
        "add": add,
        "write": write,
        "written": written,
        "send": outside.send,
        "was_sent": outside.was_sent,
        **(extra or {}),
    }
    made = SimulatedWorld(
        model_of=lambda d: ScriptedModel(model, d.model, clock=made.clock), resolve=lambda ref: known[str(ref["name"])]
    )
    return made
