"""What is armed while one incarnation runs in a world: counts boundaries, strikes where told, notes what could have died where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, Misdeed, SimulatedDeath, When
from agentlab.events import Head
from agentlab.explorer.schedule import Strike
from agentlab.explorer.troubles import Trouble, disk_places
from agentlab.explorer.world import World
from agentlab.faults.disk import fail, hits
from agentlab.harness.rig import Rig
from agentlab.log.files import refused

MAX_VISITS = 50_000
"""Boundaries after which an incarnation that has not come to rest never will."""
_IN_SANDBOX = frozenset(
    {CrashPoint.SANDBOX_SPAWN, CrashPoint.SANDBOX_CONNECT, CrashPoint.SANDBOX_EXECUTE, CrashPoint.SANDBOX_RESULT,
     CrashPoint.SANDBOX_ACK, CrashPoint.SANDBOX_DESTROY, CrashPoint.SNAPSHOT, CrashPoint.SNAPSHOT_RESTORE}
)  # fmt: skip
Side = tuple[CrashPoint, When]


@dataclass(slots=True)
class Place:
    """A class of visits where a death leaves the same: its first visit, how many there are, the world left behind."""

    point: CrashPoint
    when: When
    visit: int
    world: World | None
    visits: int = 1
    torn: bool = False
    """A death at one of these visits leaves a temporary file of an append behind."""

    def strike(self, target: str) -> Strike:
        """A strike of ``target`` here."""
        return Strike(target, self.point, self.when, self.visit)


@dataclass(slots=True)
class Run:
    """What one incarnation did. ``why``: ended, paused, waiting, died, merged, fenced, failed, gone."""

    why: str = ""
    error: str = ""
    struck: list[Strike | Trouble] = field(default_factory=list)
    deaths: list[Place] = field(default_factory=list)
    losses: list[Place] = field(default_factory=list)
    points: set[CrashPoint] = field(default_factory=set)
    visits: int = 0
    lost: int = 0
    rig: Rig | None = None
    refused: tuple[str, ...] = ()
    """Kinds of events that a fenced harness wanted to write and was not allowed to."""
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each service was called: the model, a tool by its name, a place on the disk, the clock at a point."""
    fenced: int = 0
    """Harnesses that were fenced while another went on."""
    woken: bool = False
    """It rested since something failed too often, and somebody woke it."""


