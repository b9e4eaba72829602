"""Driving one incarnation in a world to its rest, its death or its fence; another harness may come in between, or beside it."""

from __future__ import annotations

from collections.abc import Callable

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.errors import Fenced, StorageFailed
from agentlab.events import Head
from agentlab.explorer.schedule import Strike
from agentlab.explorer.subject import SESSION
from agentlab.explorer.tracing import Place, Run, Tracer
from agentlab.explorer.troubles import Trouble
from agentlab.explorer.world import World
from agentlab.harness.loop import turn
from agentlab.harness.rig import Rig
from agentlab.session.commands import AskModel, End, Rest, RunCall
from agentlab.session.decide import decide

MAX_COMMANDS = 2_000
Merge = Callable[[World, Rig], bool]
"""Asked between commands; True when another run went on from an equal state."""


def drive(
    world: World,
    strikes: list[Strike | Trouble] | None = None,
    collect: bool = False,
    merge: Merge | None = None,
    replaying: bool = False,
) -> Run:
    """Run one incarnation. ``strikes`` are taken from the front as they strike; ``replaying`` forgets all between commands."""
    run = Run()
    if not world.log.head().seq:  # the power took the session with it
        run.why = "gone"
        return run
    tracer = Tracer(world, run, strikes if strikes is not None else [], collect, _take_over, _beside)
    world.begin()
    life = world.life
    _until_it_leaves(run, tracer, lambda: _incarnation(world, run, merge, replaying))
    life.alive = False
    if tracer.replaced is not None:
        _judge_zombie(world, run, tracer.replaced)
    if tracer.second is not None:
        _go_on_beside(world, run, tracer.second)
    run.calls = tracer.calls()
    return run


def _until_it_leaves(run: Run, tracer: Tracer, incarnation: Callable[[], str]) -> None:
    """Run with ``tracer`` armed; how it left is in ``run``."""
    crashpoints.arm(tracer)
    try:
        if run.rig is None:
            crashpoints.reach(CrashPoint.WAKE, "before")
        run.why = incarnation()
    except SimulatedDeath:
        run.why = "died"
    except Fenced:
        run.why = "fenced"
        run.refused = _refused(run.rig) if run.rig is not None else ()
    except Exception as error:  # whatever it is, a crash must not lead to it
        # A harness that can not write leaves, and the keeper starts the next, as after any death.
        cut = tracer.disk_failed and isinstance(error, StorageFailed)
        run.why, run.error = ("died", "") if cut else ("failed", f"{type(error).__name__}: {error}")
    finally:
        crashpoints.arm(None)


def _refused(rig: Rig) -> tuple[str, ...]:
    """What a fenced harness still wanted to write: what it had staged, or, fenced between commands, what the next begins with."""
    if rig.recorder._events:
        return tuple(event.type for event in rig.recorder._events)
    command = decide(rig.state, rig.run)
    if isinstance(command, RunCall):
        return ("effect_pending" if command.effect == "external" else "tool_result",)
    return ("model_request",) if isinstance(command, AskModel) else ()


# --- one harness after the other ------------------------------------------------------------------------------------


def _take_over(tracer: Tracer) -> None:
    """This harness is stopped; another one takes over and runs to its rest; then this one is continued."""
    world = tracer.world
    zombie = world.life, world.clock, world.ids
    crashpoints.arm(None)
    inner = drive(world)
    world.life, world.clock, world.ids = zombie
    world.enter()
    world.zombie = True
    if inner.why not in ("ended", "waiting", "paused"):
        tracer.run.error = f"the harness that took over: {inner.why} {inner.error}"
    tracer.replaced = world.log.head()


def _judge_zombie(world: World, run: Run, left: Head) -> None:
    """A harness that was replaced may find its sandbox taken; it must not write any more."""
    if world.log.head() != left:
        run.why, run.error = "failed", f"a fenced harness wrote event {world.log.head().seq}"
    elif run.error.startswith("Sandbox"):
        run.why, run.error = "fenced", ""


# --- two harnesses at once ------------------------------------------------------------------------------------------


def _beside(tracer: Tracer) -> None:
    """Another harness opens the session while this one lives, and waits; what is still to strike is for it."""
    world = tracer.world
    if next(iter(world.log.replay(world.log.head().seq))).type == "session_ended":
        return  # nothing is left to open
    first, before = (world.life, world.clock, world.ids, world.recorder), world.log.head()
    second = Tracer(world, Run(), tracer.strikes, False, _take_over, _beside)
    tracer.strikes = []
    world.begin()

    def opened() -> str:
        second.run.rig = world.wake(SESSION, takeover=False)
        second.run.rig.known_dead = lambda record: False  # the first one lives
        return ""

    _until_it_leaves(second.run, second, opened)
    second.ports = world.life, world.clock, world.ids, world.recorder
    world.life, world.clock, world.ids, world.recorder = first
    world.enter()
    if second.run.lost or any(strike.target == "power" for strike in second.run.struck):
        tracer.run.struck += second.run.struck
        raise SimulatedDeath("the power went")  # for both
    tracer.second = second
    crashpoints.arm(tracer)
    if world.log.head() == before:  # it died before it had opened anything: nobody is fenced
        tracer.second = None
        return
    second.replaced = world.log.head()
    if tracer.run.rig is None:
        raise Fenced("another harness is alive")


def _go_on_beside(world: World, run: Run, second: Tracer) -> None:
    """The first harness is fenced; what the second makes of the session is what ``run`` tells."""
    assert second.replaced is not None
    _judge_zombie(world, run, second.replaced)
    if run.why == "failed":
        return
    run.fenced += run.why == "fenced"
    inner = second.run
    if inner.why == "":
        world.life, world.clock, world.ids, world.recorder = second.ports
        world.enter()
        rig = inner.rig
        assert rig is not None
        _until_it_leaves(inner, second, lambda: _turns(world, inner, rig, None, False))
    if second.second is not None:
        _go_on_beside(world, inner, second.second)
    second.ports[0].alive = False
    run.why, run.error, run.rig = inner.why, inner.error, inner.rig
    run.fenced += inner.fenced
    run.struck += inner.struck
    run.points |= inner.points
    run.refused += inner.refused


def _incarnation(world: World, run: Run, merge: Merge | None, replaying: bool) -> str:
    last = next(iter(world.log.replay(world.log.head().seq)))
    if last.type == "session_ended":
        return world.run(SESSION)  # only gives back what the last harness could not
    run.rig = world.wake(SESSION, takeover=False)
    return _turns(world, run, run.rig, merge, replaying)


def _turns(world: World, run: Run, rig: Rig, merge: Merge | None, replaying: bool) -> str:
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


__all__ = ["MAX_COMMANDS", "Merge", "Place", "Run", "Tracer", "drive"]
