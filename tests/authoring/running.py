"""A definition's callables, really executed: where their effect says, by what the log would hold of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlab.clock import SystemClock
from agentlab.definition import Definition, from_json
from agentlab.harness.lazymodel import LazyModel
from agentlab.log.blobs import BlobFolder
from agentlab.ports import ModelReply, ModelRequest, Resources, ToolInvocation, ToolOutcome
from agentlab.sandbox import DirectSpawner, LocalSandbox, LocalSandboxes
from agentlab.toolhost.client import ProcessToolHost
from agentlab.toolhost.outcome import execution_for, result_of

DEFINE = """
def define(task, **options):
    import json, os
    from agentlab.log.blobs import BlobFolder
    blobs = BlobFolder(os.environ["TEST_BLOBS"])
    definition, dump, signature = task.define(blobs.put, **options)
    digest = None if dump is None else blobs.put(dump)
    print(json.dumps({"definition": definition.to_json(), "dump": digest, "signature": signature}))
"""
"""Source text: what a script or a cell that defines a task runs in the end; :meth:`Bench.take` reads what it prints."""


class Bench:
    """One tool host and one sandbox over a folder of blobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs").mkdir(parents=True)
        self.blobs = BlobFolder(folder / "blobs")
        self._spawner = DirectSpawner()
        self._host: ProcessToolHost | None = None
        self._sandbox: LocalSandbox | None = None
        self._calls = 0

    def take(self, printed: str) -> tuple[Definition, str | None, str | None]:
        """The definition, the dump's digest and its signature, out of the last line that DEFINE printed."""
        found = json.loads(printed.strip().splitlines()[-1])
        return from_json(found["definition"]), found["dump"], found["signature"]

    def define(self, task: Any, **options: Any) -> Definition:
        """The definition of a task of this process, as it comes back from the log."""
        definition, dump, _ = task.define(self.blobs.put, **options)
        if dump is not None:
            self.blobs.put(dump)
        return from_json(json.loads(json.dumps(definition.to_json())))

    def run(self, definition: Definition, tool: str, **arguments: Any) -> ToolOutcome:
        """Call a tool in the sandbox or in the tool host."""
        spec = definition.tool(tool)
        assert spec is not None and spec.ref is not None
        return self.call(spec.ref, spec.effect, arguments)

    def call(self, ref: Mapping[str, Any], effect: str, arguments: Mapping[str, Any], role: str = "") -> ToolOutcome:
        """Call what a reference stands for; ``role`` is ``.verify`` for a verify function."""
        self._calls += 1
        asked = ToolInvocation(f"c{self._calls}{role or '.1'}", ref, arguments, key="key-1", timeout_s=120.0)
        if effect == "sandboxed":
            sandbox = self._ready()
            return result_of(sandbox.execute(f"e{self._calls}", execution_for(asked, ref.get("blob"))))
        if self._host is None:
            env = {**os.environ, "PYTHONPATH": ""}  # what a reference needs, it must bring along
            self._host = ProcessToolHost(self.blobs.root, cwd=str(self.folder), env=env)
        return self._host.call(asked)

    def ask(self, definition: Definition) -> ModelReply:
        """One answer of the definition's model, as the harness makes it."""
        model = LazyModel(definition, self.blobs, SystemClock())
        return model.complete(ModelRequest([], [], [{"role": "user", "content": [{"type": "text", "text": "go"}]}]))

    def _ready(self) -> LocalSandbox:
        if self._sandbox is None:
            sandboxes = LocalSandboxes(self.folder, self.blobs.root, self._spawner, SystemClock())
            self._sandbox = sandboxes.provision("s", 1, Resources(timeout_s=120.0))
            self._sandbox.confirm()
        return self._sandbox

    def read_file(self, path: str) -> bytes:
        """A file of the sandbox's workspace."""
        return self._ready().read_file(path)

    def close(self) -> None:
        if self._host is not None:
            self._host.close()
        if self._sandbox is not None:
            self._sandbox.destroy()
        self._spawner.close()
