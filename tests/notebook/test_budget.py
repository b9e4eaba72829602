"""%agent budget: read it, give it more, go on."""

from __future__ import annotations

import pytest

import agentlab as al
from agentlab import tasknames
from agentlab.errors import UserError
from agentlab.notebook import agent
from tests.e2e import tasks


def test_budget_is_shown_extended_and_the_session_goes_on(here):
    lab = al.Lab("lab")
    session = lab.run(tasks.task("measure", "write"), limits={"tool_calls": 1, "wall_s": 3600}, timeout_s=120)
    agent("lab lab")
    here.take(session)
    view = agent("budget")
    text, html = str(view), view.html()
    for part in ("tool_calls", "used", "reserved", "at risk", "left", "forecast", "(too little left)", "no limit"):
        assert part in text and part in html
    assert "over 95% of its limit" in text and "%agent budget extend" in text
    assert text == str(agent("budget")), "nothing in it changes by itself"
    assert view.report.row("tool_calls").left == 0
    stayed = agent("budget extend calls=1 --stay")
    assert stayed.report.row("tool_calls").left == 1 and session.status().status == "paused"
    gone_on = agent("budget extend tool_calls=1")
    assert "completed" in str(gone_on) and session.status().status == "completed"
    for wrong in ("budget extend", "budget extent calls=1", "budget extend calls"):
        with pytest.raises(UserError, match="tokens=20k"):
            agent(wrong)
    with pytest.raises(UserError, match="has ended"):
        agent("budget extend calls=1")


def test_a_budget_that_all_sessions_share():
    agent("lab lab")
    assert "share no budget" in str(agent("budget --lab"))
    assert "1,000,000" in str(agent("budget --lab limit tokens=1M"))
    view = agent("budget --lab extend tokens=20k")
    assert view.report.row("tokens").limit == 1_020_000 and "1,020,000" in view.html()
    assert al.Lab("lab").pool().row("tokens").left == 1_020_000
    assert "crm: at most 30 a minute" in str(agent("budget --lab quota crm=30"))
    assert "a minute" not in str(agent("budget --lab quota crm=none"))
    assert "share no budget" in str(agent("budget --lab limit tokens=none"))


def test_the_hint_names_the_limit_that_is_short_and_a_tool_is_limited_in_a_line(here, monkeypatch):
    monkeypatch.setattr(tasknames, "_registered", {})  # what is registered here no other test is to see
    al.register_task(tasks.task("measure", "write", name="in_a_line", limits={"tokens": "1M"}))
    agent("lab lab")
    agent("run in_a_line --limit tool:measure=5 --limit tool_calls=1")
    assert "%agent budget extend tool_calls=AMOUNT" in str(agent("budget"))
    assert agent("budget").report.row("tool:measure").limit == 5
    with pytest.raises(UserError, match="did you mean tool_calls"):
        agent("run in_a_line --limit tool_cals=5")
