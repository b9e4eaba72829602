"""A lab's own history: sessions to replay, latencies to draw from, and what it says of failures and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentlab.comparing.latencies import Latencies
from agentlab.comparing.measuring import measure
from agentlab.errors import AgentlabError, BadDefinition, LogCorrupt, UserError
from agentlab.events import Event
from agentlab.experiments.fit import Estimate, dispersion, fit_cost, fit_mtbf
from agentlab.experiments.recorded import costs_of, history_of
from agentlab.lab import Lab, Session
from agentlab.log.store import ParquetStore
from agentlab.query.damage import warn_of

RUNS = "runs"
"""Folder of a lab in which the real runs of its experiments have labs of their own."""
NEWEST = 60
"""Sessions that latencies are measured in."""


def measured_latencies(lab: Lab | None, task: str) -> Latencies:
    """Latencies of the newest sessions of ``task`` in ``lab`` and in the real runs of its experiments; assumed ones where
    there is none."""
    if lab is None:
        return Latencies()
    runs = sorted(path for path in (lab.path / RUNS).glob("run-*") if path.is_dir())
    found = _of_task([lab.store, *map(ParquetStore, runs)], task)
    histories = [events for _, events in _read(found, NEWEST, _rests)]
    return Latencies.of_history(histories) if histories else Latencies()


def newest(lab: Lab, task: str) -> list[tuple[str, list[Event]]]:
    """The newest sessions of ``task`` that came to an end, newest first, with their events."""
    return list(_read(_of_task([lab.store], task), NEWEST, _ended))


Found = list[tuple[int, str, ParquetStore]]


def _of_task(stores: Iterable[ParquetStore], task: str) -> Found:
    """Sessions of a task, newest first: when they began, their id, and where they are."""
    found: Found = []
    for store in stores:
        for session_id in store.sessions():
            try:
                first = next(iter(store.open(session_id).replay(1, 1)), None)
            except AgentlabError:  # a damaged session hides no other
                continue
            given = first.payload["input"] if first is not None else {}
            if first is not None and given.get("task") == task and "plan_digest" not in given:
                found.append((first.ts, session_id, store))
    return sorted(found, key=lambda one: one[:2], reverse=True)


def _read(found: Found, most: int, wanted: Callable[[Sequence[Event]], bool]) -> Iterator[tuple[str, list[Event]]]:
    for _, session_id, store in found:
        try:
            events = list(store.open(session_id).replay(1))
        except AgentlabError:
            continue
        if wanted(events):
            yield session_id, events
            most -= 1
        if not most:
            return


def _ended(events: Sequence[Event]) -> bool:
    return any(event.type == "session_ended" for event in events[-5:])


def _rests(events: Sequence[Event]) -> bool:
    return _ended(events) or any(event.type in ("session_paused", "pause_requested") for event in events[-5:])


def subject_of(task: Any, lab: Lab) -> tuple[str, str]:
    """Of what a what-if comparison was asked for: ``session`` or ``task``, and its name."""
    if isinstance(task, Session):
        return "session", task.id
    name = task if isinstance(task, str) else str(task.name)
    return ("session" if name in lab.store.sessions() else "task"), name


def events_of(task: Any, lab: Lab, begun: Mapping[str, Any] | None = None) -> tuple[str, list[Event]]:
    """The session to replay: given itself, by its id, or the newest of a task, one without a crash if there is any.

    With ``begun`` (``session`` and ``events``) it is that session, as far as it was then.

    Raises:
        UserError: there is none.
    """
    if begun is not None:
        log = task.log if isinstance(task, Session) else lab.store.open(str(begun["session"]))
        return str(begun["session"]), list(log.replay(1, int(begun["events"])))
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
            values = {n: getattr(estimate, n) for n in names}
            return {n: None if isinstance(v, float) and not math.isfinite(v) else v for n, v in values.items()}

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
