"""A real child, killed with SIGKILL at every crash point, before and after; judged by the log and the outside ledger.

SIGKILL shows ordering and atomicity, not power loss: that is the business of the log's own durability suite.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from agentlab.crashpoints import CrashPoint
from agentlab.effects.receiver import ReceiverProcess
from agentlab.faults import Fault
from agentlab.lab import Session
from agentlab.lab.lab import Lab

from . import tasks

ELSEWHERE = {
    CrashPoint.SEGMENT_WRITE, CrashPoint.SEGMENT_LINK, CrashPoint.SEGMENT_DIRSYNC, CrashPoint.SEGMENT_CLEAN,
    CrashPoint.HARNESS_SPAWN, CrashPoint.HARNESS_KILL,
}  # fmt: skip
"""Reached by whoever seals a session or owns a harness, not by a harness: killed there in the suites of those parts."""
ONLY_ON_FAILURE = {
    CrashPoint.EFFECT_CLAIM,
    CrashPoint.TOOLHOST_KILL,
    CrashPoint.EFFECT_VERIFY,
    CrashPoint.SNAPSHOT_RESTORE,
}
"""Reached only when something else went wrong before: a tool hangs, an effect is pending, a sandbox is lost.

An effect is claimed only by tools that happen once per content: tests/harness/test_once_per_content.py."""
CASES = [(p, w) for p in CrashPoint if p not in ELSEWHERE | ONLY_ON_FAILURE for w in ("before", "after")]
AT_ONCE = 4


def start(lab: Lab, url: str, faults: list[Fault], *steps: str) -> Session:
    session = lab.create(tasks.task(*steps), params={"receiver_url": url})
    session.start(arm=faults)
    return session


def judge(session: Session, receiver: ReceiverProcess, lines: bytes = b"hello\n") -> bool:
    """Whether the fault struck; everything else is asserted."""
    status = session.wait(120)
    events = session.events()
    context = f"{session.id}: {[e.payload.get('point') for e in events if e.type == 'fault_injected']}"
    assert status.status == "completed", f"{context} {status} {session.locate()}"
    session.verify()
    results = Counter(e.payload["call_id"] for e in events if e.type in ("tool_result", "tool_error"))
    assert set(results.values()) <= {1}, context
    assert {e.payload["call_id"] for e in events if e.type == "tool_requested"} == set(results), context
    keys = [entry["key"] for entry in receiver.ledger() if entry["key"].startswith(f"{session.id}#")]
    assert len(keys) == 1, f"{context}: the outside saw {keys}"
    assert session.read_file("report.txt") == lines, context
    lost = sum(e.payload["lost_steps"] for e in events if e.type == "recovery_completed")
    assert lost == 0, context
    return any(Path(session.log.folder, "faults").glob("*.json"))


def in_batches(cases):
    rest = iter(cases)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch


@pytest.mark.timeout(1200)
def test_a_real_kill_at_every_crash_point_of_a_harness_loses_and_repeats_nothing(lab, receiver):
    missed = []
    for batch in in_batches(CASES):
        running = []
        for point, when in batch:
            fault = Fault(f"{point.value}-{when}", "harness", point=point.value, when=when)
            running.append((point, when, start(lab, receiver.url, [fault], "measure", "write", "send")))
        for point, when, session in running:
            if not judge(session, receiver):
                missed.append(f"{point.value} {when}")
    assert set(missed) <= SIDES_THAT_ARE_NOT_THERE, missed


SIDES_THAT_ARE_NOT_THERE = {
    f"{point.value} after"
    for point in (
        CrashPoint.CHECKPOINT_LOAD, CrashPoint.MODEL_SEND, CrashPoint.MODEL_REPLY, CrashPoint.TOOL_SEND,
        CrashPoint.TOOL_REPLY, CrashPoint.EFFECT_SEND, CrashPoint.EFFECT_REPLY,
    )
}  # fmt: skip
"""Boundaries whose other side is another point: after a send comes the reply."""


@pytest.mark.timeout(600)
def test_a_kill_during_the_recovery_from_a_kill(lab, receiver):
    pairs = [
        ("effect.reply", "effect.verify", "before"),
        ("effect.reply", "effect.verify", "after"),
        ("effect.reply", "recovery_started", "after"),
        ("effect.reply", "statement_checked", "before"),
        ("sandbox.execute", "sandbox_attached", "before"),
        ("effect.send", "recovery_step", "before"),
    ]
    for batch in in_batches(pairs):
        sessions = []
        for first, second, when in batch:
            faults = [Fault("first", "harness", point=first), Fault("second", "harness", point=second, when=when)]
            if second == "harness_woken":  # its first visit is the very start: strike at the first one after that
                faults[1] = Fault("second", "harness", point="recovery_step", when=when)
            sessions.append(start(lab, receiver.url, faults, "write", "send"))
        for session in sessions:
            judge(session, receiver)
            struck = [e.payload["fault"] for e in session.replay() if e.type == "fault_injected"]
            assert struck == ["first", "second"], session.id


@pytest.mark.timeout(600)
def test_a_harness_and_its_sandbox_killed_together(lab, receiver):
    sessions = []
    for point in ("sandbox.execute", "tool_result", "checkpoint_written", "effect_completed"):
        faults = [Fault("box", "sandbox", point=point), Fault("harness", "harness", point=point)]
        sessions.append(start(lab, receiver.url, faults, "write", "slow", "send"))
    for session in sessions:
        judge(session, receiver)


def test_the_old_folder_of_a_killed_sandbox_is_never_read_again(lab, receiver, tmp_path, until):
    """A poisoned copy is put where the killed sandbox was: whoever reads it would report another text."""
    gate = tmp_path / "gate"
    task = tasks.task("write", "gate", "send", tools=tasks.MORE_TOOLS)
    session = lab.create(task, params={"receiver_url": receiver.url, "gate": str(gate)})
    session.start()
    until(gate.with_name("gate.reached").exists, what="a tool that runs in the sandbox")
    assert any(e.type == "snapshot_taken" for e in session.replay())
    record = dict(session.state.sandbox.record)
    session.kill("sandbox")
    home = Path(record["home"])
    assert not home.exists(), "a kill also deletes the folder"
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "report.txt").write_text("poison\n")
    os.chmod(home / "workspace" / "report.txt", 0o444)
    gate.touch()
    judge(session, receiver)
