"""Putting an incarnation together from the log: definition, model, sandbox provider, tool host, recorder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.clock import Clock, SystemClock
from agentlab.crashpoints import CrashPoint, reach
from agentlab.definition import Definition, from_json, with_model
from agentlab.errors import Conflict, SessionBusy, UserError
from agentlab.events import Draft, Event, resolve
from agentlab.faults.arming import Arming
from agentlab.faults.spec import fault_from_json
from agentlab.harness import pooling, queueing
from agentlab.harness.baseline import baseline, changed_sources
from agentlab.harness.lazymodel import LazyModel
from agentlab.harness.loop import run as run_loop
from agentlab.harness.misbehaving import MisbehavingModel
from agentlab.harness.recorder import Recorder
from agentlab.harness.redact import Redactor
from agentlab.harness.rig import Rig
from agentlab.harness.trust import require_trust
from agentlab.harness.wake import Loaded, load, opening, wake_reason
from agentlab.ids import RandomIds
from agentlab.keeperlink import KeeperLink, KeeperSpawner
from agentlab.log.claims import FileClaims
from agentlab.log.store import ParquetStore
from agentlab.pool.budget import PoolBudget
from agentlab.pool.folder import PoolFolder
from agentlab.pool.queue import SessionQueue
from agentlab.ports import Blobs, Log
from agentlab.session.commands import Command, Rest
from agentlab.session.decide import Run
from agentlab.session.state import State

WORK_EVENTS = frozenset(
    {"model_response", "tool_result", "tool_error", "effect_completed", "step_completed", "step_validated",
     "task_validated", "session_ended"}
)  # fmt: skip
"""Events that count as work. A request is none: a harness that dies in every model call would be restarted for ever."""


def is_work(event: Event) -> bool:
    """Whether the session got further by this event; what a recovery itself asks the model does not count."""
    return event.type in WORK_EVENTS and event.payload.get("purpose") != "statement"


LINGER_S = 900.0
"""Seconds that a harness in single-step mode waits for its next step before it leaves."""


@dataclass
class Incarnation:
    """One harness, assembled: run it, then close it."""

    rig: Rig
    arming: Arming | None
    close_all: Callable[[], None]

    def run(self) -> str:
        """Drive the session until it rests. Between single steps the harness stays and waits for the next one."""
        while True:
            queueing.enter(self.rig)
            pooling.enter(self.rig)
            why = run_loop(self.rig, self._before)
            queueing.leave(self.rig)
            if not (why == "paused" and self.rig.state.control.reason == "step" and self._resumed()):
                return why

    def _resumed(self) -> bool:
        clock, recorder = self.rig.clock, self.rig.recorder
        deadline = clock.monotonic() + LINGER_S
        while clock.monotonic() < deadline:
            recorder.poll()
            if recorder.state.control.status != "paused":
                return True
            clock.sleep(0.02)
        return False

    def close(self) -> None:
        """Give back the tool host and the link; the sandbox stays."""
        self.close_all()

    def _before(self, command: Command) -> None:
        if self.arming is None or isinstance(command, Rest):
            return
        state, clock = self.rig.state, self.rig.clock
        step = state.plan.current if state.plan.started else 0
        if state.faults:  # some may have been armed while it runs
            self.arming.add([fault_from_json(f) for f in state.faults])
        self.arming.observe(self.rig.recorder.committed.seq, step, (clock.now_us() - state.started_ts) / 1e6)
        struck, self.arming.struck = self.arming.struck, []
        if struck:
            self.rig.recorder.stage([Draft("fault_injected", mark) for mark in struck])


def started(log: Log) -> Event | None:
    """A session's own ``session_started``, None when it was never written."""
    seq = log.base.seq + 1
    return next(iter(log.replay(seq, seq)), None)


def definition_of(log: Log, blobs: Blobs, state: State) -> tuple[Definition, Mapping[str, Any]]:
    """The definition a session runs under (another model if a resume asked for one), and ``session_started``'s payload.

    Raises:
        BadDefinition: made by a newer agentlab.
    """
    first = started(log)
    if first is None:
        raise UserError(
            f"session {log.session_id!r} was never accepted: who began it died before its task was written; begin another one"
        )
    definition = from_json(resolve(dict(first.payload["definition"]), blobs.get))
    if state.control.resume_model:
        definition = with_model(definition, state.control.resume_model)
    return definition, first.payload


