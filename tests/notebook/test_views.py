"""What is shown: escaped, offline, the same every time."""

from __future__ import annotations

import re

import pytest

import agentlab as al
from agentlab.notebook import agent, display
from agentlab.notebook.results import RunResult
from agentlab.notebook.views import LocatedView, LogView, SessionsTable, StatusView, TableView

HOSTILE = "<script>alert(1)</script><b onclick='x'>&amp;"


def hostile(view):
    return al.say(HOSTILE)


@pytest.fixture
def session(here):
    task = al.Task(name="hostile", goal=HOSTILE, steps=[], model=hostile, durability="process")
    return here.take(here.lab.run(task))


def views(session):
    yield RunResult.of(session)
    yield StatusView.of(session)
    yield LogView(session, tuple(session.events()))
    yield LogView(session, tuple(session.events()), tail=False, quiet=False)
    yield LocatedView(session, session.locate())
    yield SessionsTable(session.lab, (session.status(),))
    for line in ("", "lab", "tasks", "help", "verify", "run -h", "plan"):
        yield agent(line)
    yield TableView(HOSTILE, ("a", HOSTILE), ((1, HOSTILE),) * 30)


def test_everything_is_escaped_offline_and_has_inline_styles_only(session):
    for view in views(session):
        bundle = view._repr_mimebundle_()
        assert set(bundle) == {"text/plain", "text/html"}
        html = bundle["text/html"]
        assert HOSTILE not in html and "<script" not in html and not re.search(r"<[^>]*\sonclick", html)
        assert not re.search(r"<(style|svg|iframe|link|img)\b|https?://|javascript:", html)
        assert repr(view) == bundle["text/plain"] != ""


def test_the_same_twice(session):
    for first, second in zip(views(session), views(session), strict=True):
        assert first._repr_mimebundle_() == second._repr_mimebundle_()


def test_nothing_in_plain_output_changes_from_run_to_run(session):
    text = "sandbox sb-0123456789abcdef (pid 4711), process 12 at 2024-01-02T03:04:05.678Z, no event for 31 s"
    assert display.stable(text) == "sandbox sb-…, its process at …, no event for … s"


def test_in_live_mode_the_ids_are_shown(monkeypatch):
    monkeypatch.setenv("AGENTLAB_DISPLAY", "live")
    assert display.stable("process 12") == "process 12"


@pytest.mark.parametrize(
    ("env", "mode"),
    [
        ({"AGENTLAB_DISPLAY": "live"}, "live"),
        ({"AGENTLAB_DISPLAY": "none"}, "none"),
        ({"AGENTLAB_DISPLAY": "live", "CI": "true"}, "live"),
        ({"AGENTLAB_DISPLAY": "", "CI": "true"}, "plain"),
        ({"AGENTLAB_DISPLAY": "loud", "CI": ""}, "plain"),
    ],
)
def test_mode(monkeypatch, env, mode):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert display.mode() == mode


def test_config_overrides_the_environment(shell):
    shell.run("%config AgentMagics.display = 'none'")
    assert display.mode() == "none"
    shell.run("%config AgentMagics.display = ''")
    assert display.mode() == "plain"


def test_a_long_log_shows_some_rows_and_says_how_to_see_the_rest(session):
    events = tuple(session.events()) * 9
    view = LogView(session, events, quiet=False)
    assert len(view.text().splitlines()) == 21 and "%agent log --from 1" in view.text()
    assert view.html().count("<details") == 1
    assert "… and" in LogView(session, events, tail=False).text()


def test_a_result_can_be_used(session):
    result = RunResult.of(session)
    assert result.session is session and result.to_json()["status"]["status"] == "completed"
    assert result.to_json()["crashes"] == []
