"""Driving one incarnation in a world: strikes where told, notes what could have died where, may stop where others went on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath, When
from agentlab.errors import Fenced
from agentlab.events import Head
from agentlab.explorer.schedule import Strike
from agentlab.explorer.subject import SESSION
from agentlab.explorer.world import World
from agentlab.harness.loop import turn
from agentlab.harness.rig import Rig
from agentlab.session.commands import AskModel, End, Rest, RunCall
from agentlab.session.decide import decide

MAX_COMMANDS = 2_000
MAX_VISITS = 50_000
"""Boundaries after which an incarnation that has not come to rest never will."""
_IN_SANDBOX = frozenset(
    {CrashPoint.SANDBOX_SPAWN, CrashPoint.SANDBOX_CONNECT, CrashPoint.SANDBOX_EXECUTE, CrashPoint.SANDBOX_RESULT,
     CrashPoint.SANDBOX_ACK, CrashPoint.SANDBOX_DESTROY, CrashPoint.SNAPSHOT, CrashPoint.SNAPSHOT_RESTORE}
)  # fmt: skip


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
    struck: list[Strike] = field(default_factory=list)
    deaths: list[Place] = field(default_factory=list)
    losses: list[Place] = field(default_factory=list)
    points: set[CrashPoint] = field(default_factory=set)
    visits: int = 0
    lost: int = 0
    rig: Rig | None = None
    refused: tuple[str, ...] = ()
    """Kinds of events that a fenced harness wanted to write and was not allowed to."""


Merge = Callable[[World, Rig], bool]
"""Asked between commands; True when another run went on from an equal state."""


class Tracer:
    """Armed while one incarnation runs: counts visits, strikes, and notes places."""

    def __init__(self, world: World, run: Run, strikes: list[Strike], collect: bool) -> None:
        self.world, self.run, self.strikes, self.collect = world, run, strikes, collect
        self.noting = collect and not strikes
        self.seen: Counter[tuple[CrashPoint, When]] = Counter()
        self._version: Any = None
        self._loss: Any = None
        self._sandbox_visits = 0
        self.replaced: Head | None = None
        """Where the log stood when the harness that took over had come to rest."""

    def __call__(self, point: CrashPoint, when: When, detail: str) -> None:
        self.run.visits += 1
        if self.run.visits > MAX_VISITS:
            raise AssertionError(f"no rest after {MAX_VISITS} boundaries, the last one {point.value}")
        self.run.points.add(point)
        side = (point, when)
        self.seen[side] += 1
        inside = point in _IN_SANDBOX
        self._sandbox_visits += inside
        if self.noting:
            self._note(point, when, inside)
        while self.strikes:
            first = self.strikes[0]
            if (first.point, first.when) != side or first.visit != self.seen[side]:
                return
            self.strikes.pop(0)
            self._strike(first)

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

    def _strike(self, strike: Strike) -> None:
        self.run.struck.append(strike)
        self.noting = self.collect
        if strike.target == "zombie":
            self._replace()
            return
        if strike.target == "power":
            self.run.lost = self.world.lose_power()
        elif strike.target in ("sandbox", "both"):
            self.world.kill_sandboxes()
        if strike.kills_harness:
            crashpoints.arm(None)
            raise SimulatedDeath(str(strike))

    def _replace(self) -> None:
        """This harness is stopped; another one takes over and runs to its rest; then this one is continued."""
        zombie = self.world.life, self.world.clock, self.world.ids
        crashpoints.arm(None)
        inner = drive(self.world)
        self.world.life, self.world.clock, self.world.ids = zombie
        self.world.enter()
        self.world.zombie = True
        if inner.why not in ("ended", "waiting", "paused"):
            self.run.error = f"the harness that took over: {inner.why} {inner.error}"
        self.replaced = self.world.log.head()


def drive(
    world: World,
    strikes: list[Strike] | None = None,
    collect: bool = False,
    merge: Merge | None = None,
    replaying: bool = False,
) -> Run:
    """Run one incarnation. ``strikes`` are taken from the front as they strike; ``replaying`` forgets all between commands."""
    run = Run()
    if not world.log.head().seq:  # the power took the session with it
        run.why = "gone"
        return run
    tracer = Tracer(world, run, strikes if strikes is not None else [], collect)
    world.begin()
    life = world.life
    crashpoints.arm(tracer)
    try:
        crashpoints.reach(CrashPoint.WAKE, "before")
        run.why = _incarnation(world, run, merge, replaying)
    except SimulatedDeath:
        run.why = "died"
    except Fenced:
        run.why = "fenced"
        run.refused = _refused(run.rig) if run.rig is not None else ()
    except Exception as error:  # whatever it is, a crash must not lead to it
        run.why, run.error = "failed", f"{type(error).__name__}: {error}"
    finally:
        crashpoints.arm(None)
        life.alive = False
    if tracer.replaced is not None:
        _judge_zombie(world, run, tracer.replaced)
    return run


def _refused(rig: Rig) -> tuple[str, ...]:
    """What a fenced harness still wanted to write: what it had staged, or, fenced between commands, what the next begins with."""
    if rig.recorder._events:
        return tuple(event.type for event in rig.recorder._events)
    command = decide(rig.state, rig.run)
    if isinstance(command, RunCall):
        return ("effect_pending" if command.effect == "external" else "tool_result",)
    return ("model_request",) if isinstance(command, AskModel) else ()


def _judge_zombie(world: World, run: Run, left: Head) -> None:
    """A harness that was replaced may find its sandbox taken; it must not write any more."""
    if world.log.head() != left:
        run.why, run.error = "failed", f"a fenced harness wrote event {world.log.head().seq}"
    elif run.error.startswith("Sandbox"):
        run.why, run.error = "fenced", ""


def _incarnation(world: World, run: Run, merge: Merge | None, replaying: bool) -> str:
    last = next(iter(world.log.replay(world.log.head().seq)))
    if last.type == "session_ended":
        return world.run(SESSION)  # only gives back what the last harness could not
    rig = world.wake(SESSION, takeover=False)
    run.rig = rig
    for _ in range(MAX_COMMANDS):
        if merge is not None and merge(world, rig):
            return "merged"
        command = turn(rig)
        if replaying and not isinstance(command, (End, Rest)):  # after its end the sandbox is given back
            rig.recorder.commit()
            rig = run.rig = world.forget(rig)
        if isinstance(command, Rest):
            return command.why
    raise AssertionError(f"no rest after {MAX_COMMANDS} commands")
