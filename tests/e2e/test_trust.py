"""Whose code runs, and what never reaches a lab: labs of other owners, and secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import agentlab as al
from agentlab.errors import BadDefinition, NotTrusted
from agentlab.lab import Lab

from . import tasks
from .looking import files_with

ROOT = str(Path(__file__).parents[2])
SECRET = 'probe-0123456789-abcdef/ü+"quoted"'

OTHER_OWNER = """
import sys
import agentlab as al
from agentlab.lab import Lab
from tests.e2e import tasks

MARK = sys.argv[2]


class Bomb:
    def __reduce__(self):
        return open, (MARK + ".unpickled", "w")


BOMB = Bomb()


def trap(text: str) -> str:
    '''Leave a sign that foreign code ran.'''
    BOMB
    open(MARK + ".called", "w").close()
    return text


def policy(view):
    open(MARK + ".asked", "w").close()
    return al.say("all done") if view.calls("trap") else al.call("trap", text="hello")


def check() -> None:
    open(MARK + ".validated", "w").close()


task = al.Task("trap", "Run foreign code.", tools=[al.tool(trap, effect="pure")], model=policy, validator=check)
with Lab(sys.argv[1]) as lab:
    lab.create(task, session_id="fresh")
    paused = lab.create(task, session_id="paused")
    paused.pause("before anything")
    lab.create(tasks.task("measure"), session_id="by-name")
"""


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A lab that another owner made, and where its code would leave its marks."""
    place, mark = tmp_path / "lab", tmp_path / "ran"
    environment = {**os.environ, "AGENTLAB_STATE_DIR": str(tmp_path / "theirs"), "PYTHONPATH": ROOT}
    made = subprocess.run(
        [sys.executable, "-c", OTHER_OWNER, str(place), str(mark)], env=environment, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    for path in marks(mark):  # their own check that it can travel unpickled it once
        path.unlink()
    monkeypatch.setenv("AGENTLAB_STATE_DIR", str(tmp_path / "mine"))
    return place, mark


def marks(mark):
    return sorted(mark.parent.glob(mark.name + ".*"))


def contents(folder):
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_reading_a_foreign_lab_runs_nothing_and_writes_nothing(foreign):
    place, mark = foreign
    before = contents(place)
    with Lab(place) as lab:
        for session in lab.sessions():
            assert session.status().resumable
            assert session.plan().describe() and session.locate().next
            assert session.verify().seq == len(session.events()) == len(list(session.replay()))
            assert session.definition.goal and session.files() == {} and session.result is None
            session.to_json(), session.locate().to_json()
            assert repr(session)
    for verb in (["sessions"], ["log", "fresh", "--all"], ["locate", "fresh"], ["verify", "fresh"]):
        argv = [sys.executable, "-m", "agentlab", *verb, "--lab", str(place), "--json"]
        assert subprocess.run(argv, cwd=ROOT, capture_output=True).returncode == 0
    assert marks(mark) == []
    assert contents(place) == before


def test_a_foreign_session_is_refused_until_somebody_trusts_it(foreign):
    place, mark = foreign
    before = contents(place)
    with Lab(place) as lab:
        for name in ("fresh", "paused", "by-name"):
            with pytest.raises(NotTrusted, match="trust") as refusal:
                lab.session(name).start()
            assert "\n" not in str(refusal.value)
        with pytest.raises(NotTrusted):
            lab.session("fresh").wake(timeout_s=120)
        with pytest.raises(NotTrusted):
            lab.session("fresh").step(timeout_s=120)
        told = subprocess.run(
            [sys.executable, "-m", "agentlab", "wake", "fresh", "--lab", str(place)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert told.returncode == 2 and "--trust" in told.stderr and len(told.stderr.splitlines()) == 1
        assert marks(mark) == [], "nothing of it ran"
        assert {k: v for k, v in contents(place).items() if k in before} == before
        assert lab.session("fresh").status().status == "new"

        lab.session("fresh").wake(trust=True, timeout_s=120)
        assert lab.session("fresh").status().status == "completed"
        assert {path.suffix for path in marks(mark)} == {".unpickled", ".called", ".asked", ".validated"}


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setenv("PROBE_API_KEY", SECRET)
    return SECRET


def holds_no_secret(lab):
    parts = [SECRET, "probe-0123456789-abcdef", json.dumps(SECRET)[1:-1]]
    assert files_with(lab.path, *parts) == []


def test_a_secret_that_a_tool_prints_raises_or_returns_never_reaches_the_lab(lab, secret):
    session = lab.run(tasks.task(tools=(tasks.LEAK,), model=tasks.leaks_everywhere), timeout_s=120)
    assert session.status().status == "completed"
    told = [e for e in session.events() if e.type in ("tool_result", "tool_error")]
    assert [e.type for e in told] == ["tool_result", "tool_error", "tool_result"]
    assert all("[redacted:PROBE_API_KEY]" in repr(session.content(e)) for e in told), "the tools had it"
    session.verify()
    holds_no_secret(lab)


def test_a_secret_in_a_goal_an_answer_or_a_label_never_reaches_the_lab(lab, secret):
    session = lab.create(tasks.task("ask", goal=f"Use {secret} to log in."), params={"login": secret})
    session.checkpoint(f"with {secret}")
    session.start()
    assert session.wait(120).status == "waiting"
    session.reply(f"it is {secret}")
    session.wake(timeout_s=120)
    assert session.status().status == "completed"
    assert "[redacted:PROBE_API_KEY]" in session.definition.goal
    (answer,) = [e for e in session.events() if e.type == "tool_result"]
    assert "[redacted:PROBE_API_KEY]" in answer.payload["output"]
    session.pause(f"no more of {secret}")
    holds_no_secret(lab)


def test_a_secret_in_a_goal_too_large_for_a_row_never_reaches_the_lab(lab, secret):
    session = lab.run(tasks.task("measure", goal="Measure. " + "x" * 50_000 + secret), timeout_s=120)
    assert session.status().status == "completed"
    holds_no_secret(lab)


def test_code_that_holds_a_secret_is_refused_in_the_cell_that_wrote_it(lab, secret):
    def logs_in(user: str) -> str:
        """Log in."""
        return user + secret

    with pytest.raises(BadDefinition, match="PROBE_API_KEY.*os.environ"):
        lab.create(al.Task("login", "Log in.", tools=[al.tool(logs_in, effect="pure")], model=tasks.by_step))
    assert lab.sessions() == []
    holds_no_secret(lab)


def test_the_sandbox_has_no_secrets(lab, secret, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, f"another-{name}-0123456789")
    session = lab.run(tasks.task("environment", tools=(tasks.ENVIRONMENT,)), timeout_s=120)
    assert session.status().status == "completed"
    (result,) = [e for e in session.events() if e.type == "tool_result"]
    seen = session.content(result)["output"]
    assert "PATH" in seen and "HOME" in seen
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD")
    assert not [name for name in seen if any(word in name.upper() for word in words)]
    assert "redacted" not in repr(seen), "nothing had to be hidden: it was not there"
    holds_no_secret(lab)
