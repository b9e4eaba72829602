from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentlab.crashpoints import CrashPoint, SimulatedDeath, When, arm
from agentlab.errors import SandboxGone
from agentlab.ports import Execution, Resources
from agentlab.sandbox import SimulatedSandboxes

from .test_contract import MemoryBlobs, runner

APPEND = Execution(["agentlab-call", "append", "log", "x"])


@pytest.fixture
def world() -> Iterator[SimulatedSandboxes]:
    yield SimulatedSandboxes(MemoryBlobs(), runner)
    arm(None)


def test_a_harness_that_dies_while_its_command_runs(world: SimulatedSandboxes) -> None:
    sandbox = world.provision("s", 1, Resources())

    def die(point: CrashPoint, when: When, detail: str) -> None:
        if (point, when) == (CrashPoint.SANDBOX_EXECUTE, "after"):
            raise SimulatedDeath

    arm(die)
    with pytest.raises(SimulatedDeath):
        sandbox.execute("e1", APPEND)
    arm(None)
    later = world.attach(sandbox.record, 2, Resources())
    assert list(later.finished()) == ["e1"]
    later.execute("e1", APPEND)
    assert later.read_file("log") == b"x"
    assert world.runs == [("sb-000001", "e1")]


def test_a_kill_between_sending_and_taking(world: SimulatedSandboxes) -> None:
    sandbox = world.provision("s", 1, Resources())

    def strike(point: CrashPoint, when: When, detail: str) -> None:
        if (point, when) == (CrashPoint.SANDBOX_EXECUTE, "after"):
            world.kill(sandbox.sandbox_id)

    arm(strike)
    with pytest.raises(SandboxGone):
        sandbox.execute("e1", APPEND)
    assert world.alive() == [] and not world.kill(sandbox.sandbox_id)


def test_copies_go_their_own_ways(world: SimulatedSandboxes) -> None:
    sandbox = world.provision("s", 1, Resources())
    sandbox.execute("e1", APPEND)
    other = world.copy()
    sandbox.execute("e2", APPEND)
    copied = other.attach(sandbox.record, 2, Resources())
    assert (copied.read_file("log"), sandbox.read_file("log")) == (b"x", b"xx")
    assert list(copied.finished()) == ["e1"]
    world.kill(sandbox.sandbox_id)
    copied.execute("e2", APPEND)
    assert other.runs == [("sb-000001", "e1"), ("sb-000001", "e2")]
    assert other.provision("s", 1, Resources()).sandbox_id == world.provision("s", 1, Resources()).sandbox_id


def test_unconfirmed_ones_expire(world: SimulatedSandboxes) -> None:
    forgotten, confirmed = world.provision("s", 1, Resources()), world.provision("s", 1, Resources())
    confirmed.confirm()
    world.expire()
    assert world.alive() == [confirmed.sandbox_id]
    with pytest.raises(SandboxGone):
        forgotten.confirm()
