"""The ports of a simulated harness, each taking its time on the clock of the run: a crash may strike within any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentlab.comparing.latencies import about
from agentlab.comparing.timing import Timing
from agentlab.events import Draft
from agentlab.harness.recorder import Recorder
from agentlab.ports import (
    Blobs,
    Completed,
    Execution,
    ModelReply,
    ModelRequest,
    Resources,
    Snapshot,
    ToolInvocation,
    ToolOutcome,
)
from agentlab.sandbox.simulated import SimulatedSandbox, SimulatedSandboxes


class TimedRecorder(Recorder):
    """A recorder whose events take their time when they are staged."""

    timing: Timing

    def stage(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            self.timing.staged(draft.type, about(draft.type, draft.tool_name, draft.payload))
            super().stage((draft,))


class TimedModel:
    """A model whose answers take their time."""

    def __init__(self, model: Any, timing: Timing) -> None:
        self._model, self._timing = model, timing
        self.name, self.params = model.name, model.params

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        reply: ModelReply = self._timing.around("", self._model.complete, request, on_text)
        return reply


class TimedBlobs:
    """Blobs of a harness: a checkpoint takes its time while its state is put, so that what it says it cost is right."""

    def __init__(self, blobs: Blobs, timing: Timing) -> None:
        self._blobs, self._timing = blobs, timing
        self.get, self.has = blobs.get, blobs.has

    def put(self, data: bytes) -> str:
        """See :meth:`agentlab.ports.Blobs.put`."""
        if self._timing.writes_checkpoint:
            return str(self._timing.around("checkpoint_written", self._blobs.put, data))
        return self._blobs.put(data)


class TimedHost:
    """A tool host whose calls take their time."""

    def __init__(self, host: Any, timing: Timing) -> None:
        self._host, self._timing = host, timing

    def call(self, invocation: ToolInvocation) -> ToolOutcome:
        outcome: ToolOutcome = self._timing.around("", self._host.call, invocation)
        return outcome

    def close(self) -> None:
        """Nothing to end."""


class TimedSandbox:
    """A sandbox whose commands take their time; the rest of it passes through."""

    def __init__(
        self, box: SimulatedSandbox, boxes: SimulatedSandboxes, timing: Timing, tool_of: Callable[[str], str]
    ) -> None:
        self._box, self._boxes, self._timing, self._tool_of = box, boxes, timing, tool_of
        for name in ("confirm", "finished", "acknowledge", "read_file", "changed_bytes", "destroy"):
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
        return self._timing.snapshot(self._box.new_bytes(), self._box.snapshot)

    def restore(self, digest: str) -> None:
        self._timing.around("sandbox_restored", self._box.restore, digest)

    def put_files(self, files: Mapping[str, str]) -> None:
        self._timing.around("sandbox_restored", self._box.put_files, files)


class TimedSandboxes:
    """A provider whose sandboxes take their time to come, and theirs take it too."""

    def __init__(self, boxes: SimulatedSandboxes, timing: Timing, tool_of: Callable[[str], str]) -> None:
        self._boxes, self._timing, self._tool_of = boxes, timing, tool_of

    def provision(self, session_id: str, incarnation: int, resources: Resources) -> TimedSandbox:
        return self._timed(
            self._timing.around("sandbox_ready", self._boxes.provision, session_id, incarnation, resources)
        )

    def attach(self, record: Mapping[str, Any], incarnation: int, resources: Resources) -> TimedSandbox:
        return self._timed(self._timing.around("sandbox_attached", self._boxes.attach, record, incarnation, resources))

    def _timed(self, box: SimulatedSandbox) -> TimedSandbox:
        return TimedSandbox(box, self._boxes, self._timing, self._tool_of)
