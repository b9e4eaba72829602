"""The rig: what one incarnation of a harness works with. Nothing in it can not be rebuilt from the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentlab.clock import Clock
from agentlab.definition import StepSpec, ToolSpec
from agentlab.errors import SandboxGone
from agentlab.events import Event, Fixed, FixedList, resolve
from agentlab.harness.recorder import Recorder
from agentlab.ids import Ids
from agentlab.ports import (
    Blobs,
    EffectClaims,
    Execution,
    Log,
    LogStore,
    Model,
    Pool,
    Queue,
    Sandbox,
    Sandboxes,
    ToolHost,
    ToolInvocation,
)
from agentlab.session.decide import Run
from agentlab.session.state import Call, State

Wait = Callable[[int], None]


@dataclass
class Rig:
    """Ports and caches of one incarnation. ``execution_for`` turns a Python tool into a sandbox command."""

    run: Run
    log: Log
    blobs: Blobs
    recorder: Recorder
    model: Model
    sandboxes: Sandboxes
    toolhost: ToolHost
    clock: Clock
    ids: Ids
    execution_for: Callable[[ToolInvocation], Execution]
    queue: Queue | None = None
    pool: Pool | None = None
    on_text: Callable[[str], None] | None = None
    sandbox: Sandbox | None = None
    events: dict[int, Event] = field(default_factory=dict)
    unacknowledged: list[str] = field(default_factory=list)
    shown: dict[tuple[int, int], list[Fixed]] = field(default_factory=dict)
    fixed: tuple[FixedList, FixedList] | None = None
    fixed_chars: int = 0
    """Characters of the fixed layer."""
    task: tuple[Mapping[str, str], Fixed] | None = None
    """The task layer as rendered last, and the anchors that it shows."""
    terms: dict[int, tuple[frozenset[str], int]] = field(default_factory=dict)
    """Terms of answers by seq, of the task (0) and of plan steps (negative), each with its step's number."""
    terms_of_plan: tuple[StepSpec, ...] = ()
    model_named: Callable[[str], Model] | None = None
    """Makes a model other than the session's own, for summaries and judgements."""
    others: dict[str, Model] = field(default_factory=dict)
    store: LogStore | None = None
    """All sessions of the lab, to look for effects that happen once per content."""
    claims: EffectClaims | None = None
    known_dead: Callable[[Mapping[str, Any]], bool] = lambda record: True
    """Whether the process of a record is gone for certain; what is on another host, or only stopped, is not."""
    load_ms: float = 0.0
    """How long it took to load the state that this incarnation began with."""

    @property
    def state(self) -> State:
        """The folded state, staged events included."""
        return self.recorder.state

    def tool(self, name: str) -> ToolSpec:
        """The spec of a tool that exists."""
        return self.run.tools[name]

    def keep(self, events: Sequence[Event]) -> None:
        """Remember events whose content the next requests will show."""
        for event in events:
            if event.type in _SHOWN:
                self.events[event.seq] = event

    def event(self, seq: int) -> Event:
        """An event by number, staged, from memory or from the log."""
        found = self.recorder.staged_event(seq) or self.events.get(seq)
        if found is None:
            found = next(iter(self.log.replay(seq, seq)))
            self.events[seq] = found
        return found

    def rendered(self, seq: int, cap: int, render: Callable[[Rig, int, int], list[Fixed]]) -> list[Fixed]:
        """The content of a scratch block, rendered once for each cap: an event never changes."""
        found = self.shown.get((seq, cap))
        if found is None:
            found = self.shown[seq, cap] = render(self, seq, cap)
        return found

    def task_layer(self, make: Callable[[], Fixed]) -> Fixed:
        """The task layer, the same object as long as the anchors are the same."""
        anchors = self.state.context.anchors
        if self.task is None or self.task[0] is not anchors:
            self.task = (anchors, make())
        return self.task[1]

    def model_for(self, name: str) -> Model:
        """The session's model for ``session``, another one by its name."""
        if name == "session" or self.model_named is None:
            return self.model
        if name not in self.others:
            self.others[name] = self.model_named(name)
        return self.others[name]

    def fixed_layer(self, make: Callable[[], tuple[FixedList, FixedList]]) -> tuple[FixedList, FixedList]:
        """System blocks and tools, the same objects for the life of an incarnation."""
        if self.fixed is None:
            self.fixed = make()
            self.fixed_chars = sum([len(block.text) + 16 for layer in self.fixed for block in layer])
        return self.fixed

    def prune(self) -> None:
        """Forget events that scratch no longer refers to."""
        if len(self.events) > 4 * (len(self.state.context.blocks) + 16):
            wanted = {block.seq for block in self.state.context.blocks}
            self.events = {seq: e for seq, e in self.events.items() if seq in wanted}
            self.shown = {key: blocks for key, blocks in self.shown.items() if key[0] in wanted}
            self.terms = {key: found for key, found in self.terms.items() if key <= 0 or key in wanted}

    def content(self, value: Any) -> Any:
        """A payload value with spilled parts fetched."""
        return resolve(value, self.blobs.get)

    def arguments(self, call: Call) -> Mapping[str, Any]:
        """The input of a call, whole."""
        value = self.content(dict(call.input))
        return value if isinstance(value, dict) else {}

    def wait_until(self, when_us: int) -> bool:
        """Wait until ``when_us``, folding inputs meanwhile; False at once when a pause is asked for."""
        while self.clock.now_us() < when_us:
            if self.state.control.pause_id:
                return False
            self.clock.sleep(min(0.1, (when_us - self.clock.now_us()) / 1e6))
            self.recorder.poll()
        return True

    def acknowledge(self) -> None:
        """Let the sandbox forget results that are durable in the log."""
        if self.unacknowledged and self.sandbox is not None and not self.recorder.staged:
            done, self.unacknowledged = self.unacknowledged, []
            try:
                self.sandbox.acknowledge(done)
            except SandboxGone:
                pass  # with the sandbox its kept results are gone too; the next command in it finds the loss


_SHOWN = frozenset({"model_response", "tool_result", "tool_error"})
