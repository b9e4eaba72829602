"""What dies with what, who may go on, and that nobody is left over: real processes, real kills, looked at from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agentlab import process
from agentlab.errors import SessionBusy
from agentlab.faults import Fault
from agentlab.harness.child import EXIT_FENCED
from agentlab.lab import Lab
from agentlab.supervisor import ps

from . import tasks
from .looking import processes_of, zombies

ROOT = str(Path(__file__).parents[2])

OWNER = """
import sys, time
sys.path.insert(0, {root!r})
from agentlab.lab import Lab
from tests.e2e import tasks
lab = Lab({lab!r})
session = lab.create(tasks.task("gate", "measure", tools=(tasks.{tool}, *tasks.TOOLS)), params={{"gate": {gate!r}}})
session.start()
print(session.id, flush=True)
while True:
    time.sleep(1)
"""


@pytest.fixture
def place(tmp_path, until):
    """The folder of the lab. After the test no process of it is alive and no dead child of ours is unwaited for."""
    folder, before = str(tmp_path / "lab"), set(zombies())
    yield folder
    until(lambda: not processes_of(folder), what="nobody is left")
    until(lambda: not set(zombies()) - before, what="no zombies")
    assert all(one.alive == "dead" for one in ps.owned(folder))


@pytest.fixture
def an_owner(place, tmp_path, until):
    """An owner in a process of its own, with a tool that has begun and waits for the gate."""
    gate, owners = tmp_path / "gate", []

    def start(tool="GATED"):
        script = OWNER.format(root=ROOT, lab=place, tool=tool, gate=str(gate))
        owners.append(subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True))
        assert owners[-1].stdout.readline().strip() == "small-1"
        until(gate.with_name("gate.reached").exists, what="the tool has begun")
        return owners[-1], gate

    yield start
    for owner in owners:
        owner.kill()
        owner.wait()
        owner.stdout.close()


def judged(session):
    """The events of a session that completed with every call answered exactly once."""
    session.verify()
    assert session.status().status == "completed", session.locate()
    answers = Counter(e.call_id for e in session.events() if e.type in ("tool_result", "tool_error"))
    assert set(answers.values()) == {1}
    return session.events()


@pytest.mark.parametrize("tool", ["GATED", "PURE_GATED"], ids=["sandbox", "tool host"])
def test_an_owner_killed_takes_all_along_and_another_owner_completes(an_owner, place, until, tool):
    owner, gate = an_owner(tool)
    worker = int(gate.with_name("gate.reached").read_text())
    family = processes_of(place)
    kinds = {one.kind for one in ps.owned(place) if one.alive == "alive"}
    assert {"keeper", "harness"} <= kinds and len(family) >= 3
    owner.kill()
    owner.wait()
    until(lambda: not processes_of(place), what="all are gone")
    until(lambda: process.start_time(worker) is None, what="the tool itself too")
    gate.touch()
    with Lab(place) as lab:
        session = lab.session("small-1")
        assert session.status().status == "crashed" and session.locate().condition == "harness_dead"
        session.wake(timeout_s=120)
        events = judged(session)
    assert session.status().crashes == 1
    assert tool != "GATED" or any(e.type == "sandbox_lost" for e in events)


def test_a_keeper_killed_ends_its_harness_and_a_wake_goes_on_under_the_next(place, tmp_path, until):
    gate = tmp_path / "gate"
    with Lab(place) as lab:
        session = lab.create(
            tasks.task("gate", "measure", tools=(tasks.GATED, *tasks.TOOLS)), params={"gate": str(gate)}
        )
        session.start()
        until(gate.with_name("gate.reached").exists, what="the tool has begun")
        (keeper,) = [one for one in ps.owned(place) if one.kind == "keeper"]
        harness = dict(session.state.process)
        process.send_signal(keeper.record, signal.SIGKILL)
        until(lambda: process.liveness(harness) == "dead", what="the harness ends with its keeper")
        until(lambda: session.status().status == "crashed")
        gate.touch()
        session.wake(timeout_s=120)
        judged(session)
        (after,) = [one for one in ps.owned(place) if one.kind == "keeper" and one.alive == "alive"]
        assert after.pid != keeper.pid


@pytest.mark.parametrize("point", ["wake", "recovery_step"])
def test_deaths_in_a_row_without_work_end_in_a_pause_and_a_later_wake_works(place, point):
    """Three faults at one point: each start dies before it has worked. *wake* is before the session is opened."""
    faults = [Fault(f"f{i}", "harness", point=point) for i in range(3)]
    if point != "wake":  # the very first start recovers from nothing: it has to die once before
        faults = [Fault("first", "harness", point="tool_result"), *faults]
    with Lab(place) as lab:
        session = lab.create(tasks.task("measure"))
        session.start(arm=faults)
        status = session.wait(120)
        assert (status.status, status.reason, status.resumable) == ("paused", "crash_loop", True)
        found = session.locate()
        assert found.condition == "paused" and "crash_loop" in " ".join(found.evidence)
        session.wake(timeout_s=120)
        events = judged(session)
    struck = [e.payload["fault"] for e in events if e.type == "fault_injected"]
    assert struck == [fault.id for fault in faults]


def test_a_second_owner_is_refused_until_it_takes_over(an_owner, place):
    _, gate = an_owner()
    with Lab(place) as lab:
        session = lab.session("small-1")
        pid, before = session.state.process["pid"], session.state.seq
        with pytest.raises(SessionBusy, match=str(pid)):
            session.wake(timeout_s=10)
        assert session.state.seq == before, "nothing is written by the one who was refused"
        gate.touch()
        session.wake(takeover=True, timeout_s=120)
        assert process.start_time(pid) is None, "the other harness is dead before anything is done"
        events = judged(session)
        assert [e.payload["reason"] for e in events if e.type == "harness_woken"] == ["start", "takeover"]


@pytest.mark.parametrize("point", ["effect_pending", "effect.send"])
def test_a_harness_that_was_stopped_and_goes_on_later_is_fenced(place, tmp_path, receiver, until, point):
    """It is stopped before the effect is registered, or before it is sent; meanwhile another one completes the session."""
    with Lab(place) as lab:
        session = lab.create(tasks.task("measure", "send"), params={"receiver_url": receiver.url})
        session.start(arm=[Fault("stop", "harness", action="stop", point=point)])
        until(lambda: session.state.process and process.stopped(session.state.process["pid"]), what="it is stopped")
        zombie = dict(session.state.process)
        argv = [sys.executable, "-m", "agentlab.harness.child", "--lab", place, "--session", session.id, "--takeover"]
        other = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert other.returncode == 0, other.stderr
        complete = judged(session)
        assert len(receiver.ledger()) == 1

        assert process.liveness(zombie) == "alive"
        os.kill(zombie["pid"], signal.SIGCONT)
        left = lab.supervisor.wait_exit(session.id, 120)
        assert left.code == EXIT_FENCED and left.done == "fenced", "it saw that another one owns the session"
        assert len(receiver.ledger()) == 1, "its late effect does not happen"
        assert [e.hash for e in session.events()] == [e.hash for e in complete], "its append was refused"
