"""The demo: one real task, undisturbed and under kills, and a verdict from outside the killed processes."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentlab.effects.receiver import ReceiverProcess
from agentlab.errors import AgentlabError, BadLab
from agentlab.events import Event
from agentlab.lab import Lab, Session
from agentlab.lab.costs import CrashCost, crash_costs
from agentlab.lab.lines import QUIET, event_line

CRASHES = ("harness@sandbox.execute:after", "sandbox@step=3", "harness@effect.reply")
"""In the middle of a tool call; the sandbox while step 3 runs; between a tool's effect and its record."""

TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the demo found; ``verified`` is the conjunction of all that was promised."""

    completed: bool
    harness_kills: int
    sandbox_kills: int
    notifications: int
    report_sha256: str
    baseline_sha256: str
    events: int
    verified: bool
    lost_steps: int
    lost_events: int
    costs: tuple[CrashCost, ...]
    baseline_events: int
    lab: str

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {**asdict(self), "costs": [cost.to_json() for cost in self.costs]}

    def lines(self) -> list[str]:
        """The table of costs and the verdict, for a person."""
        head = f"{'killed':<9}{'where':<32}{'seconds':>8}{'commands again':>16}{'model calls':>13}{'lost steps':>12}"
        rows = [
            f"{c.target:<9}{c.cause:<32}{c.seconds:>8.2f}{c.commands_again:>16}{c.model_calls:>13}{c.lost_steps:>12}"
            for c in self.costs
        ]
        same = self.report_sha256 == self.baseline_sha256
        return [
            "What each crash cost:",
            "  " + head,
            *("  " + row for row in rows),
            "",
            "Verdict:",
            f"  [{_mark(self.completed)}] the task is complete after {self.harness_kills} kills of the harness"
            f" and {self.sandbox_kills} of the sandbox",
            f"  [{_mark(same)}] the report is the same, byte for byte ({self.report_sha256[:16]}…)",
            f"  [{_mark(self.notifications == 1)}] notifications delivered: {self.notifications}",
            f"  [{_mark(self.lost_events == 0)}] events lost: {self.lost_events} of {self.events}; the hash chain is intact",
            f"  [{_mark(self.lost_steps == 0)}] steps lost: {self.lost_steps}",
        ]


def _mark(good: bool) -> str:
    return "ok" if good else "FAILED"


def run_demo(folder: Path | None = None, tell: Callable[[str], None] = lambda line: None) -> Verdict:
    """Run the sales task twice in a lab below ``folder`` (a new temporary folder without one) and compare.

    ``tell`` gets the timeline as it happens, line by line.

    Raises:
        BadLab: the folder can not be one.
        AgentlabError: the lab or the receiver could not be used.
    """
    home = folder or Path(tempfile.mkdtemp(prefix="agentlab-demo-"))
    _usable(home)
    with ReceiverProcess(home / "receiver") as receiver, Lab(home / "lab") as lab:
        params = {"receiver_url": receiver.url}
        tell("Once undisturbed:")
        undisturbed, _ = _drive(lab.create("sales_report", params=params), tell)
        before = len(receiver.ledger())
        tell("")
        tell("The same task, with the harness killed twice and the sandbox once (SIGKILL):")
        disturbed, seen = _drive(lab.create("sales_report", params=params, crash=CRASHES), tell)
        tell("")
        return _judge(lab, undisturbed, disturbed, seen, len(receiver.ledger()) - before)


def _usable(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise BadLab(f"{home} is a file; the demo's lab goes into a folder: name another one with --folder") from None
    except OSError as error:
        why = f"{home} can not be made a folder for the demo's lab ({error.strerror})"
        raise BadLab(f"{why}: name another one with --folder") from error


def _drive(session: Session, tell: Callable[[str], None]) -> tuple[Session, dict[int, str]]:
    """Run a session to its rest; every event seen as it landed, by seq and hash, is what must still be there."""
    seen: dict[int, str] = {}

    def landed(events: Sequence[Event]) -> None:
        for event in events:
            seen[event.seq] = event.hash
            if event.type not in QUIET:
                tell("  " + event_line(event))

    session.start()
    session.wait(TIMEOUT_S, landed)
    return session, seen


def _judge(lab: Lab, undisturbed: Session, disturbed: Session, seen: dict[int, str], notifications: int) -> Verdict:
    events = disturbed.events()
    kept = {event.seq: event.hash for event in events}
    lost = sum(1 for seq, row in seen.items() if kept.get(seq) != row)
    try:
        disturbed.verify()
        chain = True
    except AgentlabError:
        chain = False
    reports = [_sha256(s) for s in (undisturbed, disturbed)]
    kills = [e.payload["target"] for e in events if e.type == "fault_injected"]
    costs = tuple(crash_costs(events))
    completed = disturbed.status().status == "completed"
    lost_steps = sum(cost.lost_steps for cost in costs)
    harness_kills, sandbox_kills = kills.count("harness"), kills.count("sandbox")
    good = completed and chain and not lost and notifications == 1 and not lost_steps and bool(reports[0])
    return Verdict(
        completed=completed,
        harness_kills=harness_kills,
        sandbox_kills=sandbox_kills,
        notifications=notifications,
        report_sha256=reports[1],
        baseline_sha256=reports[0],
        events=len(events),
        verified=good and reports[0] == reports[1] and harness_kills == 2 and sandbox_kills == 1,
        lost_steps=lost_steps,
        lost_events=lost,
        costs=costs,
        baseline_events=len(undisturbed.events()),
        lab=str(lab.path),
    )


def _sha256(session: Session) -> str:
    from agentlab.tasks.sales_tools import REPORT

    if REPORT not in session.files():
        return ""
    return hashlib.sha256(session.read_file(REPORT)).hexdigest()
