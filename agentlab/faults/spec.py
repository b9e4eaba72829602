"""A fault in words and as data: what fails, how, where, at which visit.

Deaths. ``harness@tool_result`` kills the harness when a tool's result is about to be committed; ``#2`` means the
second visit, ``:after`` after the boundary instead of before; ``sandbox@step=4`` kills the sandbox when plan step 4
is in progress; ``@seq=42`` when that event is durable; ``@after=2s`` after a time; ``stop:harness@…`` stops (SIGSTOP)
instead of killing, ``int:`` and ``term:`` send those signals, ``second:harness@…`` wakes another harness on the same
session. ``harness@poisson=60s`` kills again and again with a mean of 60 s between (``weibull=60s/0.7`` with a shape,
``bursty=60s``), times drawn by the schedule's seed.

Services. ``model:529`` lets the next model call fail, ``tool(notify):lost_reply#2`` the second call of that tool,
``disk:full@event.append#5`` the fifth append, ``clock:back=3600@tool_result`` sets the clock. ``=`` gives a number
where a kind takes one (:data:`agentlab.faults.kinds.KINDS` has them all).

``*3`` at the end of either means three times in a row. Points are the names of
:class:`agentlab.crashpoints.CrashPoint` and the kinds of events (the commit that holds one).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from itertools import islice
from typing import Any

from agentlab.crashpoints import CrashPoint
from agentlab.errors import BadDefinition, UnknownName
from agentlab.events import KINDS as EVENTS
from agentlab.failures import Bursty, CrashLoop, Exponential, Process, Times, Weibull
from agentlab.faults.kinds import ACTIONS, KINDS, PLACES, PROCESSES, SERVICES, TARGETS

MOST = 256
"""Strikes that one schedule may hold."""
TIMES = 3
"""Deaths of a random process where no ``*N`` says how many."""
_TAIL = r"(?:#(?P<visit>\d+))?(?::(?P<when>[a-z]+))?(?:\*(?P<count>\d+))?"
_DEATH = re.compile(
    r"(?:(?P<action>[a-z]+):)?(?P<target>[a-z-]+)@(?P<point>[a-z_.]+)(?:=(?P<value>[0-9.]+)s?(?:/(?P<shape>[0-9.]+))?)?"
    + _TAIL
)
_SERVICE = re.compile(
    r"(?P<target>[a-z]+)(?:\((?P<name>[\w.-]+)\))?:(?P<action>[a-z0-9_]+)(?:=(?P<value>[0-9.]+)[a-z]*)?(?:@(?P<point>[a-z_.]+))?"
    + _TAIL
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Of a death exactly one of ``point``, ``step``, ``seq``, ``after_s`` says where it strikes.

    Of a service ``action`` is the kind, ``name`` the tool (empty: any), ``value`` the kind's number, and ``visit``
    counts calls (model, tool) or visits of ``point`` (disk, clock).
    """

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
    name: str = ""
    value: float = 0.0

    @property
    def service(self) -> bool:
        """Whether a service misbehaves, and nobody dies of it directly."""
        return self.target in SERVICES

    def to_json(self) -> dict[str, Any]:
        """The fault as plain data."""
        return asdict(self)

    def spec(self) -> str:
        """The fault in words; :func:`parse_fault` reads it back."""
        visit = f"#{self.visit}" if self.visit != 1 else ""
        when = ":after" if self.when == "after" else ""
        if self.service:
            name = f"({self.name})" if self.name else ""
            value = f"={_plain(self.value)}" if self.value != KINDS[self.target][self.action].value else ""
            point = f"@{self.point}" if self.point else ""
            return f"{self.target}{name}:{self.action}{value}{point}{visit}{when}"
        prefix = "" if self.action == "kill" else f"{self.action}:"
        if self.step:
            return f"{prefix}{self.target}@step={self.step}"
        if self.seq:
            return f"{prefix}{self.target}@seq={self.seq}"
        if self.after_s:
            return f"{prefix}{self.target}@after={_plain(self.after_s)}s"
        return f"{prefix}{self.target}@{self.point}{visit}{when}"


def _plain(number: float) -> str:
    """A number with every digit that it needs and no exponent, so that it is the same when it is read again."""
    return format(Decimal(repr(float(number))), "f").removesuffix(".0")


