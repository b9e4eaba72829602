"""The simulated world: the very same harness over a memory store, simulated sandboxes and a clock turned by hand.

One process, no files that outlive a command, everything deterministic: thousands of sessions or crash schedules a
minute. Sandboxed tools really run, in a temporary folder that holds the simulated workspace; equal commands on
equal workspaces run once and are remembered.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentlab.clock import ManualClock
from agentlab.definition import Definition, from_json, with_model
from agentlab.events import GENESIS, Draft, digest, resolve
from agentlab.harness.assembly import definition_of, open_incarnation, started
from agentlab.harness.baseline import baseline, budget_field
from agentlab.harness.loop import run as run_loop
from agentlab.harness.recorder import Recorder
from agentlab.harness.redact import Redactor
from agentlab.harness.rig import Rig
from agentlab.harness.wake import Loaded, load, opening, wake_reason
from agentlab.ids import CountedIds
from agentlab.log.claims import MemoryClaims
from agentlab.log.memory import MemoryStore
from agentlab.ports import EffectClaims, Execution, Log, LogStore, Model, ToolInvocation, ToolOutcome
from agentlab.sandbox.simulated import Outcome, SimulatedSandboxes, Workspace
from agentlab.session.decide import Run
from agentlab.session.state import State
from agentlab.toolhost.inprocess import InProcessToolHost
from agentlab.toolhost.outcome import execution_for
from agentlab.toolhost.wire import RESULT_PREFIX

Resolve = Callable[[Mapping[str, Any]], Callable[..., Any]]
ModelOf = Callable[[Definition], Model]


def load_dotted(ref: Mapping[str, Any]) -> Callable[..., Any]:
    """The callable of a dotted reference, imported here."""
    from agentlab.portable import load as load_ref

    found: Callable[..., Any] = load_ref(ref, lambda digest: b"")
    return found


class FolderRunner:
    """Runs sandbox commands of Python tools in this process, in a temporary folder that holds the workspace."""

    def __init__(self, host: InProcessToolHost) -> None:
        self._host = host
        self._known: dict[str, tuple[Outcome, Workspace]] = {}

    def __call__(self, execution: Execution, workspace: Workspace) -> tuple[Outcome, Workspace]:
        identity = digest(json.dumps([execution.stdin, _contents(workspace)]))
        found = self._known.get(identity)
        if found is None:
            found = self._known[identity] = self._run(execution, workspace)
        return found

    def _run(self, execution: Execution, workspace: Workspace) -> tuple[Outcome, Workspace]:
        request = json.loads(execution.stdin)
        invocation = ToolInvocation(
            "simulated", request["ref"], request["arguments"], params=request.get("params") or {}
        )
        before = os.getcwd()
        with tempfile.TemporaryDirectory(prefix="agentlab-sim-") as folder:
            for name, data in workspace.items():
                if not name.startswith("@"):
                    path = Path(folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
            os.chdir(folder)
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    outcome = self._host.call(invocation)
            finally:
                os.chdir(before)
            after = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}
        return Outcome(stdout=outcome.stdout + result_line(outcome)), after


def result_line(outcome: ToolOutcome) -> str:
    """The line by which a command in a sandbox says what its tool gave."""
    fields = ("ok", "value", "kind", "error_type", "message", "traceback", "sent")
    return RESULT_PREFIX + json.dumps({name: getattr(outcome, name) for name in fields}) + "\n"


def _contents(workspace: Workspace) -> list[tuple[str, str]]:
    import hashlib

    return sorted((name, hashlib.sha256(data).hexdigest()) for name, data in workspace.items())


@dataclass
class SimulatedWorld:
    """Store, sandboxes, outside and clock of simulated sessions."""

    model_of: ModelOf
    resolve: Resolve = load_dotted
    store: LogStore = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=lambda: ManualClock(tick_us=10))
    ids: CountedIds = field(default_factory=CountedIds)
    claims: EffectClaims = field(default_factory=MemoryClaims)

    def __post_init__(self) -> None:
        self.host = InProcessToolHost(self.resolve)
        self.sandboxes = SimulatedSandboxes(self.store.blobs, FolderRunner(self.host))
        self._definitions: dict[str, Definition] = {}
        self._accepted: tuple[Definition, dict[str, Any]] | None = None

    def accept(self, definition: Definition, session_id: str) -> None:
        """Put a task into the log."""
        log = self.store.create(session_id, definition.durability)
        if self._accepted is None or self._accepted[0] is not definition:
            data = definition.to_json()
            payload = {
                "definition": data,
                "baseline": baseline(definition),
                "input": {"goal": definition.goal, "task": definition.task},
                "steps": data["steps"],
                "limits": data["limits"],
                "guard": data["guard"],
                "context": data["context"],
                **budget_field(definition),
            }
            self._accepted = (definition, payload)
        payload = self._accepted[1]
        self._definitions[session_id] = definition
        recorder = Recorder(log, self.store.blobs, State(hash=GENESIS), 0, self.clock, self.ids, Redactor({}))
        recorder.commit((Draft("session_started", payload),))
        if definition.durability == "group":
            log.flush()

    def wake(self, session_id: str, *, takeover: bool = False, death: Mapping[str, Any] | None = None) -> Rig:
        """Open an incarnation of a session and put its rig together."""
        log = self.store.open(session_id)
        blobs = self.store.blobs
        loaded = load(log, blobs, self.clock)
        definition = self._definitions.get(session_id)
        if definition is None or loaded.state.control.resume_model:
            definition, _ = definition_of(log, blobs, loaded.state)
        current = self._baseline(definition)

        def recorder_of(state: State, incarnation: int) -> Recorder:
            return Recorder(log, blobs, state, incarnation, self.clock, self.ids, Redactor({}))

        def drafts_of(now: Loaded) -> list[Draft]:
            process = {"host": "simulated", "boot_id": "simulated", "pid": now.state.incarnation + 1, "start_time": "0"}
            return opening(
                now,
                process=process,
                baseline=current,
                reason=wake_reason(now.state, takeover),
                death=death,
                marks=(),
                death_id=self.ids.new("d"),
            )

        recorder, loaded = open_incarnation(log, blobs, loaded, recorder_of, drafts_of, takeover=True, clock=self.clock)
        rig = self._rig(log, recorder, definition)
        rig.load_ms = loaded.duration_ms
        rig.store, rig.claims = self.store, self.claims
        rig.keep(loaded.tail)
        return rig

    def _baseline(self, definition: Definition) -> Mapping[str, Any]:
        if self._accepted is not None and self._accepted[0] is definition:
            found: Mapping[str, Any] = self._accepted[1]["baseline"]
            return found
        return baseline(definition)

    def forget(self, rig: Rig) -> Rig:
        """The same incarnation with nothing remembered: rebuilt from the log, the sandbox taken up by its record.

        What a harness keeps beside the log is only a cache; whoever runs with this after every command proves it.
        """
        loaded = load(rig.log, self.store.blobs)
        recorder = Recorder(
            rig.log, self.store.blobs, loaded.state, loaded.state.incarnation, self.clock, self.ids, Redactor({})
        )
        again = self._rig(rig.log, recorder, rig.run.definition)
        sandbox = loaded.state.sandbox
        if sandbox.status in ("ready", "provisioned"):
            again.sandbox = self.sandboxes.attach(sandbox.record, recorder.incarnation, rig.run.definition.resources)
        return again

    def _rig(self, log: Log, recorder: Recorder, definition: Definition) -> Rig:
        rig = Rig(
            run=Run.of(definition),
            log=log,
            blobs=self.store.blobs,
            recorder=recorder,
            model=self.model_of(definition),
            sandboxes=self.sandboxes,
            toolhost=self.host,
            clock=self.clock,
            ids=self.ids,
            execution_for=lambda invocation: execution_for(invocation, None),
            model_named=lambda name: self.model_of(with_model(definition, name)),
        )
        recorder.landed.add(rig.keep)
        return rig

    def run(self, session_id: str) -> str:
        """Wake a session and drive it until it rests; returns why."""
        state = load(self.store.open(session_id), self.store.blobs).state
        if state.control.status == "ended":
            self.sandboxes.kill(state.sandbox.sandbox_id)
            return "ended"
        return run_loop(self.wake(session_id))

    def definition(self, session_id: str) -> Definition:
        """What a session runs."""
        first = started(self.store.open(session_id))
        assert first is not None
        return from_json(resolve(dict(first.payload["definition"]), self.store.blobs.get))
