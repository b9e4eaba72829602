"""Simulated runs: the very harness over a memory store, a clock that crashes, latencies from a distribution."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentlab.comparing.latencies import Latencies
from agentlab.comparing.timedports import TimedBlobs, TimedHost, TimedModel, TimedRecorder, TimedSandboxes
from agentlab.comparing.timing import CrashClock, Timing
from agentlab.crashpoints import SimulatedDeath
from agentlab.definition import Definition
from agentlab.errors import BadDefinition, UnknownName
from agentlab.events import Draft, Event
from agentlab.explorer.outside import Outside
from agentlab.explorer.subject import Subject
from agentlab.failures import CrashLoop, Process
from agentlab.harness.assembly import is_work
from agentlab.harness.loop import turn
from agentlab.harness.recorder import Recorder
from agentlab.harness.redact import Redactor
from agentlab.harness.rig import Rig
from agentlab.harness.simulation import SimulatedWorld
from agentlab.lab.inputs import append_input
from agentlab.ports import (
    Execution,
    Log,
    ToolInvocation,
)
from agentlab.sandbox.simulated import SimulatedSandboxes
from agentlab.session.commands import Command, Rest
from agentlab.toolhost.outcome import execution_for

SESSION = "simulated"
TARGETS = ("both", "harness", "sandbox")
NO_PROGRESS = 3
"""Deaths in a row without work after which nobody restarts the harness: the keeper's rule."""
MOST_CRASHES = 10_000
MOST_EXECUTIONS = 2_000
_one_at_a_time = threading.RLock()
"""Tools of simulated sandboxes run in a folder that is the process's own: threads take turns."""


@dataclass(frozen=True, slots=True)
class Crashes:
    """When and what: a failure process, and what dies: ``both`` (a machine), the ``harness`` or the ``sandbox`` alone."""

    process: Process | None = None
    target: str = "both"

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise UnknownName("target of the crashes", self.target, TARGETS)
        if self.target == "sandbox" and isinstance(self.process, CrashLoop):
            raise BadDefinition("a crash loop kills a harness: leave the target harness or both")

    def times(self, seed: int) -> Iterator[float]:
        """Seconds since the start, ascending."""
        return self.process.times(seed) if self.process is not None else iter(())


class _World(SimulatedWorld):
    """One session's world, with everything that takes time on the run's clock."""

    def __init__(self, subject: Subject, timing: Timing, executions: dict[str, Execution]) -> None:
        super().__init__(lambda definition: subject.model, subject.resolve, subject.store.copy(), timing.clock)
        self.subject, self.timing = subject, timing
        self.host, self.executions = subject.host, executions
        self.sandboxes = SimulatedSandboxes(self.store.blobs, subject.runner)
        self._tools = {str(t.ref["name"]): t.name for t in subject.definition.tools if t.ref is not None}
        self._definitions[SESSION] = subject.definition

    def _rig(self, log: Log, recorder: Recorder, definition: Definition) -> Rig:
        timed = TimedRecorder(
            log, self.store.blobs, recorder.state, recorder.incarnation, self.clock, self.ids, Redactor({})
        )
        timed.timing = self.timing
        rig = super()._rig(log, timed, definition)
        sandboxes: Any = TimedSandboxes(self.sandboxes, self.timing, self._tool_of)
        rig.model, rig.toolhost, rig.sandboxes = (
            TimedModel(rig.model, self.timing),
            TimedHost(self.host, self.timing),
            sandboxes,
        )
        rig.execution_for = self._execution
        rig.blobs = TimedBlobs(self.store.blobs, self.timing)
        return rig

    def _execution(self, invocation: ToolInvocation) -> Execution:
        """The same command for the same call, whatever process makes it: looked up instead of made again."""
        known = self.executions
        identity = repr(
            (invocation.call_id, invocation.ref, invocation.arguments, invocation.params, invocation.timeout_s)
        )
        if identity not in known:
            if len(known) >= MOST_EXECUTIONS:
                known.clear()
            known[identity] = execution_for(invocation, None)
        return known[identity]

    def _tool_of(self, stdin: str) -> str:
        name = stdin.partition('"name": "')[2].partition('"')[0] or stdin.partition('"name":"')[2].partition('"')[0]
        return self._tools.get(name, "")


