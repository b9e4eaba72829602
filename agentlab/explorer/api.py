"""What users call: explore a task, replay a schedule, the zombie drill, the durability dial."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentlab import authoring
from agentlab.errors import BadDefinition, refusal
from agentlab.events import Head
from agentlab.explorer.driving import drive
from agentlab.explorer.exploring import ENOUGH, ZOMBIES, Explorer, late, play, stage
from agentlab.explorer.judging import judge
from agentlab.explorer.report import Report
from agentlab.explorer.schedule import Schedule, Strike, kept_task, parse_strike, read_schedule
from agentlab.explorer.subject import Subject
from agentlab.explorer.world import World
from agentlab.ports import Durability

DURABILITIES: tuple[Durability, ...] = ("disk", "group", "process")


def subject_of(task: Any, model: Any = None, **overrides: Any) -> Subject:
    """A task, or the name of one, ready for exploration."""
    named = authoring.task(task) if isinstance(task, str) else task
    if not isinstance(named, authoring.Task):
        raise BadDefinition(f"a task is explored, or the name of one, not {named!r}")
    return Subject(named, model, **overrides)


def explore(
    task: Any,
    *,
    pairs: bool = True,
    seconds: float = 0.0,
    seed: int = 0,
    merge: bool = True,
    time_limit_s: float = float("inf"),
    budget_s: float | None = None,
    keep: str | Path | None = None,
    stop_after: int = ENOUGH,
    faults: bool = False,
    model: Any = None,
    **overrides: Any,
) -> Report:
    """Kill the harness of ``task``, its sandbox, and both, at every crash point, and judge every end from outside.

    The functions of ``task`` run here, in this process and thousands of times: what they send must go to an outside that
    may be filled with trials. Deliveries by :func:`agentlab.explorer.outbox.deliver` go to the simulated outside and are
    counted there, whatever tool makes them. Of any other *external* tool each execution counts as one effect (executions
    with one key as one if it declares ``honours_key``); what a *pure* or *sandboxed* tool sends by itself nobody can count.

    ``pairs`` adds a second death at every point of what follows the first. With ``faults`` every kind of misdeed of the
    model, of each tool, of the disk and of the clock is tried as well, alone, at every call, and so is a second harness
    awake beside the first. Then, for ``seconds``, schedules are drawn by ``seed``: each kind of misdeed once, then up to
    six deaths and misdeeds mixed. ``merge=False`` runs every state to its end even where an equal one has been seen.
    ``time_limit_s`` and ``stop_after`` violating schedules end the exploration early (``report.complete`` says so).
    The least schedules that break a promise are kept in the folder ``keep``.

    Raises:
        UserError: the task can not be defined, or nothing can be kept in ``keep``.
    """
    began = time.monotonic()
    subject = subject_of(task, model, **overrides)
    folder = _keepable(Path(keep)) if keep is not None else None
    deadline = began + min(time_limit_s, float("inf") if budget_s is None else budget_s)
    explorer = Explorer(
        subject, depth=2 if pairs else 1, merge=merge, deadline=deadline, folder=folder, stop_after=stop_after
    )
    with stage(subject):
        explorer.undisturbed()
        if explorer.report.clean:
            explorer.systematic()
        # One that is not even undisturbed as it should be is told so, and nothing else.
        alike = all(violation.schedule for violation in explorer.report.violations)
        if faults and alike:
            explorer.misbehaving()
        if budget_s is not None:
            seconds = max(seconds, began + budget_s - time.monotonic())
        if seconds > 0 and alike:
            explorer.at_random(seed, seconds)
    explorer.report.seconds = time.monotonic() - began
    return explorer.report


def _keepable(folder: Path) -> Path:
    """``folder``, which can be made and written, as far as can be seen without doing it."""
    try:
        os.lstat(folder)
    except OSError:
        pass  # it is made when there is something to keep
    except ValueError as error:
        raise BadDefinition(f"no schedules can be kept in {str(folder)!r}: {refusal(error)}") from None
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise BadDefinition(f"no schedules can be kept in {folder}: {there} is no folder that can be written")
    return folder


@dataclass(frozen=True, slots=True)
class Replayed:
    """One schedule, judged: the invariants that it breaks, each with what was seen; and what of it never struck."""

    found: tuple[tuple[str, str], ...]
    missed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        shown = [{"invariant": invariant, "message": message} for invariant, message in self.found]
        return {"violations": shown, "not_struck": list(self.missed)}

    def lines(self) -> list[str]:
        """What was found for a person, one a line."""
        if self.found:
            return [f"{invariant}: {message}" for invariant, message in self.found]
        if self.missed:
            return [f"no promise was broken, but {', '.join(self.missed)} never struck: that is no evidence"]
        return ["every promise was kept"]


def replay(task: Any, schedule: Iterable[str] | Schedule, **overrides: Any) -> list[tuple[str, str]]:
    """Run one schedule from the start; the invariants that it breaks, each with what was seen."""
    return list(replayed(task, schedule, **overrides).found)


def replayed(task: Any, schedule: Iterable[str] | Schedule, **overrides: Any) -> Replayed:
    """Run one schedule from the start, and judge it."""
    subject = subject_of(task, **overrides)
    strikes = tuple(parse_strike(s) if isinstance(s, str) else s for s in schedule)
    explorer = Explorer(subject, depth=1)
    with stage(subject):
        explorer.undisturbed()
        found = explorer.judged(strikes)
        return Replayed(tuple(found), tuple(map(str, explorer.missed)))


def replayed_file(task: Any, path: Path) -> Replayed:
    """Run a kept schedule, and judge it.

    Raises:
        BadDefinition: the file is no kept schedule, or one of another task.
    """
    source, schedule = read_schedule(path)
    subject = subject_of(task)
    if source not in (subject.source, subject.name) and kept_task(path) != subject.name:
        raise BadDefinition(f"{path} was kept of {source}, not of {subject.name}: name that task, or use --schedule")
    return replayed(task, schedule)


def always_replayed(task: Any, **overrides: Any) -> list[tuple[str, str]]:
    """Run a task with everything forgotten after every command; what differs from an undisturbed run."""
    subject = subject_of(task, **overrides)
    explorer = Explorer(subject, depth=1)
    with stage(subject):
        explorer.undisturbed()
        return explorer.judged((), replaying=True)


def zombie_drill(task: Any, **overrides: Any) -> Report:
    """Stop a harness at every point, let another take over and finish, then continue the first: it must not write any more."""
    began = time.monotonic()
    subject = subject_of(task, **overrides)
    explorer = Explorer(subject, depth=1)
    with stage(subject):
        explorer.undisturbed()
        explorer.report.drill, explorer.report.sometimes = True, Counter(dict.fromkeys(ZOMBIES, 0))
        for visit in explorer.visits:
            world = World.fresh(subject)
            checked = world.log.head()
            strike = Strike("zombie", visit.point, visit.when, visit.visit)
            run = drive(world, [strike])
            explorer.report.run["zombie"] += 1
            explorer.report.covered["zombie"] += 1
            explorer.report.points |= run.points
            if run.why == "fenced":
                explorer.report.sometimes.update(late(run))
            explorer._found(judge(world, run, explorer.base, checked), (strike,))
    explorer.report.seconds = time.monotonic() - began
    return explorer.report


@dataclass(frozen=True, slots=True)
class Dial:
    """What one durability setting loses: events, over all places where the process is killed, or the power goes."""

    durability: str
    death: str
    schedules: int
    lost_events: int
    worst: int
    lost_sessions: int
    """Sessions of which nothing was left, not even the accepted task."""
    violations: int

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


def durability_dial(task: Any, **overrides: Any) -> list[Dial]:
    """The same single schedules under each durability setting, by process kill and by loss of power."""
    rows = []
    for durability in DURABILITIES:
        subject = subject_of(task, durability=durability, **overrides)
        explorer = Explorer(subject, depth=1)
        with stage(subject):
            explorer.undisturbed()
            for target in ("harness", "power"):
                rows.append(_dial_row(explorer, subject, durability, target))
    return rows


def _dial_row(explorer: Explorer, subject: Subject, durability: str, target: str) -> Dial:
    lost, gone, broken = [], 0, 0
    for visit in explorer.visits:
        world, runs = play(subject, (Strike(target, visit.point, visit.when, visit.visit),))
        lost.append(sum(run.lost for run in runs))
        gone += runs[-1].why == "gone"
        found = judge(world, runs[-1], explorer.base, Head(0, ""), power=target == "power")
        broken += bool(found)
    return Dial(durability, target, len(lost), sum(lost), max(lost, default=0), gone, broken)
