"""Simulated runs: the very harness over a memory store, a clock that crashes, latencies from a distribution."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentlab.comparing.latencies import Latencies, about
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
    Completed,
    Execution,
    Log,
    ModelReply,
    ModelRequest,
    Resources,
    Snapshot,
    ToolInvocation,
    ToolOutcome,
)
from agentlab.sandbox.simulated import SimulatedSandbox, SimulatedSandboxes
from agentlab.session.commands import Command, Rest

SESSION = "simulated"
TARGETS = ("both", "harness", "sandbox")
NO_PROGRESS = 3
"""Deaths in a row without work after which nobody restarts the harness: the keeper's rule."""
MOST_CRASHES = 10_000
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


class _TimedRecorder(Recorder):
    timing: Timing

    def stage(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            self.timing.staged(draft.type, about(draft.type, draft.tool_name, draft.payload))
            super().stage((draft,))


class _TimedModel:
    def __init__(self, model: Any, timing: Timing) -> None:
        self._model, self._timing = model, timing
        self.name, self.params = model.name, model.params

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        reply: ModelReply = self._timing.around("", self._model.complete, request, on_text)
        return reply


class _TimedHost:
    def __init__(self, host: Any, timing: Timing) -> None:
        self._host, self._timing = host, timing

    def call(self, invocation: ToolInvocation) -> ToolOutcome:
        outcome: ToolOutcome = self._timing.around("", self._host.call, invocation)
        return outcome

    def close(self) -> None:
        """Nothing to end."""


class _TimedSandbox:
    """A sandbox whose commands take their time; the rest of it passes through."""

    def __init__(
        self, box: SimulatedSandbox, boxes: SimulatedSandboxes, timing: Timing, tool_of: Callable[[str], str]
    ) -> None:
        self._box, self._boxes, self._timing, self._tool_of = box, boxes, timing, tool_of
        for name in ("confirm", "finished", "acknowledge", "read_file", "destroy"):
            setattr(self, name, getattr(box, name))

    @property
    def sandbox_id(self) -> str:
        return self._box.sandbox_id

    @property
    def record(self) -> Mapping[str, Any]:
        return self._box.record

    def execute(self, exec_id: str, execution: Execution) -> Completed:
        again = (".again" in exec_id) or None
        key = ("execution_rerun", self._tool_of(execution.stdin)) if again else None
        done, seconds = self._timing.execution(
            self._box.sandbox_id,
            exec_id,
            lambda: self._box.execute(exec_id, execution),
            lambda: self._boxes.living(self._box.sandbox_id),
            key,
        )
        completed: Completed = replace(done, duration_ms=round(seconds * 1000, 3))
        return completed

    def snapshot(self) -> Snapshot:
        taken: Snapshot = self._timing.around("snapshot_taken", self._box.snapshot)
        return taken

    def restore(self, digest: str) -> None:
        self._timing.around("sandbox_restored", self._box.restore, digest)

    def put_files(self, files: Mapping[str, str]) -> None:
        self._timing.around("sandbox_restored", self._box.put_files, files)


class _TimedSandboxes:
    def __init__(self, boxes: SimulatedSandboxes, timing: Timing, tool_of: Callable[[str], str]) -> None:
        self._boxes, self._timing, self._tool_of = boxes, timing, tool_of

    def provision(self, session_id: str, incarnation: int, resources: Resources) -> _TimedSandbox:
        return self._timed(
            self._timing.around("sandbox_ready", self._boxes.provision, session_id, incarnation, resources)
        )

    def attach(self, record: Mapping[str, Any], incarnation: int, resources: Resources) -> _TimedSandbox:
        return self._timed(self._timing.around("sandbox_attached", self._boxes.attach, record, incarnation, resources))

    def _timed(self, box: SimulatedSandbox) -> _TimedSandbox:
        return _TimedSandbox(box, self._boxes, self._timing, self._tool_of)


class _World(SimulatedWorld):
    """One session's world, with everything that takes time on the run's clock."""

    def __init__(self, subject: Subject, timing: Timing) -> None:
        super().__init__(lambda definition: subject.model, subject.resolve, subject.store.copy(), timing.clock)
        self.subject, self.timing = subject, timing
        self.host = subject.host
        self.sandboxes = SimulatedSandboxes(self.store.blobs, subject.runner)
        self._tools = {str(t.ref["name"]): t.name for t in subject.definition.tools if t.ref is not None}
        self._definitions[SESSION] = subject.definition

    def _rig(self, log: Log, recorder: Recorder, definition: Definition) -> Rig:
        timed = _TimedRecorder(
            log, self.store.blobs, recorder.state, recorder.incarnation, self.clock, self.ids, Redactor({})
        )
        timed.timing = self.timing
        rig = super()._rig(log, timed, definition)
        sandboxes: Any = _TimedSandboxes(self.sandboxes, self.timing, self._tool_of)
        rig.model, rig.toolhost, rig.sandboxes = (
            _TimedModel(rig.model, self.timing),
            _TimedHost(self.host, self.timing),
            sandboxes,
        )
        return rig

    def _tool_of(self, stdin: str) -> str:
        name = stdin.partition('"name": "')[2].partition('"')[0] or stdin.partition('"name":"')[2].partition('"')[0]
        return self._tools.get(name, "")


class Simulation:
    """Simulated sessions of one task under one condition; what is the same in all of them is made once."""

    def __init__(self, task: Any, latencies: Latencies, *, model: Any = None, **overrides: Any) -> None:
        self.subject = Subject(task, model, **overrides)
        self.latencies = latencies
        self._accepted: Any = None

    def run(self, crashes: Crashes, seed: int, limit_s: float = 1e9, no_progress: int = NO_PROGRESS) -> list[Event]:
        """The events of one session under the crashes of ``seed``; ends when it rests, or at ``limit_s`` on its clock.

        After ``no_progress`` deaths in a row without work it ends in a crash loop.
        """
        with _one_at_a_time:
            clock = CrashClock(crashes.times(seed))
            timing = Timing(clock, self.latencies, seed)
            world = _World(self.subject, timing)
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