class Simulation:
    """Simulated sessions of one task under one condition; what is the same in all of them is made once."""

    def __init__(self, task: Any, latencies: Latencies, *, model: Any = None, **overrides: Any) -> None:
        self.subject = Subject(task, model, **overrides)
        self.latencies = latencies
        self._accepted: Any = None
        self._executions: dict[str, Execution] = {}

    def run(self, crashes: Crashes, seed: int, limit_s: float = 1e9, no_progress: int = NO_PROGRESS) -> list[Event]:
        """The events of one session under the crashes of ``seed``; ends when it rests, or at ``limit_s`` on its clock.

        After ``no_progress`` deaths in a row without work it ends in a crash loop.
        """
        with _one_at_a_time:
            clock = CrashClock(crashes.times(seed))
            timing = Timing(clock, self.latencies, seed)
            world = _World(self.subject, timing, self._executions)
            world._accepted = self._accepted
            self.subject.outside = Outside()
            world.accept(self.subject.definition, SESSION)
            self._accepted = world._accepted
            _Life(world, crashes, clock.start_us + round(limit_s * 1e6), no_progress).live()
            return list(world.store.open(SESSION).replay(1))


class _Life:
    """A session from its start to its rest, through every death."""

    def __init__(self, world: _World, crashes: Crashes, until_us: int, no_progress: int) -> None:
        self.world, self.crashes, self.until_us, self.no_progress = world, crashes, until_us, no_progress
        self.clock = world.timing.clock
        self.log = world.store.open(SESSION)
        self.idle = self.deaths = self.kills = 0
        self.poison = crashes.process if isinstance(crashes.process, CrashLoop) else None
        if crashes.target == "sandbox":
            self.clock.survived = self._sandbox_died

    def live(self) -> None:
        while self.clock.now_us() < self.until_us and self.deaths < MOST_CRASHES:
            try:
                if self._incarnation():
                    return
            except SimulatedDeath:
                self._died()
            if self.idle >= self.no_progress:
                payload = {"id": self.world.ids.new("i"), "reason": "crash_loop", "mode": "now"}
                append_input(self.log, (Draft("pause_requested", payload),), self.clock, self.world.ids)
                return

    def _incarnation(self) -> bool:
        """One harness; whether the session rests."""
        self.idle += 1
        timing = self.world.timing
        timing.woken()
        self.clock.advance(timing.draw(("harness_woken", "crash" if self.deaths else "start")))
        self.world.subject.fresh_process()
        rig = self.world.wake(SESSION)
        rig.recorder.landed.add(self._landed)
        while self.clock.now_us() < self.until_us:
            command = turn(rig, lambda command: self._before(command, rig))
            if isinstance(command, Rest):
                return True
        return True

    def _before(self, command: Command, rig: Rig) -> None:
        self.world.timing.begin(command)
        if self.poison is None or isinstance(command, Rest):
            return
        if rig.recorder.committed.seq >= self.poison.at_event and (
            self.poison.kills is None or self.kills < self.poison.kills
        ):
            self.kills += 1
            raise SimulatedDeath("a poison event")

    def _landed(self, events: Sequence[Event]) -> None:
        if self.idle and any(is_work(event) for event in events):
            self.idle = 0

    def _died(self) -> None:
        self.deaths += 1
        now = self.clock.now_us()
        if now == self.clock.next_us:
            self.clock.draw()
        if self.crashes.target == "both":
            self._kill_sandboxes()
        self._mark("harness")

    def _sandbox_died(self) -> None:
        if self._kill_sandboxes():
            self._mark("sandbox")

    def _kill_sandboxes(self) -> bool:
        living = self.world.sandboxes.alive()
        for box in living:
            self.world.sandboxes.kill(box)
        return bool(living)

    def _mark(self, target: str) -> None:
        mark = {
            "id": self.world.ids.new("i"), "fault": "drawn", "target": target, "action": "kill", "at_us": self.clock.now_us(),
        }  # fmt: skip
        append_input(self.log, (Draft("fault_injected", mark),), self.clock, self.world.ids)