def refuse_if_busy(state: State, takeover: bool) -> None:
    """Refuse to open a second harness while one is alive.

    Raises:
        SessionBusy: another harness is alive, or on another host where nobody can tell.
    """
    if takeover or not state.incarnation or not state.process or state.control.status == "ended":
        return
    if int(state.process.get("pid", 0)) == os.getpid():
        return
    alive = process.liveness(state.process)
    if alive == "alive":
        raise SessionBusy(
            f"session {state.session_id!r} has a living harness (pid {state.process['pid']}): pause or kill it, or take over"
        )
    if alive == "unknown" and not state.control.rested:
        raise SessionBusy(
            f"session {state.session_id!r} was last driven on host {state.process.get('host')!r}: nobody can tell here whether"
            " that harness lives; end it there, then take over"
        )


def open_incarnation(
    log: Log,
    blobs: Blobs,
    loaded: Loaded,
    recorder_of: Callable[[State, int], Recorder],
    drafts_of: Callable[[Loaded], Sequence[Draft]],
    takeover: bool,
    clock: Clock | None = None,
) -> tuple[Recorder, Loaded]:
    """Append the opening; on a lost race read again, and refuse when somebody else opened.

    Raises:
        SessionBusy: another harness opened first.
    """
    while True:
        refuse_if_busy(loaded.state, takeover)
        recorder = recorder_of(loaded.state, loaded.state.incarnation + 1)
        recorder.stage(drafts_of(loaded))
        try:
            recorder.commit_opening()
        except Conflict:
            loaded = load(log, blobs, clock)
            continue
        reach(CrashPoint.WAKE, "after")
        return recorder, loaded


def assemble(
    lab: Path,
    session_id: str,
    *,
    link: KeeperLink | None = None,
    death: Mapping[str, Any] | None = None,
    takeover: bool = False,
    trust: bool = False,
    arming: Arming | None = None,
    clock: Clock | None = None,
) -> Incarnation | None:
    """Load a session, open an incarnation, and put together what it works with.

    None when the session has ended: then only a sandbox that its last harness could not give back is ended.

    Raises:
        SessionBusy: another harness is alive.
        NotTrusted: it would run pickled code of another owner.
        LogCorrupt, CheckpointTooNew, BadDefinition: what was recorded can not be read.
    """
    clock = clock or SystemClock()
    store = ParquetStore(lab)
    log, blobs, ids = store.open(session_id), store.blobs, RandomIds()
    loaded = load(log, blobs, clock)
    if loaded.state.control.status == "ended":
        _give_back(loaded.state)
        return None
    definition, started = definition_of(log, blobs, loaded.state)
    dump = require_trust(started, blobs, trust)
    run = Run.of(definition)
    redactor = Redactor.from_environment(os.environ)
    current = baseline(definition, sources_changed=changed_sources(definition))

    def recorder_of(state: State, incarnation: int) -> Recorder:
        return Recorder(log, blobs, state, incarnation, clock, ids, redactor)

    def drafts_of(now: Loaded) -> list[Draft]:
        return opening(
            now,
            process=process.identify(),
            baseline=current,
            reason=wake_reason(now.state, takeover),
            death=_death(death, now.state),
            marks=_marks(arming, now.state),
            death_id=ids.new("d"),
        )

    recorder, loaded = open_incarnation(log, blobs, loaded, recorder_of, drafts_of, takeover, clock)
    rig, close = _rig(lab, store, log, recorder, run, dump, link, clock)
    rig.load_ms = loaded.duration_ms
    rig.store, rig.claims = store, FileClaims(lab)
    rig.known_dead = lambda record: process.liveness(record) == "dead"
    rig.keep(loaded.tail)
    recorder.landed.add(rig.keep)
    if link is not None:
        _tell(link, recorder)
    if arming is not None:
        # One that is being provisioned is on no record yet, and dies all the same.
        arming.watch(lambda: getattr(rig.sandboxes, "started", None) or rig.state.sandbox.record)
        arming.add([fault_from_json(f) for f in rig.state.faults])
    return Incarnation(rig, arming, close)


