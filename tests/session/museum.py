"""What the museum of recorded labs holds, and how it is recorded: ``python -m tests.session.museum``.

``datasets/museum/<version>`` is a whole lab as the agentlab of that state version wrote it: logs, checkpoints and
blobs of a session that was cut down with an effect pending, one that waits for a person, one in doubt, one that is
paused, and one that ended. They are recorded once, when a version is current, and never again.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from agentlab import crashpoints
from agentlab.clock import ManualClock
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.definition import BUILTIN_TOOLS, Definition, Limits, PolicySpec, StepSpec, ToolSpec, ValidatorSpec
from agentlab.events import Draft
from agentlab.harness.simulation import SimulatedWorld
from agentlab.lab.inputs import append_input
from agentlab.log.store import ParquetStore
from agentlab.models.scripted import ScriptedModel, call, say
from agentlab.models.view import View
from agentlab.session.state import STATE_SCHEMA_VERSION

MUSEUM = Path(__file__).resolve().parents[2] / "datasets" / "museum"
OBJECT = {"type": "object", "properties": {}}
START_US = 1_700_000_000_000_000


class Outside:
    """What was delivered, by key. Without ``answers`` nobody can tell afterwards."""

    def __init__(self, answers: bool = True) -> None:
        self.answers = answers
        self.delivered: dict[str, str] = {}

    def send(self, message: str, idempotency_key: str) -> dict[str, str]:
        self.delivered.setdefault(idempotency_key, message)
        if not self.answers:
            raise ConnectionError("the reply was lost")
        return {"id": f"n{list(self.delivered).index(idempotency_key)}"}

    def was_sent(self, key: str) -> dict[str, Any]:
        if not self.answers:
            return {"outcome": "unknown"}
        return {"outcome": "completed" if key in self.delivered else "not_done"}


def lab_of(version: int, tmp_path: Path) -> Path:
    """A copy of the museum's lab of that version below ``tmp_path``."""
    lab = tmp_path / str(version)
    shutil.copytree(MUSEUM / str(version), lab)
    for session in (lab / "sessions").iterdir():  # a checkout has no empty folders
        for name in ("commits", "segments", "checkpoints"):
            (session / name).mkdir(exist_ok=True)
    return lab


def count(upto: int) -> int:
    return sum(range(upto))


def write(text: str) -> dict[str, int]:
    with open("notes.txt", "a", encoding="utf-8") as file:
        file.write(text + "\n")
    return {"size": Path("notes.txt").stat().st_size}


def three_lines() -> list[str]:
    path = Path("notes.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    return [] if len(lines) >= 3 else [f"notes.txt has {len(lines)} lines, not 3"]


def policy(view: View) -> Any:
    step = view.status.get("step")
    if step == "count":
        if not view.calls("remember"):
            return [say("pinning a fact"), call("remember", name="case", value="A-17")]
        return [say("counting"), call("count", upto=len(view.calls("count")) + 3)]
    if step == "write":
        return [say("writing"), call("write", text=f"line {view.status['round']}")]
    if step == "send":
        return [say("sending"), call("send", message="the notes are ready")]
    if step == "ask":
        return [say("asking"), call("ask_user", question="File it?", options=["yes", "no"])]
    return say("all done")


def definition(*steps: str, **changes: Any) -> Definition:
    known = {
        "count": StepSpec("count", tool="count", kind="query", parameters={"upto": 3}, expected="a number"),
        "write": StepSpec("write", validator=ValidatorSpec({"kind": "local", "name": "three_lines"}), milestone=True),
        "send": StepSpec("send", tool="send", kind="downstream"),
        "ask": StepSpec("ask", tool="ask_user", kind="confirm"),
    }
    local = {name: {"kind": "local", "name": name} for name in ("count", "write", "send", "was_sent")}
    tools = (
        ToolSpec("count", "Add up.", OBJECT, effect="pure", ref=local["count"]),
        ToolSpec("write", "Write a line.", OBJECT, effect="sandboxed", ref=local["write"]),
        ToolSpec("send", "Send.", OBJECT, effect="external", ref=local["send"], verify=local["was_sent"]),
        *BUILTIN_TOOLS.values(),
    )
    fields: dict[str, Any] = {
        "task": "museum",
        "goal": "Count, write three lines, send one message.",
        "user_input": "please keep these notes",
        "constraints": ("Send once.",),
        "model": "scripted:museum",
        "steps": tuple(known[name] for name in steps),
        "tools": tools,
        "params": {"month": "2023-05"},
        "limits": Limits(rounds_per_step=10, tool_calls=40, input_tokens=400_000),
        "policy": PolicySpec("every_events", {"n": 6}),
        "durability": "process",
    }
    return Definition(**{**fields, **changes})


SESSIONS = {
    "ended": definition("count", "write", "send"),
    "cut-in-effect": definition("count", "write", "send"),
    "cut-in-model": definition("count", "write", "send"),
    "waits": definition("count", "ask", "send"),
    "doubtful": definition("count", "send"),
    "paused": definition("count", "write", "send", limits=Limits(rounds_per_step=10, tool_calls=4)),
}
CUTS = {"cut-in-effect": (CrashPoint.EFFECT_REPLY, 1), "cut-in-model": (CrashPoint.MODEL_REPLY, 5)}


def world(lab: Path, session: str, outside: Outside, start_us: int = START_US) -> SimulatedWorld:
    """A simulated world over a lab on disk."""
    known = {"count": count, "write": write, "three_lines": three_lines, "send": outside.send}
    known["was_sent"] = outside.was_sent  # type: ignore[assignment]
    clock = ManualClock(start_us, tick_us=10)
    made = SimulatedWorld(
        model_of=lambda d: ScriptedModel(policy, d.model, clock=clock),
        resolve=lambda ref: known[str(ref["name"])],
        store=ParquetStore(lab),
        clock=clock,
    )
    made._definitions[session] = SESSIONS[session]
    return made


def outside_of(session: str) -> Outside:
    """The world outside of a session, as it was when the session was recorded."""
    return Outside(answers=session != "doubtful")


def record(lab: Path) -> None:
    """Record every session into ``lab``."""
    for session in SESSIONS:
        made = world(lab, session, outside_of(session))
        made.accept(SESSIONS[session], session)
        if session in CUTS:
            _cut(made, session)
        else:
            made.run(session)
        if session == "waits":
            note = Draft("note_added", {"id": "n1", "text": "left for the museum"})
            append_input(made.store.open(session), (note,), made.clock, made.ids)
        if session not in ("cut-in-effect", "doubtful"):
            made.store.open(session).seal()


def _cut(made: SimulatedWorld, session: str) -> None:
    point, visit = CUTS[session]
    visits = 0

    def strike(at: CrashPoint, when: str, detail: str) -> None:
        nonlocal visits
        visits += at is point
        if at is point and visits == visit:
            raise SimulatedDeath(point.value)

    crashpoints.arm(strike)
    try:
        made.run(session)
    except SimulatedDeath:
        pass
    finally:
        crashpoints.arm(None)


def main() -> int:
    target = MUSEUM / str(STATE_SCHEMA_VERSION)
    if target.exists():
        print(f"{target} is recorded already; a museum is not rewritten", file=sys.stderr)
        return 1
    target.mkdir(parents=True)
    try:
        record(target)
    except BaseException:
        shutil.rmtree(target)
        raise
    print(f"{sum(p.stat().st_size for p in target.rglob('*') if p.is_file())} bytes in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
