"""A budget with real sessions: alert, checkpoint, pause, extension, and on it goes where it was."""

from __future__ import annotations

import pytest

from agentlab.errors import UnknownName, UserError

from . import tasks


def test_alert_checkpoint_pause_extend_and_on_where_it_was(lab, until):
    session = lab.create(tasks.task("measure", "write"), limits={"tool_calls": 1}, policy="never")
    told = []
    session.budget.on_alert(told.append)
    session.start()
    assert session.wait(120).status == "paused"
    until(lambda: told, what="the callback")
    assert told[0]["dimension"] == "tool_calls" and told[0]["limit"] == 1 and told[0]["threshold"] == 0.95
    kinds = [e.type for e in session.events()]
    assert kinds.index("budget_alert") < kinds.index("checkpoint_written") < kinds.index("session_paused")

    row = session.budget().row("tool_calls")
    assert (row.used, row.reserved, row.at_risk, row.left, row.limit) == (1, 0, 0, 0, 1)
    assert row.forecast == 2 and row.enough is False, "one of two steps is done"
    done = session.state.plan.completed
    report = session.budget.extend(calls=1)
    assert report.row("tool_calls").left == 1 and report.row("tool_calls").enough
    session.wake(timeout_s=120)
    assert session.status().status == "completed"
    events = session.events()
    assert done == 1 and [e.type for e in events].count("step_started") == 2, "nothing was begun again"
    assert session.budget().row("tool_calls").used == 2
    with pytest.raises(UserError, match="has ended"):
        session.budget.extend(calls=1)


def test_what_can_not_be_extended(lab):
    session = lab.create(tasks.task("measure"), limits={"tool_calls": 1, "input_tokens": 50_000})
    before = session.state.seq
    with pytest.raises(UserError, match="steps has no limit.*limited: input_tokens, tool_calls"):
        session.budget.extend(steps=1)
    with pytest.raises(UnknownName, match="did you mean"):
        session.budget.extend(tokns="20k")
    with pytest.raises(UserError, match="no amount"):
        session.budget.extend(tokens="some")
    with pytest.raises(UserError, match="extend what"):
        session.budget.extend()
    assert session.state.seq == before, "nothing was written"
    assert session.budget.extend(tokens="20k").row("input_tokens").limit == 70_000
    assert session.budget.extend(tokens="20k").row("input_tokens").limit == 90_000
    with pytest.raises(UserError, match="nothing called"):
        session.budget.known("r-1", input_tokens=5)


def test_an_extension_that_somebody_else_overtakes_is_made_anew(lab, monkeypatch):
    session = lab.create(tasks.task("measure"), limits={"tool_calls": 1})
    other = type(lab)(lab.path).session(session.id)
    append, raced = session.add_input, []

    def overtaken(*drafts):
        if not raced:
            raced.append(other.budget.extend(calls=10))
        return append(*drafts)

    monkeypatch.setattr(session, "add_input", overtaken)
    assert session.budget.extend(calls=5).row("tool_calls").limit == 16, "both count, once each"


def test_a_killed_harness_leaves_its_reservation_at_risk_until_it_is_known(lab):
    session = lab.run(tasks.task("measure"), limits={"tokens": 100_000}, crash=["harness@model.reply"], timeout_s=120)
    assert session.status().status == "completed"
    report = session.budget()
    (request,) = session.state.budget.at_risk
    assert report.row("tokens").at_risk > 0 and report.row("model_calls").at_risk == 1
    used = report.row("input_tokens").used
    report = session.budget.known(request, input=11, output=2)
    assert report.row("tokens").at_risk == 0 and report.row("input_tokens").used == used + 11