def _rig(
    lab: Path,
    store: ParquetStore,
    log: Log,
    recorder: Recorder,
    run: Run,
    dump: str | None,
    link: KeeperLink | None,
    clock: Clock,
) -> tuple[Rig, Callable[[], None]]:
    from agentlab.sandbox.local import LocalSandboxes
    from agentlab.sandbox.spawn import DirectSpawner
    from agentlab.toolhost.client import ProcessToolHost
    from agentlab.toolhost.outcome import execution_for

    spawner = KeeperSpawner(link) if link is not None else DirectSpawner()
    owner = link.keeper if link is not None else None
    sandboxes = LocalSandboxes(lab, store.blobs.root, spawner, clock, owner=owner)
    toolhost = ProcessToolHost(store.blobs.root, cwd=_folder(lab))
    rig = Rig(
        run=run,
        log=log,
        blobs=store.blobs,
        recorder=recorder,
        model=MisbehavingModel(LazyModel(run.definition, store.blobs, clock, toolhost, store.blobs.root, store)),
        sandboxes=sandboxes,
        toolhost=toolhost,
        clock=clock,
        ids=RandomIds(),
        execution_for=lambda invocation: execution_for(invocation, dump),
        queue=_queue(lab, log.session_id, owner, clock),
        pool=_pool(lab, log.session_id, store, clock),
        model_named=lambda name: LazyModel(
            with_model(run.definition, name), store.blobs, clock, toolhost, store.blobs.root, store
        ),
    )
    return rig, toolhost.close


def _queue(lab: Path, session_id: str, keeper: Mapping[str, Any] | None, clock: Clock) -> SessionQueue:
    ids = RandomIds()
    return SessionQueue(PoolFolder(lab, clock, ids).journal, session_id, process.identify(), keeper, clock, ids)


def _pool(lab: Path, session_id: str, store: ParquetStore, clock: Clock) -> PoolBudget:
    ids = RandomIds()
    return PoolBudget(PoolFolder(lab, clock, ids).journal, session_id, ids, pooling.unused(store, clock), clock)


def _folder(lab: Path) -> str:
    """Where tools run: the folder that this process was started in, the lab where that is gone."""
    try:
        return os.getcwd()
    except OSError:
        return str(lab)


def _give_back(state: State) -> None:
    from agentlab.sandbox.killing import kill_sandbox

    if state.sandbox.record and process.liveness(state.sandbox.record) == "alive":
        reach(CrashPoint.SANDBOX_DESTROY, "before", state.sandbox.sandbox_id)
        kill_sandbox(state.sandbox.record)
        reach(CrashPoint.SANDBOX_DESTROY, "after", state.sandbox.sandbox_id)


def _tell(link: KeeperLink, recorder: Recorder) -> None:
    def landed(events: Sequence[Event]) -> None:
        work = any(is_work(event) for event in events)
        link.progress(events[-1].seq, recorder.state.control.status, work, recorder.incarnation)

    recorder.landed.add(landed)
    link.progress(recorder.committed.seq, recorder.state.control.status, False, recorder.incarnation)


def _death(death: Mapping[str, Any] | None, state: State) -> dict[str, Any] | None:
    """The keeper's notice as the fields of ``harness_died``; only if it speaks of the newest incarnation."""
    if death is None or not state.process or death.get("pid") != state.process.get("pid"):
        return None
    return {k: death.get(k) for k in ("pid", "signal", "exit_code")}


def _marks(arming: Arming | None, state: State) -> list[Draft]:
    if arming is None:
        return []
    armed = {fault.get("id") for fault in state.faults}
    fresh = [m for m in arming.marks() if m["fault"] in armed or m["id"] not in state.control.seen]
    return [Draft("fault_injected", mark) for mark in fresh]


def state_at(log: Log, blobs: Blobs) -> State:
    """The folded state of a session as of now, for readers."""
    return load(log, blobs).state