def points() -> list[str]:
    """Every name that may stand after ``@``: crash points and kinds of events."""
    return sorted({point.value for point in CrashPoint} | set(EVENTS))


def parse_faults(text: str, fault_id: str, seed: int = 0) -> list[Fault]:
    """The faults of a schedule in words: separated by commas, each strikes only after the one before has struck.

    ``seed`` decides the times of random processes.

    Raises:
        BadDefinition, UnknownName: as for :func:`parse_fault`.
    """
    groups = [_expanded(part, seed) for part in text.split(",")]
    single = len(groups) == 1 and len(groups[0]) == 1
    out: list[Fault] = []
    last = ""
    for group in groups:
        for fault in group:
            number = fault_id if single else f"{fault_id}.{len(out) + 1}"
            # Random times follow from the start of the session; everything else from what struck before.
            out.append(replace(fault, id=number, follows="" if fault.after_s else last))
            last = number
    if len(out) > MOST:
        raise BadDefinition(f"{text!r} strikes {len(out)} times; a schedule may hold {MOST}")
    return out


def parse_fault(text: str, fault_id: str) -> Fault:
    """A single fault from its words.

    Raises:
        BadDefinition: not of the form ``target@point`` or ``service:kind``, or more than one strike.
        UnknownName: no such target, action, kind or point (near matches in the message).
    """
    found = _expanded(text, 0)
    if len(found) != 1:
        raise BadDefinition(f"{text!r} strikes {len(found)} times; give it to Faults, to --crash or to --fault")
    return replace(found[0], id=fault_id)


def deaths(process: Process, seed: int, times: int | None = None, target: str = "harness") -> list[Fault]:
    """The first ``times`` deaths that ``process`` draws by ``seed``, as faults without ids.

    Without ``times`` three of a random process, all that are given one by one, and all kills of a crash loop.

    Raises:
        UnknownName: no such target.
        BadDefinition: more deaths than a schedule may hold.
    """
    if target not in TARGETS:
        raise UnknownName("fault target", target, TARGETS)
    if isinstance(process, CrashLoop):
        return [Fault("", target, seq=process.at_event)] * (process.kills or times or MOST)
    wanted = times or (MOST + 1 if isinstance(process, Times) else TIMES)
    found = [Fault("", target, after_s=max(0.001, round(t, 3))) for t in islice(process.times(seed), wanted)]
    if len(found) > MOST:
        raise BadDefinition(f"{process!r} strikes more than {MOST} times; a schedule may hold {MOST}")
    return found


def _expanded(text: str, seed: int) -> list[Fault]:
    """The faults that one part of a schedule stands for, without ids."""
    text = text.strip()
    service = _SERVICE.fullmatch(text)
    if service is not None and service["target"] in SERVICES:
        fault, count = _service(text, service), service["count"]
    else:
        match = _DEATH.fullmatch(text)
        if match is None:
            if service is not None and service["target"] not in TARGETS:
                raise UnknownName("service", service["target"], SERVICES)
            raise BadDefinition(
                f"{text!r} is no fault; write target@point or service:kind, as in harness@tool_result, sandbox@step=4,"
                " model:529*3, tool(notify):lost_reply or disk:full@event.append"
            )
        if match["point"] in PROCESSES and match["value"] is not None:
            if match["count"] is not None and int(match["count"]) < 1:
                raise BadDefinition(f"{text!r}: it must strike at least once")
            return deaths(_process(text, match), seed, int(match["count"] or TIMES), match["target"])
        fault, count = _death(text, match), match["count"]
    if count is not None and int(count) < 1:
        raise BadDefinition(f"{text!r}: it must strike at least once")
    # Each repetition is in force when the one before has struck: it is the next visit that it takes.
    return [fault, *[replace(fault, visit=1)] * (min(int(count or 1), MOST + 1) - 1)]


def _where(text: str, match: re.Match[str]) -> tuple[str, int]:
    when, visit = match["when"] or "before", int(match["visit"] or 1)
    if when not in ("before", "after"):
        raise UnknownName("side of a crash point", when, ("before", "after"))
    if visit < 1:
        raise BadDefinition(f"{text!r}: visits count from 1")
    return when, visit


