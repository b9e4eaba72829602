"""The same schedules with real processes and SIGKILL, and the comparison with what the simulation says.

SIGKILL shows ordering and atomicity; what survives power loss is shown by the simulation and by the log's own suite.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from
from pathlib import Path
from typing import Any

from agentlab.crashpoints import CrashPoint, When
from agentlab.events import Event
from agentlab.explorer.api import subject_of
from agentlab.explorer.coverage import OF_A_HARNESS, REAL_ONLY
from agentlab.explorer.drawing import one_of_each
from agentlab.explorer.exploring import GAVE_UP, Explorer, play, stage
from agentlab.explorer.judging import reached
from agentlab.explorer.schedule import Schedule, Strike, crash_options, real_faults
from agentlab.explorer.subject import Subject

SAME_VISITS = (
    CrashPoint.COMMIT, CrashPoint.LOG_LINK, CrashPoint.LOG_DIRSYNC, CrashPoint.MODEL_SEND, CrashPoint.MODEL_REPLY,
    CrashPoint.TOOL_SEND, CrashPoint.TOOL_REPLY, CrashPoint.EFFECT_SEND, CrashPoint.EFFECT_REPLY,
    CrashPoint.SANDBOX_SPAWN, CrashPoint.SANDBOX_CONNECT, CrashPoint.SANDBOX_EXECUTE, CrashPoint.SANDBOX_RESULT,
    CrashPoint.SNAPSHOT, CrashPoint.SANDBOX_DESTROY,
)  # fmt: skip
"""Points that a harness reaches in both worlds at the same visits."""

HOUSEKEEPING = frozenset({"fault_armed", "fault_injected", "harness_died", "baseline_changed"})
"""Kinds that tell of the experiment, not of the work."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one schedule came to, in either world: comparable as a whole."""

    why: str
    outcome: str
    answer: str
    struck: int
    incarnations: int
    results: tuple[tuple[str, int], ...]
    kinds: tuple[str, ...]
    executed: int
    sometimes: tuple[str, ...] = ()
    """What was seen on the way; nothing that is compared."""

    def differences(self, other: Seen) -> list[str]:
        """Fields in which ``other`` differs."""
        names = ("why", "outcome", "answer", "struck", "incarnations", "results", "kinds", "executed")
        return [
            f"{n}: {getattr(self, n)!r} and {getattr(other, n)!r}"
            for n in names
            if getattr(self, n) != getattr(other, n)
        ]


def seen(events: Sequence[Event], why: str, struck: int, executed: int) -> Seen:
    """A session's log (and what the outside counted) as a :class:`Seen`."""
    ended = next((e for e in reversed(events) if e.type == "session_ended"), None)
    result: Mapping[str, Any] = ended.payload["result"] if ended is not None else {}
    calls = Counter(str(e.tool_name) for e in events if e.type in ("tool_result", "tool_error"))
    return Seen(
        why,
        str(ended.payload["outcome"]) if ended is not None else "",
        str(result.get("answer")),
        struck,
        sum(e.type == "harness_woken" for e in events),
        tuple(sorted(calls.items())),
        tuple(e.type for e in events if e.type not in HOUSEKEEPING),
        executed,
        tuple(sorted(reached(events))),
    )


def sample(task: Any, count: int, seed: int, pairs: int = 0, others: int = 0) -> list[Schedule]:
    """``count`` schedules that can run in both worlds, ``pairs`` of them with a second death in the recovery.

    ``others`` of them are no deaths at points that both worlds have: kills at points that only real processes have, and
    services that misbehave, in turn.
    """
    subject = subject_of(task)
    explorer = Explorer(subject, depth=1)
    chosen = random.Random(seed)
    with stage(subject):
        explorer.undisturbed()
        places = [s for s in explorer.visits if s.point in SAME_VISITS]
        # A sandbox that dies before anybody has it in hand is a failed start, which ends a real harness; no loss of it.
        starting = (CrashPoint.SANDBOX_SPAWN, CrashPoint.SANDBOX_CONNECT)
        singles = [
            (replace(s, target=target),)
            for s in places
            for target in ("harness", "both", "sandbox")
            if not (target == "sandbox" and s.point in starting)
        ]
        out: list[Schedule] = chosen.sample(singles, min(max(0, count - pairs - others), len(singles)))
        out += _others(explorer, chosen, min(others, count))
        for tries in count_from(0):
            if len(out) >= count:
                return out
            first = chosen.choice(explorer.visits)
            if first.point in SAME_VISITS:
                first = replace(first, target=chosen.choice(("harness", "harness", "both")))
                second = _second(subject, first, chosen)
                drawn = (first, second) if second is not None else (first,)
                if drawn not in out or tries > TRIES * count:  # a small task has only so many
                    out.append(drawn)
    return out


