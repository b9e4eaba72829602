"""The contract, for the host in a child process, for the one in this process, and for calls inside a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlab import portable
from agentlab.clock import SystemClock
from agentlab.contracts.toolhost import ToolHostContract
from agentlab.ports import Resources, Sandbox, ToolHost, ToolInvocation, ToolOutcome
from agentlab.sandbox import DirectSpawner, LocalSandboxes
from agentlab.toolhost.client import ProcessToolHost
from agentlab.toolhost.inprocess import InProcessToolHost
from agentlab.toolhost.outcome import execution_for, result_of


@pytest.fixture(scope="module")
def process_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessToolHost]:
    host = ProcessToolHost(str(tmp_path_factory.mktemp("blobs")))
    yield host
    host.close()


class TestProcess(ToolHostContract):
    @pytest.fixture
    def host(self, process_host: ToolHost) -> ToolHost:
        return process_host


class TestInProcess(ToolHostContract):
    @pytest.fixture
    def host(self) -> ToolHost:
        return InProcessToolHost(lambda ref: portable.load(ref, lambda digest: b""))


class SandboxedHost:
    """Every call as an execution of its own."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox, self._calls = sandbox, 0

    def call(self, invocation: ToolInvocation) -> ToolOutcome:
        self._calls += 1
        return result_of(self._sandbox.execute(f"e{self._calls}", execution_for(invocation, None)))

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def sandboxed_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolHost]:
    lab: Path = tmp_path_factory.mktemp("lab")
    (lab / "blobs").mkdir()
    spawner = DirectSpawner()
    sandboxes = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock())
    sandbox = sandboxes.provision("s", 1, Resources(timeout_s=120.0, output_bytes=32 << 20))
    sandbox.confirm()
    yield SandboxedHost(sandbox)
    sandbox.destroy()
    spawner.close()


class TestSandboxed(ToolHostContract):
    @pytest.fixture
    def host(self, sandboxed_host: ToolHost) -> ToolHost:
        return sandboxed_host
