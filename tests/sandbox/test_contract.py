from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest

from agentlab.contracts.sandbox import Argv, SandboxContract
from agentlab.errors import LogCorrupt
from agentlab.ports import Blobs, Execution
from agentlab.sandbox import LocalSandboxes, Outcome, SimulatedSandboxes
from agentlab.sandbox.simulated import Workspace

SHELL = {
    "write": 'printf %s "$2" > "$1"; printf ok',
    "append": 'printf %s "$2" >> "$1"; printf ok',
    "show": 'cat "$1"',
    "exit": 'exit "$1"',
    "echo": "cat",
}


class TestLocal(SandboxContract):
    @pytest.fixture
    def sandboxes(self, local: LocalSandboxes) -> LocalSandboxes:
        return local

    @pytest.fixture
    def argv(self) -> Argv:
        return lambda verb, *rest: ["/bin/sh", "-c", SHELL[verb], "sh", *rest]


class MemoryBlobs:
    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.data[digest] = data
        return digest

    def get(self, digest: str) -> bytes:
        if digest not in self.data:
            raise LogCorrupt(f"no blob {digest}")
        return self.data[digest]

    def has(self, digest: str) -> bool:
        return digest in self.data


def runner(execution: Execution, workspace: Workspace) -> tuple[Outcome, Workspace]:
    _, verb, *rest = execution.argv
    if verb == "write":
        return Outcome("ok"), {**workspace, rest[0]: rest[1].encode()}
    if verb == "append":
        return Outcome("ok"), {**workspace, rest[0]: workspace.get(rest[0], b"") + rest[1].encode()}
    if verb == "show":
        found = workspace.get(rest[0])
        return (Outcome(exit_code=1) if found is None else Outcome(found.decode())), workspace
    return (Outcome(exit_code=int(rest[0])) if verb == "exit" else Outcome(execution.stdin)), workspace


class TestSimulated(SandboxContract):
    @pytest.fixture
    def blobs(self) -> Blobs:
        return MemoryBlobs()

    @pytest.fixture
    def sandboxes(self, blobs: Blobs) -> SimulatedSandboxes:
        return SimulatedSandboxes(blobs, runner)

    @pytest.fixture
    def argv(self) -> Argv:
        def make(*words: str) -> Sequence[str]:
            return ["agentlab-call", *words]

        return make
