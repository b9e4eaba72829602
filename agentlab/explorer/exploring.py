"""Exploring: every single death, every pair, then random ones; equal states are one, prefixes are shared by copies."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentlab import crashpoints
from agentlab.events import KINDS, Head
from agentlab.explorer import outbox
from agentlab.explorer.drawing import schedules
from agentlab.explorer.driving import Place, Run, drive
from agentlab.explorer.judging import (
    INTERRUPTED,
    SOMETIMES,
    TROUBLED,
    Found,
    Undisturbed,
    budget_kept,
    folded,
    judge,
    reached,
)
from agentlab.explorer.merging import Key, boundary, key_of
from agentlab.explorer.report import Report
from agentlab.explorer.schedule import Schedule, Strike, Violation, keep, shrink
from agentlab.explorer.subject import Subject
from agentlab.explorer.troubles import Trouble, all_troubles
from agentlab.explorer.world import World
from agentlab.harness.rig import Rig

KINDS_SHOWN = 5
GAVE_UP = ("model", "retries", "errors", "rounds", "loop", "statement")
"""Reasons of a pause that misbehaving services may lead to."""
ENOUGH = 50
"""After so many violating schedules the rest adds nothing."""
UNLIKE = "two runs without any crash do not end alike, so nothing can be said of runs with one"
FENCED = "a zombie harness was fenced"
TORN = "a torn temporary file was found"
LATE = {
    "a zombie's late append was refused": frozenset(KINDS) - {"model_request", "effect_pending"},
    "a zombie's late effect was refused": frozenset({"effect_pending"}),
    "a zombie's late budget charge was refused": frozenset({"model_request", "model_response", "budget_reserved"}),
}
"""What a fenced harness still wanted to write: a fact, an effect it was about to register, a reservation or a charge."""
ZOMBIES = (FENCED, *LATE)
TWO = "two harnesses were awake at once, and the older was fenced"
WOKEN = "a session that gave up was woken, and went on"
POWER = "power was lost with events not yet synced"


@dataclass(slots=True)
class Node:
    """A schedule to run: the world as the deaths so far left it, and what is still to strike in this incarnation."""

    world: World
    trail: Schedule
    left: int
    strikes: list[Strike | Trouble] = field(default_factory=list)


@dataclass(slots=True)
class Tail:
    """How a run went on from a state that others reached too."""

    run: Run
    at: int
    beyond: Tail | None = None

    def visits(self) -> int:
        """Visits from that state to the end of the session."""
        return self.run.visits - self.at + (self.beyond.visits() if self.beyond is not None else 0)


class Explorer:
    """One exploration of one subject."""

    def __init__(self, subject: Subject, *, depth: int, merge: bool = True, deadline: float = float("inf"),
                 folder: Path | None = None, stop_after: int = ENOUGH) -> None:  # fmt: skip
        self.subject, self.depth, self.merging, self.deadline = subject, depth, merge, deadline
        self.folder, self.stop_after = folder, stop_after
        self.report = Report(subject.name)
        for name in (*SOMETIMES, INTERRUPTED, TORN, *ZOMBIES):
            self.report.sometimes[name] = 0
        self._seen: list[dict[Key, Tail]] = [{} for _ in range(depth + 1)]
        self.base: Undisturbed
        self.visits: list[Strike] = []
        self.calls: Counter[tuple[str, str]] = Counter()
        """How often the undisturbed run called each service."""
        self.missed: Schedule = ()
        """What did not strike of the schedule that was judged last: its place was never reached."""

    # --- the whole of it ---

    def undisturbed(self) -> World:
        """Run the task once with nothing happening; what it gives is what every other run is compared with."""
        world = World.fresh(self.subject)
        tracer: list[Strike] = []
        self.base = Undisturbed("", "", "", "")
        run = _traced(world, tracer)
        self.visits, self.calls = tracer, run.calls
        self.base = Undisturbed.of(world, run)
        self.report.events = self.base.events
        self._found(judge(world, run, self.base, Head(0, "")), ())
        return world

    def systematic(self) -> None:
        """Every single schedule, and with depth 2 every pair."""
        stack = [Node(World.fresh(self.subject), (), self.depth)]
        while stack:
            if self._enough():
                self.report.complete = False
                return
            stack += reversed(self._visit(stack.pop()))

    def at_random(self, seed: int, seconds: float) -> None:
        """For ``seconds`` schedules of deaths and misbehaving services, drawn by ``seed``; one at least, however slow it is."""
        end = time.monotonic() + seconds
        self._expect_troubles()
        for schedule in schedules(self.visits, self.calls, seed, self.subject.definition.durability != "process"):
            if self._enough():
                return
            self._try("random", schedule, seed)
            if time.monotonic() >= end:
                return

    def misbehaving(self) -> None:
        """Every kind of misdeed of every service at every call that the undisturbed run makes, one at a time.

        And at every place of a death a second harness that wakes beside the first.
        """
        self._expect_troubles()
        for visit in self.visits:
            self._try("single, second", (replace(visit, target="second"),))
        for trouble in all_troubles(self.calls):
            if self._enough():
                self.report.complete = False
                return
            kind = f"single, {trouble.target}"
            if trouble.alike():
                self.report.covered[kind] += 1
            else:
                self._try(kind, (trouble,))

    def _expect_troubles(self) -> None:
        self.report.misdeeds |= {trouble.kind for trouble in all_troubles(self.calls)}
        for name in (*TROUBLED, TWO, WOKEN):
            self.report.sometimes[name] += 0

    def _try(self, kind: str, schedule: Schedule, seed: int | None = None) -> None:
        self.report.covered[kind] += 1
        self.report.run[kind] += 1
        self._found(self.judged(schedule), schedule, seed)

    def judged(self, schedule: Schedule, replaying: bool = False) -> list[Found]:
        """What a schedule breaks, run from the very start without copies and without merging."""
        world, runs = play(self.subject, schedule, replaying)
        self.missed = schedule[sum(len(run.struck) for run in runs) :]
        power = any(strike.target == "power" for strike in schedule)
        report = self.report
        for run in runs:
            report.points |= run.points
            report.struck.update(strike.kind for strike in run.struck)
            report.sometimes.update([TWO, *late(run)] if run.fenced else [WOKEN] if run.woken else [])
        report.sometimes.update(
            reached(list(world.log.replay(1)), {**SOMETIMES, **TROUBLED} if world.wrong else SOMETIMES)
        )
        return judge(world, runs[-1], self.base, Head(0, ""), power)

    def _enough(self) -> bool:
        return self.report.violating >= self.stop_after or time.monotonic() > self.deadline

    # --- one node ---

    def _visit(self, node: Node) -> list[Node]:
        world, trail = node.world, node.trail
        start, again = (world.copy() if node.left else None), tuple(node.strikes)
        before, checked = world.before, world.log.head()
        tail = Tail(Run(), 0)
        fell = bool(trail) and trail[-1].target == "sandbox"
        merge = self._merge(node, tail) if self.merging else None
        run = drive(world, node.strikes, collect=node.left > 0, merge=merge)
        tail.run.visits = run.visits
        report = self.report
        report.points |= run.points
        report.run[_kind(node)] += 1
        found = judge(world, run, self.base, checked, any(s.target == "power" for s in trail))
        if run.rig is not None and run.why not in ("failed", "fenced"):
            # Where appends share a sync, or have none, the power takes spending along with the events that tell of it.
            dark = bool(trail) and trail[-1].target == "power" and world.log.durability != "disk"
            if before is not None and not fell and not dark:
                found += budget_kept(before, run.rig.recorder.committed, exact=before.seq == checked.seq)
            if len(trail) < 2 and not world.zombie and folded(world.log) != run.rig.recorder.committed:
                found.append(("state", "the state from the checkpoint is not the one that the whole log gives"))
        events = list(world.log.replay(checked.seq + 1 if trail else 1))
        report.sometimes.update(reached(events if len(trail) < 2 else list(world.log.replay(1))))
        if run.why == "fenced":
            report.sometimes.update(late(run))
        if not trail and found:
            found = [(invariant, f"{message}; {UNLIKE}") for invariant, message in found]
        if self._found(found, trail) or start is None:
            return []
        return self._children(node, again, run, start, tail)

    def _merge(self, node: Node, tail: Tail) -> Any:
        def merged(world: World, rig: Rig) -> bool:
            if node.strikes or not boundary(rig.state):
                return False
            key = key_of(world, rig)
            for left in range(node.left, self.depth + 1):
                found = self._seen[left].get(key)
                if found is not None and found.run is not tail.run:
                    tail.beyond = found
                    return True
            self._seen[node.left].setdefault(key, Tail(tail.run, _visits_now(), tail.beyond))
            return False

        return merged

    def _children(self, node: Node, again: Schedule, run: Run, start: World, tail: Tail) -> list[Node]:
        left, trail, out = node.left - 1, node.trail, []
        kind = "single" if not trail else "pairs"
        beyond = tail.beyond.visits() if tail.beyond is not None else 0
        for place in run.deaths:
            assert place.world is not None
            self._covered(kind, "harness", place.visits)
            self.report.sometimes[TORN] += place.torn
            out.append(Node(place.world, (*trail, place.strike("harness")), left))
            living = bool(place.world.sandboxes.alive())
            log = place.world.log
            # A session that promises nothing under power loss is judged by the dial, not as broken.
            unsynced = log._synced < log._length and log.durability != "process"
            if living:
                both = place.world.copy()
                both.kill_sandboxes()
                out.append(Node(both, (*trail, place.strike("both")), left))
                self._covered(kind, "both", place.visits)
            if unsynced:
                dark = place.world.copy()
                dark.lose_power()
                out.append(Node(dark, (*trail, place.strike("power")), left))
                self._covered(kind, "power", place.visits)
                self.report.sometimes[POWER] += 1
            if not trail:
                out.append(_again(start, trail, again, place, "zombie", 0))
                self._covered(kind, "zombie", place.visits)
        for place in run.losses:
            out.append(_again(start, trail, again, place, "sandbox", left))
            self._covered(kind, "sandbox", place.visits)
        # Where this run merged, the deaths after it are those of the run that went on.
        self._covered(kind, "harness", beyond)
        return out

    def _covered(self, kind: str, target: str, visits: int) -> None:
        self.report.covered[f"{kind}, {target}"] += visits

    def _found(self, found: list[Found], schedule: Schedule, seed: int | None = None) -> bool:
        if not found:
            return False
        self.report.violating += 1
        for invariant, message in found:
            known = {v.invariant for v in self.report.violations}
            if invariant in known or len(known) >= KINDS_SHOWN:
                continue
            least = self._shrunk(schedule, invariant)
            violation = Violation(invariant, message, least, self.subject.name, seed, source=self.subject.source)
            if self.folder is not None:
                with suppress(OSError):  # a folder that can not be written must not cost what was found
                    violation = replace(violation, file=str(keep(violation, self.folder, len(known) + 1)))
            self.report.violations.append(violation)
        return True

    def _shrunk(self, schedule: Schedule, invariant: str) -> Schedule:
        def fails(part: Schedule) -> bool:
            return any(name == invariant for name, _ in self.judged(part))

        if len(schedule) < 1 or not fails(schedule):
            return schedule
        return shrink(schedule, fails)


def late(run: Run) -> list[str]:
    """The ``sometimes`` statements that a fenced run shows."""
    return [FENCED, *(name for name, kinds in LATE.items() if kinds & set(run.refused))]


def _kind(node: Node) -> str:
    if not node.trail:
        return "undisturbed"
    return f"{'single' if len(node.trail) == 1 else 'pairs'}, {node.trail[-1].target}"


def _again(start: World, trail: Schedule, again: Schedule, place: Place, target: str, left: int) -> Node:
    # What struck in this incarnation and left it alive strikes again, since the run begins where it began.
    strike = place.strike(target)
    return Node(start.copy(), (*trail, strike), left, [*again, strike])


def _visits_now() -> int:
    tracer: Any = crashpoints._armed
    return int(tracer.run.visits) if tracer is not None else 0


def _traced(world: World, into: list[Strike]) -> Run:
    """An undisturbed run that notes every single visit."""
    run = drive(world, collect=True)
    for place in run.deaths:
        into.append(place.strike("harness"))
        place.world = None
    return run


def play(subject: Subject, schedule: Schedule, replaying: bool = False) -> tuple[World, list[Run]]:
    """Run a schedule from the start: its strikes in order, then undisturbed to the end, within one wake more."""
    world, rest, runs = World.fresh(subject), list(schedule), []
    for _ in range(len(schedule) + 3):
        run = drive(world, rest, replaying=replaying)
        runs.append(run)
        if run.why == "paused" and any(r.struck for r in runs) and _gave_up(world):
            world.ask_to_go_on()
            run.woken = True
        elif run.why != "died":
            break
    return world, runs


def _gave_up(world: World) -> bool:
    """Whether the session waits for a look, since something died or failed too often.

    That is as promised when a schedule strikes so often; once the faults stop, a wake must still bring it to its end.
    """
    reason = folded(world.log).control.reason
    return reason in ("sandbox", "crashes") or bool(world.wrong) and reason in GAVE_UP


@contextmanager
def stage(subject: Subject) -> Iterator[None]:
    """Deliveries of tools go to the simulated outside while an exploration runs; everything is put back after it."""

    class Current:
        def __getattr__(self, name: str) -> Any:
            return getattr(subject.outside, name)

    current: Any = Current()
    before = outbox.install(current)
    collecting = gc.isenabled()
    gc.disable()  # worlds hold no cycles worth a search; without it a run costs a fifth less
    try:
        yield
    finally:
        outbox.install(before)
        crashpoints.arm(None)
        subject.fresh_process()
        if collecting:
            gc.enable()
