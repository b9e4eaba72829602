"""Schedules: who dies, where, at which visit; as text for ``--crash`` and as a file that replays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentlab.crashpoints import CrashPoint, When
from agentlab.errors import BadDefinition, UnknownName
from agentlab.explorer.troubles import Trouble, parse_trouble
from agentlab.faults import Fault, parse_faults
from agentlab.faults.kinds import SERVICES
from agentlab.version import __version__

TARGETS = ("harness", "sandbox", "both", "power", "zombie", "second")
"""``both`` is harness and sandbox at once, ``power`` both with everything unsynced, ``zombie`` a harness that is stopped,
replaced, and continued, ``second`` one beside which another wakes, and both go on."""
_SPEC = re.compile(r"(?P<target>[a-z]+)@(?P<point>[a-z_.]+)(?:#(?P<visit>\d+))?(?::(?P<when>before|after))?")


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault of a schedule. ``visit`` counts from 1 within the incarnation that it strikes."""

    target: str
    point: CrashPoint
    when: When
    visit: int

    def __str__(self) -> str:
        visit = f"#{self.visit}" if self.visit != 1 else ""
        return f"{self.target}@{self.point.value}{visit}{':after' if self.when == 'after' else ''}"

    @property
    def kills_harness(self) -> bool:
        """Whether the incarnation ends with it."""
        return self.target in ("harness", "both", "power")

    @property
    def kind(self) -> str:
        """What it strikes, for counting."""
        return self.target

    def at(self, visit: int) -> Strike:
        """The same at another visit."""
        return replace(self, visit=visit)

    def faults(self, prefix: str) -> list[Fault]:
        """The same as faults of real processes.

        Raises:
            BadDefinition: a loss of power can only be simulated.
        """
        if self.target == "power":
            raise BadDefinition("a loss of power can only be simulated")
        place: dict[str, Any] = {"point": self.point.value, "when": self.when, "visit": self.visit}
        if self.target in ("zombie", "second"):
            return [Fault(prefix, "harness", "stop" if self.target == "zombie" else "second", **place)]
        targets = ("sandbox", "harness") if self.target == "both" else (self.target,)
        return [Fault(f"{prefix}-{target}", target, **place) for target in targets]


Schedule = tuple[Strike | Trouble, ...]
"""Who dies and what misbehaves, in this order: each in force when the one before has struck."""


def parse_strike(text: str) -> Strike | Trouble:
    """A strike from its words, or a trouble (``model:529#2``).

    Raises:
        BadDefinition: not of the form ``target@point#visit:when``, or a visit before the first.
        UnknownName: no such target or crash point.
    """
    if re.match(r"[a-z]+(\([^)]*\))?:", text.strip()) and text.strip().partition(":")[0].partition("(")[0] in SERVICES:
        return parse_trouble(text)
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise BadDefinition(f"{text!r} is no strike; write target@point#visit:after, as in harness@log.commit#3")
    if match["target"] not in TARGETS:
        raise UnknownName("target", match["target"], TARGETS)
    try:
        point = CrashPoint(match["point"])
    except ValueError:
        raise UnknownName("crash point", match["point"], [p.value for p in CrashPoint]) from None
    when: When = "after" if match["when"] == "after" else "before"
    visit = int(match["visit"] or 1)
    if visit < 1:
        raise BadDefinition(f"{text!r}: visits count from 1")
    return Strike(match["target"], point, when, visit)


def parse_schedule(texts: Iterable[str]) -> Schedule:
    """A schedule from the words of its strikes."""
    return tuple(parse_strike(text) for text in texts)


def crash_options(schedule: Schedule) -> str:
    """The schedule as one option for ``agentlab run``; what only simulations can do stands as it is."""
    if not schedule:
        return ""
    words = (
        [str(strike)] if strike.target == "power" else [f.spec() for f in strike.faults("f")] for strike in schedule
    )
    return "--crash " + ",".join(word for group in words for word in group)


def real_faults(schedule: Schedule) -> list[Fault]:
    """The schedule as faults of real processes, each in force when the one before has struck."""
    return parse_faults(crash_options(schedule).removeprefix("--crash "), "f") if schedule else []


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise: which invariant, what was seen, and the least schedule that shows it."""

    invariant: str
    message: str
    schedule: Schedule
    task: str
    seed: int | None = None
    version: str = __version__
    source: str = ""
    """Where the task is found by whoever replays: its name, or ``module:NAME``."""
    file: str = ""

    def __str__(self) -> str:
        seed = "" if self.seed is None else f" (seed {self.seed})"
        where = self.paste() or "no crash at all"
        kept = f"\n  kept as {self.file}" if self.file else ""
        return f"{self.invariant}: {self.message}\n  agentlab {self.version}{seed}: {self.task} {where}{kept}"

    def paste(self) -> str:
        """The schedule as an option: of a run, or, where only a simulation can do it, of an exploration."""
        if any(strike.target in ("power", "zombie") for strike in self.schedule):
            return "--schedule " + ",".join(map(str, self.schedule))
        return crash_options(self.schedule)

    def to_json(self) -> dict[str, Any]:
        """The violation as plain data; :func:`read_violation` reads it back from a file."""
        return {
            "task": self.task,
            "source": self.source or self.task,
            "invariant": self.invariant,
            "message": self.message,
            "schedule": [str(strike) for strike in self.schedule],
            "crash": self.paste(),
            "seed": self.seed,
            "version": self.version,
        }


def keep(violation: Violation, folder: Path, number: int) -> Path:
    """Write a violation as a file that pytest replays."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{violation.task}-{violation.invariant.replace(' ', '_')}-{number}.schedule.json"
    text = json.dumps(violation.to_json(), indent=2, ensure_ascii=False) + "\n"
    path.write_text(
        text, encoding="utf-8", errors="backslashreplace"
    )  # what UTF-8 can not carry is escaped, as in JSON
    return path


def read_schedule(path: Path) -> tuple[str, Schedule]:
    """Where the task of a kept file is found, and the schedule.

    Raises:
        BadDefinition: the file is no kept schedule.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return str(data.get("source") or data["task"]), parse_schedule(data["schedule"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadDefinition(f"{path} is no kept schedule: {error}") from None


def kept_task(path: Path) -> str:
    """The name of the task of a kept file that :func:`read_schedule` has read."""
    return str(json.loads(path.read_text(encoding="utf-8")).get("task"))


def shrink(schedule: Schedule, fails: Any, budget: int = 200) -> Schedule:
    """The least part of ``schedule`` for which ``fails(part)`` still holds: fewer strikes (ddmin), then lower visits."""
    least = list(schedule)
    chunk = max(1, len(least) // 2)
    while len(least) > 1 and budget > 0:
        for start in range(0, len(least), chunk):
            rest = least[:start] + least[start + chunk :]
            budget -= 1
            if rest and fails(tuple(rest)):
                least, chunk = rest, max(1, min(chunk, len(rest) // 2))
                break
        else:
            if chunk == 1:
                break
            chunk = max(1, chunk // 2)
    for index, strike in enumerate(least):
        for visit in range(1, strike.visit):
            lower = strike.at(visit)
            budget -= 1
            if budget > 0 and fails((*least[:index], lower, *least[index + 1 :])):
                least[index] = lower
                break
    return tuple(least)
