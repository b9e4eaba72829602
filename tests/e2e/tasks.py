"""Small real tasks for end-to-end tests: importable, so that the harness's processes find them by name."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any

import agentlab as al
from agentlab.effects.notify import look_up, post
from agentlab.models.view import View


def write_line(text: str) -> dict[str, int]:
    """Append a line to the report."""
    with open("report.txt", "a", encoding="utf-8") as file:
        file.write(text + "\n")
    return {"lines": len(Path("report.txt").read_text().splitlines())}


def slow(seconds: float) -> str:
    """Take a while; leave a sign that it has begun."""
    Path("began").write_text(str(os.getpid()))
    time.sleep(seconds)
    return "awake"


def fail(message: str) -> str:
    """Raise."""
    raise RuntimeError(message)


def hang() -> str:
    """Never come back."""
    time.sleep(3600)
    return "never"


def send(message: str, idempotency_key: str = "") -> dict[str, Any]:
    """Send a message to the receiver."""
    return dict(post(str(al.task_params()["receiver_url"]) + "/notify", {"message": message}, idempotency_key)["body"])


def was_sent(key: str) -> dict[str, Any]:
    """Whether the receiver has it."""
    found = look_up(str(al.task_params()["receiver_url"]), key)
    return {"outcome": "completed", "result": found} if found is not None else {"outcome": "not_done"}


def flaky_send(message: str, idempotency_key: str = "") -> dict[str, Any]:
    """Send, and then claim that it failed."""
    send(message, idempotency_key)
    raise TimeoutError("no answer in time")


def one_line() -> list[str]:
    path = Path("report.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    return [] if lines == ["hello"] else [f"report.txt holds {lines}"]


def raising_validator() -> None:
    raise ValueError("this validator is broken")


def measure(text: str) -> int:
    """How long a text is."""
    return len(text)


STEPS = {
    "measure": ("measure", {"text": "hello"}),
    "write": ("write_line", {"text": "hello"}),
    "slow": ("slow", {"seconds": 0.5}),
    "send": ("send", {"message": "done"}),
    "flaky": ("flaky_send", {"message": "done"}),
    "hang": ("hang", {}),
    "long": ("slow", {"seconds": 60}),
}


def by_step(view: View) -> Any:
    """Calls the tool that belongs to the step in progress."""
    step = view.status.get("step")
    if step is None:
        return al.say("all done")
    name, arguments = STEPS[step]
    return [al.say(f"Step {step} needs {name}."), al.call(name, **arguments)]


def skips_after_errors(view: View) -> Any:
    """Tries a tool that always fails, reads the error, and takes another way."""
    if view.status.get("step") is None:
        return al.say("all done")
    if view.errors_in_a_row("fail") >= 2:
        return [
            al.say(f"fail said: {view.last.result if view.last else ''}; writing it myself"),
            al.call("write_line", text="hello"),
        ]
    return [al.say("trying"), al.call("fail", message="HTTP 500")]


TOOLS = (
    al.tool(write_line, effect="sandboxed"),
    al.tool(slow, effect="sandboxed"),
    al.tool(measure, effect="pure"),
    al.tool(fail, effect="pure"),
    al.tool(hang, effect="pure", timeout_s=1.0),
    al.tool(send, effect="external", honours_key=True, verify=was_sent),
    al.tool(flaky_send, effect="external", honours_key=True, verify=was_sent, retries=3),
)


def task(*steps: str, **changes: Any) -> al.Task:
    """A task of the named steps."""
    made = []
    for name in steps:
        validator = one_line if name == "write" else None
        made.append(al.step(name, tool=None if validator else STEPS[name][0], validator=validator))
    fields: dict[str, Any] = {
        "name": "small",
        "goal": "Write one line and announce it once.",
        "tools": TOOLS,
        "steps": made,
        "model": by_step,
    }
    return al.Task(**{**fields, **changes})


def reachable(url: str) -> bool:
    try:
        urllib.request.urlopen(url + "/ledger", timeout=5).close()
        return True
    except OSError:
        return False


# --- further tools, for tests that need to hold, leak or refuse ------------------------------------------------------


def gated() -> str:
    """Wait for a file that the test makes; leave a sign that the waiting has begun."""
    gate = Path(str(al.task_params()["gate"]))
    reached = gate.with_name(gate.name + ".reached")
    aside = gate.with_name(f"gate.{os.getpid()}")
    aside.write_text(str(os.getpid()))
    aside.replace(reached)
    while not gate.exists():
        time.sleep(0.01)
    return "open"


def leak(how: str) -> str:
    """Give a secret away: print it, raise it, or return it."""
    secret = os.environ["PROBE_API_KEY"]
    if how == "print":
        print("the key is", secret)
        return "printed"
    if how == "raise":
        raise RuntimeError(f"401 for {secret}")
    return json.dumps({"key": secret, "again": f"Bearer {secret}"})


def environment() -> dict[str, str]:
    """What the environment of a tool holds."""
    return dict(os.environ)


def unverifiable_send(message: str) -> dict[str, Any]:
    """Send to an outside that knows no keys and can not be asked."""
    return dict(post(str(al.task_params()["receiver_url"]) + "/notify", {"message": message}, "")["body"])


def refuses_all() -> list[str]:
    """Never satisfied."""
    return ["not good enough"]


STEPS.update(
    {
        "gate": ("gated", {}),
        "ask": ("ask_user", {"question": "Which region?"}),
        "doubt": ("unverifiable_send", {"message": "done"}),
        "approve": ("approved_send", {"message": "done"}),
        "environment": ("environment", {}),
        "leak_print": ("leak", {"how": "print"}),
        "leak_return": ("leak", {"how": "return"}),
    }
)

GATED = al.tool(gated, effect="sandboxed")
PURE_GATED = al.tool(gated, effect="pure")
LEAK = al.tool(leak, effect="pure")
ENVIRONMENT = al.tool(environment, effect="sandboxed")
DOUBT = al.tool(unverifiable_send, effect="external")
APPROVED = al.tool(
    send, name="approved_send", effect="external", honours_key=True, verify=was_sent, needs_approval=True
)
MORE_TOOLS = (*TOOLS, GATED, LEAK, ENVIRONMENT, DOUBT, APPROVED)


def leaks_everywhere(view: View) -> Any:
    """Prints, raises and returns a secret, and ends."""
    done = len(view.calls("leak"))
    return al.call("leak", how=("print", "raise", "return")[done]) if done < 3 else al.say("all done")


def answers_doubt(view: View) -> Any:
    """Tries the send once and then says what came of it."""
    if view.last is None or view.last.call.tool != "unverifiable_send":
        return [al.say("Sending."), al.call("unverifiable_send", message="done")]
    word = "error" if view.last.is_error else "result"
    return al.say(f"{word}: {view.last.result}")


def says_why_not(view: View) -> Any:
    """Writes the line once, and then repeats what it was told."""
    if not view.calls("write_line"):
        return al.call("write_line", text="hello")
    return al.say("told: " + view.text[-300:])
