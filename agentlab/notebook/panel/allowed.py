"""What can be done with a session now, and if not, why: pure, from its state and whether its harness lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentlab import process
from agentlab.lab.status import Status
from agentlab.session.state import State

YES = ""
AT_WORK = ("starting", "queued", "running", "recovering")


@dataclass(frozen=True, slots=True)
class Moment:
    """A session at one look: its folded state, its status, and whether a harness of it runs under this kernel."""

    state: State
    status: Status
    driven: bool

    @property
    def word(self) -> str:
        """The status in a word; a crash that is being recovered from is *recovering*."""
        word = self.status.status
        if word == "new" and self.driven:
            return "starting"
        if word == "crashed" and self.driven:
            return "recovering"
        if word == "running" and self.state.recovery.phase not in ("", "done"):
            return "recovering"
        return "running" if word == "paused" and self.driven and not self.lingers else word

    @property
    def lingers(self) -> bool:
        """A living harness that waits for its next single step."""
        return self.state.control.status == "paused" and self.state.control.reason == "step"


def why_not(action: str, now: Moment) -> str:
    """Why ``action`` can not be done now; empty when it can."""
    return _RULES[action](now)


def _ended(now: Moment) -> str:
    return f"it has ended ({now.word}): fork it from a checkpoint to go on" if now.word in _OVER else YES


def _start(now: Moment, what: str) -> str:
    if now.word in AT_WORK:
        return f"it is {now.word}: nothing to {what}"
    if now.word == "waiting":
        return "it waits for a person: answer its question first"
    if now.word in ("unknown", "empty", "damaged"):
        return now.status.reason
    return _ended(now)


def _run(now: Moment) -> str:
    return _start(now, "start")


def _wake(now: Moment) -> str:
    return "it has not begun: run it" if now.word == "new" else _start(now, "wake")


def _step(now: Moment) -> str:
    return _start(now, "step through; pause it first")


def _pause(now: Moment) -> str:
    return YES if now.word in AT_WORK else f"it is not running ({now.word}): nothing to pause"


def _harness(now: Moment) -> str:
    return alive(now.state.process, "harness", now)


def _sandbox(now: Moment) -> str:
    return alive(now.state.sandbox.record, "sandbox", now)


def alive(record: Mapping[str, Any], what: str, now: Moment) -> str:
    """Why the process of ``record`` can not be signalled; empty when it lives and is the one on record."""
    if not record:
        return f"it has no {what} yet"
    found = process.liveness(record)
    if found == "unknown":
        return f"its {what} is on host {record.get('host')}: only processes of this machine are killed from here"
    return (
        YES if found == "alive" else f"its {what} (pid {record.get('pid')}) is dead already; the session is {now.word}"
    )


def _answer(now: Moment) -> str:
    return YES if now.word == "waiting" else "it asks nothing now"


def _extend(now: Moment) -> str:
    return _ended(now) or (YES if now.state.budget.limits else "no limit is set: there is nothing to extend")


def _fork(now: Moment) -> str:
    return YES


_OVER = ("completed", "failed", "cancelled")
_RULES: dict[str, Callable[[Moment], str]] = {
    "run": _run, "wake": _wake, "step": _step, "pause": _pause, "harness": _harness, "sandbox": _sandbox,
    "sandbox-process": _sandbox, "answer": _answer, "extend": _extend, "checkpoint": _ended, "restore": _ended,
    "fork": _fork,
}  # fmt: skip
