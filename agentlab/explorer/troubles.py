"""Services that misbehave in a schedule: a model's call, a tool's call, an append to the disk; and drawing them by seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from agentlab.crashpoints import CrashPoint, When
from agentlab.faults import Fault, parse_fault
from agentlab.faults.kinds import KINDS

SIMULATED = ("model", "tool", "disk", "clock")
"""Services whose misdeeds a simulation knows."""
LIES = frozenset({"corrupt", "empty"})
"""Tools that say what is not so: what follows from it is no fault of the harness."""
FATAL = ("full", "eio", "emfile", "readonly")
"""Disk faults that end the harness: it can not write, so it says so and leaves."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One misdeed of a service. ``visit`` counts its calls from the moment that the strike before has struck."""

    fault: Fault

    def __str__(self) -> str:
        return self.fault.spec()

    @property
    def target(self) -> str:
        """The service."""
        return self.fault.target

    @property
    def kind(self) -> str:
        """Which service misbehaves, and how: ``tool:lost_reply``."""
        return f"{self.fault.target}:{self.fault.action}"

    @property
    def visit(self) -> int:
        """At which call it strikes."""
        return self.fault.visit

    @property
    def kills_harness(self) -> bool:
        """Whether the incarnation ends with it."""
        return False

    @property
    def lies(self) -> bool:
        """Whether a tool gave a wrong result."""
        return self.fault.target == "tool" and self.fault.action in LIES

    def alike(self) -> bool:
        """Whether another kind at this same place leaves the same and is tried instead: nothing is written, and the harness ends.

        Each kind is tried at the first place; after that they take turns.
        """
        return self.fatal and self.visit > 1 and list(FATAL).index(self.fault.action) != self.visit % len(FATAL)

    def at(self, visit: int) -> Trouble:
        """The same at another call."""
        return replace(self, fault=replace(self.fault, visit=visit))

    @property
    def fatal(self) -> bool:
        """Whether a harness that meets it can not write any more, and leaves."""
        return self.fault.target == "disk" and self.fault.action in FATAL

    def faults(self, prefix: str) -> list[Fault]:
        """The same as faults of real processes."""
        return [replace(self.fault, id=prefix)]

    def meets(self, service: str, name: str) -> bool:
        """Whether a call of ``service`` (a tool by its ``name``) is one that this counts."""
        return self.fault.target == service and self.fault.name in ("", name)


def parse_trouble(text: str) -> Trouble:
    """A trouble from its words, as in ``model:529#2``, ``tool(send):lost_reply`` or ``disk:full@event.append``.

    Raises:
        BadDefinition, UnknownName: as for :func:`agentlab.faults.parse_fault`.
    """
    return Trouble(parse_fault(text.strip(), ""))


_OF_A_BLOB: tuple[tuple[CrashPoint, When], ...] = (
    (CrashPoint.BLOB_WRITE, "before"), (CrashPoint.BLOB_WRITE, "after"), (CrashPoint.BLOB_FSYNC, "before"),
)  # fmt: skip


def disk_places(point: CrashPoint, when: When) -> Iterator[tuple[CrashPoint, When]]:
    """The boundaries of a store on disk that a boundary of the store in memory stands for."""
    yield point, when
    if point is CrashPoint.BLOB_LINK and when == "before":  # in memory a blob appears as a whole
        yield from _OF_A_BLOB


def known_kinds(services: Iterable[str] = SIMULATED) -> list[str]:
    """Every kind that can be drawn, as :attr:`Trouble.kind` writes it."""
    return [f"{service}:{kind}" for service in services for kind in KINDS[service]]


Calls = Mapping[tuple[str, str], int]
"""How often each service was called in a run without any fault: a model, a tool by its name, a place on the disk."""


def all_troubles(calls: Calls) -> list[Trouble]:
    """Every kind of misdeed at every call that ``calls`` has."""
    out = []
    for (service, name), count in calls.items():
        for kind in KINDS[service]:
            out += [Trouble(_fault(service, kind, name, visit)) for visit in range(1, count + 1)]
    return out


def drawn(calls: Calls, chosen: random.Random, furthest: int) -> Trouble | None:
    """One misdeed among all that ``calls`` allows, at one of the next ``furthest`` calls; None when there is none."""
    services = sorted({service for service, _ in calls})
    if not services:
        return None
    service = chosen.choice(services)
    name = chosen.choice(sorted(name for known, name in calls if known == service))
    kind = chosen.choice(list(KINDS[service]))
    return Trouble(_fault(service, kind, name, chosen.randint(1, max(1, min(furthest, calls[service, name])))))


def _fault(service: str, kind: str, name: str, visit: int) -> Fault:
    value = KINDS[service][kind].value
    if service in ("disk", "clock"):
        return Fault("", service, kind, point=name, visit=visit, value=value)
    return Fault("", service, kind, visit=visit, name=name, value=value)
