"""Waking a session that never began, that crashed, that waits, and that has ended: each gets what is right for it."""

from __future__ import annotations

import pytest

from agentlab import process
from agentlab.errors import UserError
from agentlab.faults import Fault
from agentlab.notebook.results import PlanView

from . import tasks


def test_one_that_nobody_started_begins(lab):
    session = lab.create(tasks.task("measure"))
    assert session.status().status == "new"
    session.wake(timeout_s=120)
    assert session.status().status == "completed"
    assert [e.payload["reason"] for e in session.replay() if e.type == "harness_woken"] == ["start"]


def test_one_that_crashed_asks_a_person_when_told_so_and_goes_on_with_an_approval(lab, receiver, until):
    session = lab.create(tasks.task("measure", "send"), params={"receiver_url": receiver.url})
    session.start(restart=False, arm=[Fault("f", "harness", point="effect.reply")])
    until(lambda: session.status().status == "crashed", what="the death of the harness")
    plan = session.plan()
    assert plan.name == "StartRecovery" and any(line.startswith(f"verify: {session.id}#") for line in plan.plan)
    shown = PlanView(session, plan, session.status())
    assert "  rebuild: goal, confirmed facts, next action\n  verify: " in shown.text() and "statement" in shown.html()
    until(lambda: not lab.supervisor.alive(session.id), what="the keeper to let go")
    session.wake(confirm=True, timeout_s=120)
    assert session.status().status == "waiting" and "May it go on?" in session.status().reason
    with pytest.raises(UserError, match="waits for a person"):
        session.wake()
    session.approve("looks right")
    session.wake(timeout_s=120)
    assert session.status().status == "completed" and len(receiver.ledger()) == 1
    steps = [e for e in session.replay() if e.type == "recovery_step"]
    assert [e.payload["step"] for e in steps] == ["load", "rebuild", "verify", "statement"]
    assert all(e.duration_ms is not None for e in steps) and steps[0].duration_ms > 0
    (cost,) = session.crash_costs()
    assert cost.tax.seconds > 0 and cost.tax.tokens > 0 and session.recovery_tax() == cost.tax


def test_one_that_has_ended_is_left_alone_and_its_sandbox_is_ended(lab, until):
    session = lab.create(tasks.task("write"))
    session.start(restart=False, arm=[Fault("f", "harness", point="session_ended", when="after")])
    until(lambda: session.state.control.status == "ended", what="the end of the task")
    until(lambda: not lab.supervisor.alive(session.id), what="the death of the harness")
    sandbox = dict(session.state.sandbox.record)
    assert process.liveness(sandbox) == "alive", "nobody could give it back"
    head = session.log.head()
    with pytest.raises(UserError, match="has ended .completed.: there is nothing to wake; fork it"):
        session.wake()
    assert process.await_death(sandbox, 60.0) and session.log.head() == head


@pytest.mark.parametrize("scheme", ["events", "snapshot"])
def test_the_other_schemes_survive_real_kills(lab, receiver, scheme):
    crash = ["harness@effect.reply", "harness@step_completed#2"]
    task = tasks.task("measure", "write", "send")
    session = lab.run(task, scheme=scheme, crash=crash, params={"receiver_url": receiver.url}, timeout_s=120)
    assert session.status().status == "completed", session.locate()
    assert len(receiver.ledger()) == 1 and session.read_file("report.txt") == b"hello\n"
    went_back = [e for e in session.replay() if e.type == "restored_to"]
    assert bool(went_back) == (scheme == "snapshot")
    assert [c for c in session.checkpoints() if c.reason != "by hand"] == [] or scheme == "snapshot"
    session.verify()