TRIES = 20
"""Draws per schedule wanted after which one may come twice."""
SLOW_HERE = frozenset({"tool:timeout", "tool:slow", "disk:slow", "clock:back", "clock:forward"})
"""Kinds of misdeeds that are not drawn for real processes: they take time there, or show nothing more."""


def _others(explorer: Explorer, chosen: random.Random, count: int) -> Iterator[Schedule]:
    sides: tuple[When, ...] = ("before", "after")
    real_only = [Strike("harness", point, when, 1) for point in OF_A_HARNESS if point in REAL_ONLY for when in sides]
    troubles = [t for t in one_of_each(explorer.calls, chosen) if t.kind not in SLOW_HERE and t.target != "model"]
    chosen.shuffle(real_only)
    for number in range(count):
        turn: list[Any] = troubles if number % 2 and troubles else real_only
        yield (turn[number // 2 % len(turn)],)


def only_real(schedule: Schedule) -> bool:
    """Whether a schedule strikes where a simulation has no point."""
    return any(isinstance(strike, Strike) and strike.point in REAL_ONLY for strike in schedule)


def _second(subject: Subject, first: Strike, chosen: random.Random) -> Strike | None:
    from agentlab.explorer.driving import drive
    from agentlab.explorer.world import World

    world = World.fresh(subject)
    if drive(world, [first]).why != "died":
        return None
    places = [p for p in drive(world, collect=True).deaths if p.point in SAME_VISITS]
    return chosen.choice(places[:25]).strike("harness") if places else None


def simulated(task: Any, schedule: Schedule) -> Seen:
    """A schedule in the simulation; of strikes that only real processes have it knows nothing."""
    subject = subject_of(task)
    with stage(subject):
        world, runs = play(subject, tuple(s for s in schedule if not only_real((s,))))
        struck = sum(1 + (s.target == "both") for run in runs for s in run.struck)
        return seen(list(world.log.replay(1)), runs[-1].why, struck, len(world.outside.entries))


def begin(lab: Any, task: Any, schedule: Schedule, **overrides: Any) -> Any:
    """Start a session whose harness and sandbox die for real as ``schedule`` says; returns the session."""
    session = lab.create(task, **overrides)
    session.start(arm=real_faults(schedule))
    return session


def real(session: Any, executed: int, timeout_s: float = 240.0) -> Seen:
    """What a session that :func:`begin` started came to; ``executed`` is what the outside's own ledger counts."""
    session.wait(timeout_s)
    if session.state.control.status == "paused" and session.state.control.reason in GAVE_UP:
        session.wake(timeout_s=timeout_s)  # once the faults have stopped a wake brings it to its end
    events = session.events()
    session.verify()
    last = events[-1].type
    why = {"session_ended": "ended", "session_paused": "paused", "question_asked": "waiting"}.get(last, last)
    # By the marks on disk: a death after the end is told to no log.
    struck = len(list((Path(session.log.folder) / "faults").glob("*.json")))
    return seen(events, why, struck, executed)


def compared(task: Any, schedule: Schedule, found: Seen) -> list[str]:
    """In which fields a real run differs from what the simulation says; empty when they agree.

    Where the schedule strikes at a point that only real processes have, the end has to be the undisturbed one.
    """
    expected = simulated(task, schedule)
    if only_real(schedule):
        expected = replace(
            expected, struck=found.struck, kinds=found.kinds,
            incarnations=min(max(found.incarnations, 1), 1 + found.struck),
        )  # fmt: skip
    return expected.differences(found)


def words(schedule: Schedule) -> str:
    """A schedule in words, for messages."""
    return crash_options(schedule) or "no crash"
