"""The rig: what one incarnation of a harness works with. Nothing in it can not be rebuilt from the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentlab.clock import Clock
from agentlab.definition import ToolSpec
from agentlab.errors import SandboxGone
from agentlab.events import Event, Fixed, FixedList, resolve
from agentlab.harness.recorder import Recorder
from agentlab.ids import Ids
from agentlab.ports import Blobs, Execution, Log, Model, Queue, Sandbox, Sandboxes, ToolHost, ToolInvocation
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
    on_text: Callable[[str], None] | None = None
    sandbox: Sandbox | None = None
    events: dict[int, Event] = field(default_factory=dict)
    unacknowledged: list[str] = field(default_factory=list)
    shown: dict[int, list[Fixed]] = field(default_factory=dict)
    fixed: tuple[FixedList, FixedList] | None = None

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

    def rendered(self, seq: int, render: Callable[[Rig, int], list[Fixed]]) -> list[Fixed]:
        """The content of a scratch block, rendered once: an event never changes."""
        found = self.shown.get(seq)
        if found is None:
            found = self.shown[seq] = render(self, seq)
        return found

    def fixed_layer(self, make: Callable[[], tuple[FixedList, FixedList]]) -> tuple[FixedList, FixedList]:
        """System blocks and tools, the same objects for the life of an incarnation."""
        if self.fixed is None:
            self.fixed = make()
        return self.fixed

    def prune(self) -> None:
        """Forget events that scratch no longer refers to."""
        if len(self.events) > 4 * (len(self.state.context.blocks) + 16):
            wanted = {block.seq for block in self.state.context.blocks}
            self.events = {seq: e for seq, e in self.events.items() if seq in wanted}
            self.shown = {seq: blocks for seq, blocks in self.shown.items() if seq in wanted}

    def content(self, value: Any) -> Any:
        """A payload value with spilled parts fetched."""
        return resolve(value, self.blobs.get)

    def arguments(self, call: Call) -> Mapping[str, Any]:
        """The input of a call, whole."""
        value = self.content(dict(call.input))
        return value if isinstance(value, dict) else {}

    def wait_until(self, when_us: int) -> None:
        """Wait until ``when_us``, folding inputs meanwhile so that a pause is heard."""
        while self.clock.now_us() < when_us:
            if self.state.control.pause_id:
                return
            self.clock.sleep(min(0.1, (when_us - self.clock.now_us()) / 1e6))
            self.recorder.poll()

    def acknowledge(self) -> None:
        """Let the sandbox forget results that are durable in the log."""
        if self.unacknowledged and self.sandbox is not None and not self.recorder.staged:
            done, self.unacknowledged = self.unacknowledged, []
            try:
                self.sandbox.acknowledge(done)
            except SandboxGone:
                pass  # with the sandbox its kept results are gone too; the next command in it finds the loss


_SHOWN = frozenset({"model_response", "tool_result", "tool_error"})
