"""A fault in words and as data: who dies (or stops), where, at which visit.

``harness@tool_result`` kills the harness when a tool's result is about to be committed; ``#2`` means the second
visit, ``:after`` after the boundary instead of before; ``sandbox@step=4`` kills the sandbox when plan step 4
is in progress; ``@seq=42`` when that event is durable; ``@after=2s`` after a time; ``stop:harness@…`` stops
(SIGSTOP) instead of killing. Points are the names of :class:`agentlab.crashpoints.CrashPoint` and the kinds of
events (the commit that holds one).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from agentlab.crashpoints import CrashPoint
from agentlab.errors import BadDefinition, UnknownName
from agentlab.events import KINDS

TARGETS = ("harness", "sandbox", "sandbox-process")
ACTIONS = ("kill", "stop", "int", "term")
_SPEC = re.compile(
    r"(?:(?P<action>[a-z]+):)?(?P<target>[a-z-]+)@(?P<point>[a-z_.]+)(?:=(?P<value>[0-9.]+)s?)?(?:#(?P<visit>\d+))?(?::(?P<when>[a-z]+))?"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Exactly one of ``point``, ``step``, ``seq``, ``after_s`` says where it strikes."""

    id: str
    target: str
    action: str = "kill"
    point: str = ""
    when: str = "before"
    visit: int = 1
    step: int = 0
    seq: int = 0
    after_s: float = 0.0
    follows: str = ""
    """The id of the fault that must have struck before; empty when none must."""

    def to_json(self) -> dict[str, Any]:
        """The fault as plain data."""
        return asdict(self)

    def spec(self) -> str:
        """The fault in words; :func:`parse_fault` reads it back."""
        prefix = "" if self.action == "kill" else f"{self.action}:"
        if self.step:
            return f"{prefix}{self.target}@step={self.step}"
        if self.seq:
            return f"{prefix}{self.target}@seq={self.seq}"
        if self.after_s:
            return f"{prefix}{self.target}@after={self.after_s:g}s"
        visit = f"#{self.visit}" if self.visit != 1 else ""
        when = ":after" if self.when == "after" else ""
        return f"{prefix}{self.target}@{self.point}{visit}{when}"


def points() -> list[str]:
    """Every name that may stand after ``@``: crash points and kinds of events."""
    return sorted({point.value for point in CrashPoint} | set(KINDS))


def parse_faults(text: str, fault_id: str) -> list[Fault]:
    """The faults of a schedule in words: separated by commas, each strikes only after the one before has struck.

    Raises:
        BadDefinition, UnknownName: as for :func:`parse_fault`.
    """
    parts = text.split(",")
    if len(parts) == 1:
        return [parse_fault(text, fault_id)]
    made = [parse_fault(part, f"{fault_id}.{number}") for number, part in enumerate(parts, 1)]
    return [replace(fault, follows=made[i - 1].id if i else "") for i, fault in enumerate(made)]


def parse_fault(text: str, fault_id: str) -> Fault:
    """A fault from its words.

    Raises:
        BadDefinition: not of the form ``target@point``.
        UnknownName: no such target, action or point (near matches in the message).
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise BadDefinition(f"{text!r} is no fault; write target@point, as in harness@tool_result or sandbox@step=4")
    target, action = match["target"], match["action"] or "kill"
    if target not in TARGETS:
        raise UnknownName("fault target", target, TARGETS)
    if action not in ACTIONS:
        raise UnknownName("fault action", action, ACTIONS)
    when = match["when"] or "before"
    if when not in ("before", "after"):
        raise UnknownName("side of a crash point", when, ("before", "after"))
    visit = int(match["visit"] or 1)
    if visit < 1:
        raise BadDefinition(f"{text!r}: visits count from 1")
    point, value = match["point"], match["value"]
    if value is not None:
        return _numbered(text, fault_id, target, action, point, value)
    if point not in points():
        raise UnknownName("crash point", point, points())
    return Fault(fault_id, target, action, point, when, visit)


def _numbered(text: str, fault_id: str, target: str, action: str, what: str, value: str) -> Fault:
    try:
        number = float(value)
    except ValueError:
        raise BadDefinition(f"{text!r}: {value!r} is not a number") from None
    if what == "after" and number > 0:
        return Fault(fault_id, target, action, after_s=number)
    if number >= 1 and number == int(number):
        if what == "step":
            return Fault(fault_id, target, action, step=int(number))
        if what == "seq":
            return Fault(fault_id, target, action, seq=int(number))
    raise BadDefinition(f"{text!r}: after @ stand a crash point, step=N, seq=N or after=SECONDSs")


def fault_from_json(data: Mapping[str, Any]) -> Fault:
    """A fault from its plain data.

    Raises:
        BadDefinition: unknown or missing fields.
    """
    try:
        return Fault(**data)
    except TypeError as error:
        raise BadDefinition(f"a fault that can not be read: {error}") from None
