"""A simulated world that can be copied in the middle: log, blobs, sandboxes, outside, all counted.

Clock and ids of a new incarnation follow from the log alone, so that equal durable states go on equally.
"""

from __future__ import annotations

from typing import Any

from agentlab.clock import ManualClock
from agentlab.definition import Definition
from agentlab.events import Draft, Event, Head, seal
from agentlab.explorer.misbehaving import SimulatedMisbehavingModel, called
from agentlab.explorer.mortal import Life, Mortal
from agentlab.explorer.outside import Outside
from agentlab.explorer.subject import SESSION, Subject
from agentlab.explorer.troubles import Trouble
from agentlab.harness.recorder import Recorder
from agentlab.harness.rig import Rig
from agentlab.harness.simulation import SimulatedWorld
from agentlab.ids import CountedIds
from agentlab.log.claims import MemoryClaims
from agentlab.log.memory import MemoryLog, MemoryStore
from agentlab.log.parquet import GROUP_SIZE
from agentlab.ports import Execution, Log, ToolInvocation, ToolOutcome
from agentlab.sandbox.simulated import SimulatedSandboxes
from agentlab.session.decide import Run
from agentlab.session.state import State
from agentlab.toolhost.invoking import role_of
from agentlab.toolhost.outcome import execution_for

Version = tuple[Any, ...]


class World(SimulatedWorld):
    """One world of an exploration. ``acked`` is the newest head that an append acknowledged to a harness."""

    def __init__(self, subject: Subject, store: MemoryStore, outside: Outside) -> None:
        super().__init__(lambda definition: subject.model, subject.resolve, store)
        self.subject, self.outside = subject, outside
        self.host = subject.host
        self.sandboxes = SimulatedSandboxes(store.blobs, subject.runner)
        self._definitions = {SESSION: subject.definition}
        self.claims: MemoryClaims = MemoryClaims()
        self.acked = Head(0, "")
        self.touches = 0
        """Calls to sandbox ports so far: a sandbox that dies between two of them dies the same death."""
        self.asked = 0
        """Model calls that were really made."""
        self.complaints: list[str] = []
        self.before: State | None = None
        """The durable state as the harness that died knew it."""
        self.zombie = False
        """A harness that was replaced goes on here: it no longer knows what is registered."""
        self.wrong: tuple[Trouble, ...] = ()
        """What has misbehaved so far."""
        self.life = Life()
        self.recorder: Recorder | None = None
        self.wakes = 0

    @classmethod
    def fresh(cls, subject: Subject) -> World:
        """A world in which the task is accepted and nothing was done yet."""
        world = cls(subject, subject.store.copy(), Outside())
        world.accept(subject.definition, SESSION)
        world.acked = world.log.head()
        return world

    @property
    def log(self) -> MemoryLog:
        """The session's log."""
        log: MemoryLog = self.store.open(SESSION)  # type: ignore[assignment]
        return log

    def copy(self) -> World:
        """An independent world in the same durable state; what is only in a harness's memory stays behind."""
        store: MemoryStore = self.store.copy()  # type: ignore[attr-defined]
        other = World(self.subject, store, self.outside.copy())
        other.sandboxes = self.sandboxes.copy(store.blobs)
        other._accepted, other.claims = self._accepted, self.claims.copy()
        other.acked, other.complaints = self.acked, list(self.complaints)
        other.before = self.recorder.committed if self.recorder is not None else self.before
        other.wakes, other.asked, other.wrong = self.wakes, self.asked, self.wrong
        return other

    def version(self) -> Version:
        """A value that changes whenever the durable state does, within one run."""
        log = self.log
        boxes = tuple(
            (b.alive, b.confirmed, b.highest, len(b.results), len(b.acknowledged), b.last, id(b.workspace))
            for b in self.sandboxes._boxes.values()
        )
        blobs: Any = self.store.blobs
        outside = (self.outside.requests, len(self.outside.notes), len(self.claims._claims))
        return (log._length, log._synced, len(log._pointers), len(blobs._data), outside, boxes)

    def lose_power(self) -> int:
        """What was not synced is gone, and every sandbox with it; returns how many acknowledged events were lost."""
        self.log.forget_unsynced()
        self.kill_sandboxes()
        return max(0, self.acked.seq - self.log.head().seq)

    def kill_sandboxes(self) -> bool:
        """Kill every living sandbox; whether there was one."""
        living = self.sandboxes.alive()
        for name in living:
            self.sandboxes.kill(name)
        return bool(living)

    # --- incarnations ---

    def begin(self) -> None:
        """A new process: clock and ids that follow from the log, globals as imported."""
        head = next(iter(self.log.replay(self.log.head().seq)))
        self.clock = ManualClock(head.ts + 1_000_000, tick_us=10)
        self.ids = CountedIds(head.seq * 100)
        self.life, self.wakes = Life(), self.wakes + 1
        self.enter()
        self.subject.fresh_process()

    def ask_to_go_on(self) -> None:
        """A person wakes a session that rests, as ``%agent wake`` does."""
        head = self.log.head()
        newest = next(iter(self.log.replay(head.seq)))
        asked = Draft("resume_requested", {"id": f"i-{head.seq}", "mode": "run"})
        events = seal(
            (asked,), head, session_id=SESSION, incarnation=newest.incarnation, commit_id=f"k-{head.seq}",
            now_us=newest.ts + 1_000_000,
        )  # fmt: skip
        self.log.append(events, head.seq + 1)
        self.log.flush()

    def enter(self) -> None:
        """Make this world the one that tools act in."""
        self.outside.incarnation = self.wakes
        self.subject.outside = self.outside

    def _rig(self, log: Log, recorder: Recorder, definition: Definition) -> Rig:
        life, host = self.life, self._host_of(self.life)
        mortal_log: Any = Mortal(_Acknowledging(self, log), "log", life)
        recorder._log = mortal_log
        self.recorder = recorder
        sandboxes: Any = Mortal(self.sandboxes, "sandboxes", life, self._touched)
        asked = SimulatedMisbehavingModel(self.model_of(definition), self._sleep)
        model: Any = Mortal(asked, "model", life, self._asked)
        rig = Rig(
            run=Run.of(definition),
            log=mortal_log,
            blobs=self.store.blobs,
            recorder=recorder,
            model=model,
            sandboxes=sandboxes,
            toolhost=host,
            clock=self.clock,
            ids=self.ids,
            execution_for=_execution,
        )
        recorder.landed.add(rig.keep)
        return rig

    def _asked(self) -> None:
        self.asked += 1

    def _sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def _touched(self) -> None:
        self.touches += 1

    def _host_of(self, life: Life) -> Any:
        return Mortal(_Host(self), "toolhost", life)