class Tracer:
    """Armed while one incarnation runs. ``take_over`` runs another harness in its place, ``beside`` lets one open the session."""

    def __init__(
        self,
        world: World,
        run: Run,
        strikes: list[Strike | Trouble],
        collect: bool,
        take_over: Callable[[Tracer], None],
        beside: Callable[[Tracer], None],
    ) -> None:
        self.world, self.run, self.strikes, self.collect = world, run, strikes, collect
        self.noting = collect and not strikes
        self.seen: Counter[Side] = Counter()
        self._from: Counter[Side] = Counter()
        """Visits before the strike that is due next came into force, where those before it do not count."""
        self._calls = 0
        """Calls that the trouble that is due next has counted."""
        self._commit: frozenset[str] = frozenset()
        self._packing = False
        """A sandbox takes a snapshot: the disk that it writes to is its own."""
        self._version: Any = None
        self._loss: Any = None
        self._sandbox_visits = 0
        self._take_over, self._beside = take_over, beside
        self.disk_failed = False
        self.replaced: Head | None = None
        """Where the log stood when the harness that took over had come to rest."""
        self.second: Tracer | None = None
        """What is armed for the harness that opened the session beside this one."""
        self.ports: Any = None
        """Life, clock, ids and recorder of that harness while the other one is driven."""

    def __call__(self, point: CrashPoint, when: When, detail: str) -> None:
        self.run.visits += 1
        if self.run.visits > MAX_VISITS:
            raise AssertionError(f"no rest after {MAX_VISITS} boundaries, the last one {point.value}")
        self.run.points.add(point)
        side = (point, when)
        self.seen[side] += 1
        inside = point in _IN_SANDBOX
        self._sandbox_visits += inside
        if point is CrashPoint.COMMIT:
            self._commit = frozenset(detail.split(",")) if when == "before" else frozenset()
        elif point is CrashPoint.SNAPSHOT:
            self._packing = when == "before"
        elif point is CrashPoint.BLOB_LINK and when == "before" and not self._packing:
            self.run.calls["disk", "blob.put"] += 1
        if self.noting:
            self._note(point, when, inside)
        while self.strikes:
            first = self.strikes[0]
            if isinstance(first, Trouble):
                if not self._meets(first, point, when):
                    return
                self._wrong(first)
                self._from[side] -= 1  # what follows may strike at this very visit
                self._misbehave(first)
            else:
                if (first.point, first.when) != side or first.visit != self.seen[side] - self._from[side]:
                    return
                self.strikes.pop(0)
                self._strike(first)

    # --- places ------------------------------------------------------------------------------------------------------

    def _note(self, point: CrashPoint, when: When, inside: bool) -> None:
        version = self.world.version()
        visit = self.seen[point, when]
        if version != self._version:
            self._version = version
            self.run.deaths.append(Place(point, when, visit, self.world.copy()))
        else:
            self.run.deaths[-1].visits += 1
        self.run.deaths[-1].torn |= self.world.log.torn
        loss = (self.world.touches, self._sandbox_visits, inside)
        if loss == self._loss:
            self.run.losses[-1].visits += 1
        elif self.world.sandboxes.alive():
            self._loss = loss
            self.run.losses.append(Place(point, when, visit, None))

    def calls(self) -> Counter[tuple[str, str]]:
        """How often each service was called."""
        seen, calls = self.seen, Counter(self.run.calls)
        calls["disk", "event.append"] = seen[CrashPoint.LOG_WRITE, "before"]
        calls["disk", "checkpoint.pointer"] = seen[CrashPoint.POINTER_WRITE, "before"]
        calls["clock", CrashPoint.MODEL_SEND.value] = seen[CrashPoint.MODEL_SEND, "before"]
        return +calls

    # --- deaths ------------------------------------------------------------------------------------------------------

    def _strike(self, strike: Strike) -> None:
        self.run.struck.append(strike)
        self._calls = 0
        self.noting = self.collect
        if strike.target == "zombie":
            self._take_over(self)
        elif strike.target == "second":
            self._beside(self)
        elif strike.target == "power":
            self.run.lost = self.world.lose_power()
        elif strike.target in ("sandbox", "both"):
            self.world.kill_sandboxes()
        if strike.kills_harness:
            crashpoints.arm(None)
            raise SimulatedDeath(str(strike))

    # --- troubles ----------------------------------------------------------------------------------------------------

    def misdeed(self, service: str, name: str, ref: str) -> Misdeed | None:
        """How this call of a service is to misbehave, None when it is not; see :func:`agentlab.crashpoints.misdeed`."""
        self.run.calls[service, name if service == "tool" else ""] += 1
        first = self.strikes[0] if self.strikes else None
        if not isinstance(first, Trouble) or not first.meets(service, name):
            return None
        self._calls += 1
        if self._calls < first.visit:
            return None
        self._wrong(first)
        return first.fault.action, first.fault.value

    def _meets(self, trouble: Trouble, point: CrashPoint, when: When) -> bool:
        """Count a boundary of a disk or clock fault; whether this is the one."""
        fault = trouble.fault
        if fault.target == "clock":
            met = fault.when == when and (point.value == fault.point or fault.point in self._commit)
        elif fault.target == "disk":
            met = not self._packing and any(hits(fault, *place, self._commit) for place in disk_places(point, when))
        else:
            return False
        self._calls += met
        return met and self._calls >= fault.visit

    def _wrong(self, trouble: Trouble) -> None:
        self.strikes.pop(0)
        self.run.struck.append(trouble)
        self.world.wrong += (trouble,)
        self._from, self._calls = Counter(self.seen), 0

    def _misbehave(self, trouble: Trouble) -> None:
        fault, clock = trouble.fault, self.world.clock
        if fault.target == "clock":
            clock.set_wall(clock.now_us() + round(fault.value * 1e6) * (-1 if fault.action == "back" else 1))
        elif not trouble.fatal:
            clock.sleep(fault.value)
        else:
            self._refuse(trouble)

    def _refuse(self, trouble: Trouble) -> NoReturn:
        self.disk_failed, self.world.log.torn = True, False
        try:
            fail(trouble.fault)
        except OSError as error:
            raise refused(f"the lab ({trouble})", error) from None
        raise AssertionError(f"{trouble} does not fail")
