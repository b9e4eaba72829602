"""A lab's own history: sessions to replay, latencies to draw from, and what it says of failures and costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agentlab.comparing.latencies import Latencies
from agentlab.comparing.measuring import measure
from agentlab.errors import AgentlabError, BadDefinition, LogCorrupt, UserError
from agentlab.events import Event
from agentlab.experiments.fit import Estimate, dispersion, fit_cost, fit_mtbf
from agentlab.experiments.recorded import costs_of, history_of
from agentlab.lab import Lab, Session
from agentlab.query.damage import warn_of

NEWEST = 20
"""Sessions that latencies are measured in."""


def measured_latencies(lab: Lab | None, task: str) -> Latencies:
    """Latencies of the newest sessions of ``task`` in ``lab``; assumed ones where there is none."""
    histories = [events for _, events in newest(lab, task)] if lab is not None else []
    return Latencies.of_history(histories) if histories else Latencies()


def newest(lab: Lab, task: str, most: int = NEWEST) -> list[tuple[str, list[Event]]]:
    """The newest sessions of ``task`` that came to an end, newest first, with their events."""
    found = []
    for session_id in lab.store.sessions():
        try:
            log = lab.store.open(session_id)
            first = next(iter(log.replay(1, 1)), None)
            if (
                first is not None
                and first.payload["input"].get("task") == task
                and "plan_digest" not in first.payload["input"]
            ):
                found.append((first.ts, session_id))
        except AgentlabError:  # a damaged session hides no other
            continue
    chosen = []
    for _, session_id in sorted(found, reverse=True):
        try:
            events = list(lab.store.open(session_id).replay(1))
        except AgentlabError:
            continue
        if events[-1].type == "session_ended" or any(e.type == "session_ended" for e in events[-5:]):
            chosen.append((session_id, events))
        if len(chosen) == most:
            break
    return chosen


def events_of(task: Any, lab: Lab) -> tuple[str, list[Event]]:
    """The session to replay: given itself, by its id, or the newest of a task, one without a crash if there is any.

    Raises:
        UserError: there is none.
    """
    if isinstance(task, Session):
        return task.id, task.events()
    name = task if isinstance(task, str) else str(task.name)
    if name in lab.store.sessions():
        return name, list(lab.store.open(name).replay(1))
    found = newest(lab, name)
    if not found:
        raise UserError(
            f"what-if replays a recorded session, and there is none of {name!r} in {lab}: run it once, or give a session"
        )
    calm = [
        one for one in found if not any(e.type == "harness_woken" and e.payload["reason"] == "crash" for e in one[1])
    ]
    return (calm or found)[0]


@dataclass(frozen=True, slots=True)
class Fit:
    """What a history says, each with its interval: mean time between failures (seconds of running time), cost of a checkpoint
    and of a restart in seconds (None where none was seen), and how far the gaps are from a constant rate (1 is one)."""

    sessions: int
    mtbf: Estimate
    checkpoint: Estimate | None
    restart: Estimate | None
    dispersion: float

    def __str__(self) -> str:
        lines = [
            f"{self.sessions} session{'s' if self.sessions != 1 else ''}",
            f"mean time between failures: {self.mtbf} s",
        ]
        lines += [f"cost of a checkpoint: {self.checkpoint} s"] if self.checkpoint else ["no checkpoint was written"]
        lines += [f"time of a recovery: {self.restart} s"] if self.restart else ["no recovery was seen"]
        if self.dispersion == self.dispersion:
            word = "bursts: try an interval of twice Young's" if self.dispersion > 3 else "about a constant rate"
            lines.append(f"dispersion of the gaps: {self.dispersion:.3g} ({word})")
        return "\n".join(lines)

    __repr__ = __str__

    def to_json(self) -> dict[str, Any]:
        """The fit as plain data."""

        def one(estimate: Estimate | None) -> Any:
            if estimate is None:
                return None
            names = ("value", "low", "high", "count", "confidence", "method")
            return {n: None if getattr(estimate, n) in (float("inf"),) else getattr(estimate, n) for n in names}

        spread = None if self.dispersion != self.dispersion else self.dispersion
        return {
            "sessions": self.sessions, "mtbf": one(self.mtbf), "checkpoint": one(self.checkpoint),
            "restart": one(self.restart), "dispersion": spread,
        }  # fmt: skip


def fit(x: Any, confidence: float = 0.95) -> Fit:
    """Mean time between failures and costs from the history of a lab, a session or several, with confidence intervals.

    Time counts while a harness ran; injected crashes count like any other. Experiments' own sessions are left out.

    Raises:
        BadDefinition: no session, or nothing ran in them.
    """
    histories, costs, restarts = [], [], []
    count = 0
    for events in _sessions(x):
        count += 1
        histories.append(history_of(events))
        costs += costs_of(events)
        measured = measure(events)
        if measured["faults"] and measured["restart_s"] is not None:
            restarts += [measured["restart_s"]] * int(measured["faults"])
    if not count:
        raise BadDefinition("there is no session to fit anything to")
    return Fit(
        count, fit_mtbf(histories, confidence), fit_cost(costs, confidence) if costs else None,
        fit_cost(restarts, confidence) if restarts else None, dispersion(histories),
    )  # fmt: skip


def _sessions(x: Any) -> Iterator[list[Event]]:
    if not isinstance(x, Lab | Session | Iterable) or isinstance(x, str):
        raise BadDefinition(f"{x!r} is no history: pass a lab, a session or several")
    several: Iterable[Any] = x.sessions() if isinstance(x, Lab) else (x,) if isinstance(x, Session) else x
    damaged: dict[str, LogCorrupt] = {}
    found = False
    for session in several:
        try:
            events = session.events()
        except LogCorrupt as error:
            damaged[session.id] = error
            continue
        found = True
        if events and "plan_digest" not in events[0].payload["input"]:
            yield events
    if damaged and not found:
        raise next(iter(damaged.values()))
    warn_of({session_id: str(error) for session_id, error in damaged.items()})