def _death(text: str, match: re.Match[str]) -> Fault:
    target, action = match["target"], match["action"] or "kill"
    if target not in TARGETS:
        raise UnknownName("fault target", target, TARGETS)
    if action not in ACTIONS:
        raise UnknownName("fault action", action, ACTIONS)
    if action == "second" and target != "harness":
        raise BadDefinition(f"{text!r}: only a harness has a second one; write second:harness@…")
    when, visit = _where(text, match)
    point, value = match["point"], match["value"]
    if value is not None:
        return _numbered(text, target, action, point, value)
    if point not in points():
        raise UnknownName("crash point", point, points())
    return Fault("", target, action, point, when, visit)


def _service(text: str, match: re.Match[str]) -> Fault:
    target, kind = match["target"], match["action"]
    if kind not in KINDS[target]:
        raise UnknownName(f"{target} fault", kind, KINDS[target])
    when, visit = _where(text, match)
    point, name = match["point"] or "", match["name"] or ""
    known = [*PLACES, *points()] if target == "disk" else points()
    if target in ("disk", "clock"):
        point = point or ("event.append" if target == "disk" else "model.send")
        if point not in known:
            raise UnknownName("point", point, known)
    elif point:
        raise BadDefinition(f"{text!r}: calls of a {target} are counted; write {target}:{kind}#2 for the second")
    if name and target != "tool":
        raise BadDefinition(f"{text!r}: only a tool has a name in brackets, as in tool(notify):lost_reply")
    value = KINDS[target][kind].value
    if match["value"] is not None:
        if not KINDS[target][kind].unit:
            raise BadDefinition(f"{text!r}: {target}:{kind} takes no number")
        value = _number(text, match["value"])
    return Fault("", target, kind, point, when, visit, name=name, value=value)


def _process(text: str, match: re.Match[str]) -> Process:
    mean, shape = _number(text, match["value"]), match["shape"]
    if match["action"] not in (None, "kill"):
        raise BadDefinition(f"{text!r}: a random process kills")
    if shape and match["point"] != "weibull":
        raise BadDefinition(f"{text!r}: only weibull= has a shape, as in weibull=60s/0.7")
    if match["point"] == "poisson":
        return Exponential(mean)
    if match["point"] == "weibull":
        return Weibull(mean, _number(text, shape) if shape else 0.7)
    return Bursty(mean, burst_mean_s=mean / 10)


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise BadDefinition(f"{text!r}: {value!r} is not a number") from None


def _numbered(text: str, target: str, action: str, what: str, value: str) -> Fault:
    number = _number(text, value)
    if what == "after" and number > 0:
        return Fault("", target, action, after_s=number)
    if number >= 1 and number == int(number):
        if what == "step":
            return Fault("", target, action, step=int(number))
        if what == "seq":
            return Fault("", target, action, seq=int(number))
    raise BadDefinition(
        f"{text!r}: after @ stand a crash point, step=N, seq=N, after=SECONDSs, poisson=, weibull= or bursty=MEANs"
    )


def fault_from_json(data: Mapping[str, Any]) -> Fault:
    """A fault from its plain data.

    Raises:
        BadDefinition: unknown or missing fields.
    """
    try:
        return Fault(**data)
    except TypeError as error:
        raise BadDefinition(f"a fault that can not be read: {error}") from None


def checked(data: Mapping[str, Any]) -> Fault:
    """A fault from plain data that a person wrote: it must say what words can say, no more and no less.

    Raises:
        BadDefinition: fields or values that say no fault.
        UnknownName: a target, action, kind or point that does not exist.
    """
    fault = fault_from_json(data)
    try:
        again = replace(parse_fault(fault.spec(), fault.id), follows=fault.follows)
    except (TypeError, ValueError, KeyError):
        raise BadDefinition(f"a fault that can not be read: {dict(data)!r}") from None
    if again != fault:
        raise BadDefinition(f"a fault says one thing; of {dict(data)!r} only {again.spec()} can be read")
    return fault


def in_words(faults: Sequence[Fault]) -> str:
    """Faults that follow each other, as one option; :func:`parse_faults` reads it back."""
    return ",".join(fault.spec() for fault in faults)
