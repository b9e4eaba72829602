"""A world of sandboxes in memory: the same contract, no processes, and a copy costs next to nothing.

Everything is deterministic: ids are counted, and what a command does is the business of the injected runner.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import LogCorrupt, SandboxError, SandboxGone
from agentlab.ports import Blobs, Completed, Execution, Resources, Snapshot
from agentlab.sandbox import snapshot as packing

Workspace = Mapping[str, bytes]


class Outcome(NamedTuple):
    """What a simulated command gives back to the world."""

    stdout: str = ""
    exit_code: int | None = 0
    stderr: str = ""
    status: str = "exited"
    duration_ms: float = 1.0


Runner = Callable[[Execution, Workspace], tuple[Outcome, Workspace]]
"""Runs one command on a workspace (with its scratch files under ``@…``) and gives the workspace after it."""


@dataclass
class _Box:
    session_id: str
    alive: bool = True
    confirmed: bool = False
    highest: int = 0
    workspace: Workspace = field(default_factory=lambda: MappingProxyType({}))
    results: dict[str, Completed] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    last: str | None = None
    saved: Workspace = field(default_factory=lambda: MappingProxyType({}))
    """The workspace of the newest snapshot taken or restored."""


class SimulatedSandboxes:
    """A provider of sandboxes whose whole world is one value; ``runs`` lists every command that really ran."""

    def __init__(self, blobs: Blobs, runner: Runner) -> None:
        self.blobs, self._runner = blobs, runner
        self._boxes: dict[str, _Box] = {}
        self._count = 0
        self.runs: list[tuple[str, str]] = []

    def copy(self, blobs: Blobs | None = None, runner: Runner | None = None) -> SimulatedSandboxes:
        """An independent world in the same state."""
        other = SimulatedSandboxes(blobs or self.blobs, runner or self._runner)
        other._count, other.runs = self._count, list(self.runs)
        other._boxes = {
            name: replace(box, results=dict(box.results), acknowledged=set(box.acknowledged))
            for name, box in self._boxes.items()
        }
        return other

    def alive(self) -> list[str]:
        """Ids of the sandboxes that live."""
        return [name for name, box in self._boxes.items() if box.alive]

    def living(self, sandbox_id: str) -> bool:
        """Whether that sandbox lives."""
        box = self._boxes.get(sandbox_id)
        return box is not None and box.alive

    def kill(self, sandbox_id: str) -> bool:
        """Death of a sandbox: its workspace and untaken results are gone. Whether it was alive."""
        box = self._boxes.get(sandbox_id)
        if box is None or not box.alive:
            return False
        self._boxes[sandbox_id] = _Box(box.session_id, alive=False, highest=box.highest)
        return True

    def expire(self) -> None:
        """Let the time pass after which unconfirmed sandboxes end themselves."""
        for name, box in list(self._boxes.items()):
            if not box.confirmed:
                self.kill(name)

    def provision(self, session_id: str, incarnation: int, resources: Resources) -> SimulatedSandbox:
        """See :meth:`agentlab.ports.Sandboxes.provision`."""
        self._count += 1
        name = f"sb-{self._count:06d}"
        reach(CrashPoint.SANDBOX_SPAWN, "before", name)
        self._boxes[name] = _Box(session_id)
        reach(CrashPoint.SANDBOX_SPAWN, "after", name)
        return self._connected(name, incarnation, resources)

    def attach(self, record: Mapping[str, Any], incarnation: int, resources: Resources) -> SimulatedSandbox:
        """See :meth:`agentlab.ports.Sandboxes.attach`."""
        name = str(record.get("sandbox_id"))
        box = self._boxes.get(name)
        if box is None or not box.alive:
            raise SandboxGone(f"sandbox {name} is dead: provision and restore")
        sandbox = self._connected(name, incarnation, resources)
        box.confirmed = True
        return sandbox

    def _connected(self, name: str, incarnation: int, resources: Resources) -> SimulatedSandbox:
        reach(CrashPoint.SANDBOX_CONNECT, "before", name)
        box = self._boxes[name]
        if incarnation < max(1, box.highest):
            raise SandboxError(f"sandbox {name} refused attach: incarnation {box.highest} has attached")
        box.highest = incarnation
        sandbox = SimulatedSandbox(self, name, incarnation, resources)
        reach(CrashPoint.SANDBOX_CONNECT, "after", name)
        return sandbox


def _digest(blobs: Blobs, data: bytes) -> str:
    """The digest of ``data``; blobs in memory know those of large ones that they have seen."""
    known = getattr(blobs, "digest", None)
    return str(known(data)) if known is not None else hashlib.sha256(data).hexdigest()


class SimulatedSandbox:
    """One sandbox of a simulated world, as one incarnation sees it."""

    def __init__(self, world: SimulatedSandboxes, name: str, incarnation: int, resources: Resources) -> None:
        self._world, self._name, self._incarnation, self._resources = world, name, incarnation, resources

    @property
    def sandbox_id(self) -> str:
        return self._name

    @property
    def record(self) -> Mapping[str, Any]:
        return {"kind": "simulated", "sandbox_id": self._name, "session_id": self._world._boxes[self._name].session_id}

    def _box(self) -> _Box:
        box = self._world._boxes[self._name]
        if not box.alive:
            raise SandboxGone(f"sandbox {self._name} is dead: provision and restore")
        if self._incarnation < box.highest:
            raise SandboxError(f"sandbox {self._name} refused: incarnation {box.highest} has attached")
        return box

    def confirm(self) -> None:
        """See :meth:`agentlab.ports.Sandbox.confirm`."""
        self._box().confirmed = True

    def execute(self, exec_id: str, execution: Execution) -> Completed:
        """See :meth:`agentlab.ports.Sandbox.execute`."""
        reach(CrashPoint.SANDBOX_EXECUTE, "before", exec_id)
        self._run(self._box(), exec_id, execution)
        reach(CrashPoint.SANDBOX_EXECUTE, "after", exec_id)
        reach(CrashPoint.SANDBOX_RESULT, "before", exec_id)
        completed = self._box().results[exec_id]
        reach(CrashPoint.SANDBOX_RESULT, "after", exec_id)
        return completed

    def _run(self, box: _Box, exec_id: str, execution: Execution) -> None:
        box.confirmed = True
        if exec_id in box.results:
            return
        if exec_id in box.acknowledged:
            raise SandboxError(f"sandbox {self._name} refused execute: {exec_id!r} ran, and the log has its result")
        self._inside(execution.cwd)
        given = {path: self._fetch(path, digest) for path, digest in execution.files.items()}
        outcome, after = self._world._runner(execution, MappingProxyType({**box.workspace, **given}))
        box.workspace = MappingProxyType({path: data for path, data in after.items() if not path.startswith("@")})
        self._world.runs.append((self._name, exec_id))
        limit = self._resources.output_bytes
        cut = len(outcome.stdout) > limit or len(outcome.stderr) > limit
        stdout, stderr = outcome.stdout[:limit], outcome.stderr[:limit]
        result = (exec_id, outcome.status, outcome.exit_code, stdout, stderr, outcome.duration_ms, cut)
        box.results[exec_id] = Completed(*result)
        box.last = exec_id

    @staticmethod
    def _inside(path: str) -> str:
        normal = posixpath.normpath(path)
        if not path or path.startswith("/") or normal.split("/")[0] == ".." or "\0" in path:
            raise SandboxError(f"path {path!r} leaves the workspace")
        return normal

    def _fetch(self, path: str, digest: str) -> bytes:
        self._inside(path.removeprefix("@"))
        try:
            return self._world.blobs.get(digest)
        except (LogCorrupt, KeyError) as error:
            raise SandboxError(f"blob {digest} is not in the lab") from error

    def finished(self) -> Sequence[str]:
        """See :meth:`agentlab.ports.Sandbox.finished`."""
        return list(self._box().results)

    def acknowledge(self, exec_ids: Sequence[str]) -> None:
        """See :meth:`agentlab.ports.Sandbox.acknowledge`."""
        reach(CrashPoint.SANDBOX_ACK, "before")
        box = self._box()
        for exec_id in exec_ids:
            if box.results.pop(exec_id, None) is not None:
                box.acknowledged.add(exec_id)
        reach(CrashPoint.SANDBOX_ACK, "after")

    def changed_bytes(self) -> int:
        """See :meth:`agentlab.ports.Sandbox.changed_bytes`."""
        box = self._box()
        return sum(len(data) for path, data in box.workspace.items() if box.saved.get(path) != data)

    def new_bytes(self) -> int:
        """About what a snapshot taken now would add: contents that the store does not have; 1 for its list alone, 0 for nothing."""
        box, blobs = self._box(), self._world.blobs
        if box.saved == box.workspace:
            return 0
        return max(1, sum(len(data) for data in box.workspace.values() if not blobs.has(_digest(blobs, data))))

    def snapshot(self) -> Snapshot:
        """See :meth:`agentlab.ports.Sandbox.snapshot`."""
        reach(CrashPoint.SNAPSHOT, "before")
        box, blobs, new = self._box(), self._world.blobs, 0
        entries: dict[str, packing.Entry] = {}
        for path, data in box.workspace.items():
            known = blobs.has(digest := _digest(blobs, data))
            new += 0 if known else len(data)
            blobs.put(data)
            entries[path] = packing.Entry(path, "file", 0o644, len(data), digest)
            while path := posixpath.dirname(path):
                entries[path] = packing.Entry(path, "dir", 0o755, 0, "")
        manifest = packing.encode(list(entries.values()))
        new += 0 if blobs.has(hashlib.sha256(manifest).hexdigest()) else len(manifest)
        total = sum(map(len, box.workspace.values()))
        taken = Snapshot(blobs.put(manifest), len(box.workspace), total, new, box.last)
        box.saved = box.workspace
        reach(CrashPoint.SNAPSHOT, "after", taken.digest)
        return taken

    def restore(self, digest: str) -> None:
        """See :meth:`agentlab.ports.Sandbox.restore`. Ids acknowledged before may run again."""
        reach(CrashPoint.SNAPSHOT_RESTORE, "before", digest)
        box = self._box()
        try:
            entries = packing.decode(self._fetch("manifest", digest))
        except ValueError as error:
            raise SandboxError(f"snapshot {digest}: {error}") from error
        files = {entry.path: self._fetch(entry.path, entry.ref) for entry in entries if entry.kind == "file"}
        box.workspace, box.last = MappingProxyType(files), None
        box.saved = box.workspace
        box.acknowledged.clear()
        reach(CrashPoint.SNAPSHOT_RESTORE, "after", digest)

    def put_files(self, files: Mapping[str, str]) -> None:
        """See :meth:`agentlab.ports.Sandbox.put_files`."""
        box = self._box()
        placed = {self._inside(path): self._fetch(path, digest) for path, digest in files.items()}
        box.workspace = MappingProxyType({**box.workspace, **placed})

    def read_file(self, path: str) -> bytes:
        """See :meth:`agentlab.ports.Sandbox.read_file`."""
        try:
            return self._box().workspace[self._inside(path)]
        except KeyError as error:
            raise FileNotFoundError(f"no file {path!r} in the workspace") from error

    def destroy(self) -> None:
        """See :meth:`agentlab.ports.Sandbox.destroy`."""
        reach(CrashPoint.SANDBOX_DESTROY, "before", self._name)
        if self._world._boxes[self._name].alive:
            self._box()
        self._world.kill(self._name)
        reach(CrashPoint.SANDBOX_DESTROY, "after", self._name)