class _Acknowledging:
    """The log of an incarnation; remembers what was acknowledged to it."""

    def __init__(self, world: World, log: Log) -> None:
        self._world, self._log = world, log
        for name in ("replay", "poll", "head", "put_pointer", "pointers", "seal", "follow"):
            setattr(self, name, getattr(log, name))
        self.session_id = log.session_id
        self._durability, self._unflushed = world.log.durability, 0

    def append(self, events: list[Event], expected_seq: int) -> None:
        self._log.append(events, expected_seq)
        self._world.acked = Head(events[-1].seq, events[-1].hash)
        self._unflushed += 1
        if self._durability == "group" and self._unflushed >= GROUP_SIZE:
            self.flush()

    def flush(self) -> None:
        self._unflushed = 0
        if self._durability != "process":  # a session that promises nothing under power loss syncs nothing
            self._log.flush()


class _Host:
    """The tool host of a world: counts what external tools do outside, and looks whether they may."""

    def __init__(self, world: World) -> None:
        self._world = world

    def call(self, invocation: ToolInvocation) -> ToolOutcome:
        world = self._world
        tool = self._external(invocation)
        if tool is None:
            return self._called(invocation)[0]
        may = registered(world.log, str(invocation.key))
        if may and not world.zombie:
            world.complaints.append(f"effects: {tool} was executed {may} (key {invocation.key})")
        requests = world.outside.requests
        outcome, done = self._called(invocation)
        if done and outcome.sent and world.outside.requests == requests:
            # A function that does not say what it does outside: each execution counts, equal keys once where honoured.
            honoured = world.subject.honours_key(world.subject.tools[tool])
            operation = f"{tool} {sorted(invocation.arguments.items())}"
            world.outside.execute(operation, str(invocation.key) if honoured else "")
        return outcome

    def close(self) -> None:
        """Nothing to end."""

    def _called(self, invocation: ToolInvocation) -> tuple[ToolOutcome, bool]:
        """The outcome, and whether the tool began at its work."""
        if invocation.misdeed is None:
            return self._world.subject.host.call(invocation), True
        return called(invocation, self._world.subject.host.call, self._world._sleep)

    def _external(self, invocation: ToolInvocation) -> str | None:
        if invocation.key is None or role_of(invocation.call_id) != "tool":
            return None
        for tool in self._world.subject.tools.values():
            if tool.effect == "external" and tool.ref is not None and tool.ref == invocation.ref:
                return tool.name
        return None


def registered(log: MemoryLog, key: str) -> str:
    """Why an effect with ``key`` may not be executed now by what is durable; empty when it may."""
    open_tries = 0
    for event in log.replay(1):
        if event.effect_key != key and event.payload.get("key") != key:
            continue
        if event.type == "effect_pending":
            open_tries += 1
        elif event.type in ("effect_verified", "effect_failed", "effect_settled"):
            open_tries = 0
        elif event.type == "effect_completed":
            return "although it is recorded as completed"
    if open_tries == 0:
        return "before it was registered"
    return "" if open_tries == 1 else "again without being verified"


_executions: dict[str, Execution] = {}


def _execution(invocation: ToolInvocation) -> Execution:
    identity = repr((invocation.call_id, invocation.ref, invocation.arguments, invocation.params, invocation.misdeed))
    found = _executions.get(identity)
    if found is None:
        if len(_executions) > 10_000:
            _executions.clear()
        found = _executions[identity] = execution_for(invocation, None)
    return found
