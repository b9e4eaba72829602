"""Replaying a session's model answers by name: from the lab, from a file, with kills, and when a question differs."""

from __future__ import annotations

import pytest

from agentlab.errors import BadDefinition, UnknownName, UserError
from agentlab.harness.recordings import exported, imported, recording_of
from agentlab.lab import Lab
from agentlab.models.scripted import ScriptedModel
from agentlab.testing.messages_server import MessagesServer

from . import tasks
from .looking import files_with

KEY = "sk-ant-recording-0123456789abcdef"


def of_type(session, *types):
    return [e for e in session.events() if e.type in types]


def answers(session):
    return [e.payload["content"] for e in of_type(session, "model_response")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE", "HTTP_PROXY", "http_proxy"):
            patch.delenv(name, raising=False)
        patch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path_factory.mktemp("no-profiles")))
        patch.setenv("ANTHROPIC_API_KEY", KEY)
        with MessagesServer(ScriptedModel(tasks.by_step), key=KEY) as running:
            yield running


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("recordings") / "lab") as made:
        yield made


@pytest.fixture(scope="module")
def recorded(lab, server):
    """A session on a claude-… model; every test but those that fall through asks no model any more."""
    task = tasks.task("measure", "write", model="claude-test", base_url=server.url)
    session = lab.run(task, session_id="original", policy="steps=1", timeout_s=120)
    assert session.status().status == "completed", session.locate()
    return session


def test_a_session_is_replayed_by_name_without_its_model(recorded, lab, server):
    asked = len(server.requests)
    task = tasks.task("measure", "write")
    again = lab.run(task, model="recorded:original", policy="never", timeout_s=120)
    assert again.status().status == "completed", again.locate()
    assert answers(again) == answers(recorded)
    assert {e.model for e in of_type(again, "model_response")} == {"claude-test"}
    assert len(server.requests) == asked, "no model was asked"
    used = dict(again.state.budget.used)
    assert {k: used[k] for k in ("input_tokens", "output_tokens")} == {
        k: recorded.state.budget.used[k] for k in ("input_tokens", "output_tokens")
    }


def test_a_file_travels_and_answers_in_another_lab(recorded, lab, server, tmp_path, monkeypatch):
    file = recorded.export_recording(tmp_path / "original.jsonl")
    assert KEY.encode() not in file.read_bytes() and files_with(lab.path, KEY) == []
    assert recorded.export_recording(tmp_path / "again.jsonl").read_bytes() == file.read_bytes()
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with Lab(tmp_path / "elsewhere") as other:
        task = tasks.task("measure", "write", "gate", tools=tasks.MORE_TOOLS)
        session = other.create(task, model=f"recorded:{file}", params={"gate": str(tmp_path / "gate")})
        session.start()
        session.wait(120)
        assert session.status().reason == "model", "other tools are another question"
        whole = other.create(tasks.task("measure", "write"), model=f"recorded:{file}", crash=["harness@tool_result"])
        file.unlink()
        assert whole.definition.model.startswith("recorded:original.jsonl@"), "no path of this machine, and pinned"
        whole.start()
        whole.wait(120)
        assert whole.status().crashes == 1
        [stuck] = of_type(whole, "model_error")
        assert 'asked "statement"' in stuck.payload["message"], "what a recovery asks was not recorded"
        calm = other.run(
            tasks.task("measure", "write", strategy="nothing"), model=whole.definition.model, timeout_s=120
        )
        assert calm.status().status == "completed" and answers(calm) == answers(recorded)


def test_a_question_that_differs_is_shown_and_may_fall_through(recorded, lab, server):
    task = tasks.task("measure", "write", goal="Write two lines.", base_url=server.url)
    session = lab.run(task, model="recorded:original", timeout_s=120)
    assert session.status().reason == "model"
    message = of_type(session, "model_error")[0].payload["message"]
    assert "Write two lines" in message and "Write one line" in message and "was not recorded" in message
    before = len(server.requests)
    live = lab.run(task, model="recorded:original?live=claude-test", timeout_s=120)
    assert live.status().status == "completed", live.locate()
    assert len(server.requests) > before, "the live model was asked"
    session.wake(model="recorded:original?live=claude-test", timeout_s=120)
    assert session.status().status == "completed", "also a session that rests goes on like that"


def test_a_fork_replays_what_its_parent_answered_later(recorded, lab, server):
    before = len(server.requests)
    at = next(e.seq for e in recorded.events() if e.type == "step_completed")
    fork = recorded.fork(at, model="recorded:original")
    fork.wake(timeout_s=120)
    assert fork.status().status == "completed", fork.locate()
    assert answers(fork) == answers(recorded) and len(server.requests) == before
    file = lab.path / "fork.jsonl"
    fork.export_recording(file)
    assert len(imported(file.read_bytes(), "fork")) == len(answers(recorded)), "the shared past is in it"


def test_every_question_is_put_together_again_from_the_log(recorded, lab):
    found = recording_of(recorded.log, lab.store.blobs)
    assert found and all(entry.request is not None for entry in found)
    again = imported(exported(found, "original", "small"), "x")
    assert [(e.digest, e.purpose, e.reply, e.request) for e in again] == [
        (e.digest, e.purpose, e.reply, e.request) for e in found
    ]


def test_what_is_no_recording_is_refused_before_anything_is_written(recorded, lab, tmp_path):
    before = len(lab.sessions())
    file = recorded.export_recording(tmp_path / "r.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    spoilt = {
        "cut": "".join(lines[:-1]),
        "torn": "".join(lines)[:-40],
        "foreign": '{"hello": 1}\n',
        "empty": "",
        "newer": lines[0].replace('"agentlab_recording":1', '"agentlab_recording":9') + "".join(lines[1:]),
    }
    for name, text in spoilt.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
        with pytest.raises(BadDefinition, match=name):
            lab.create(tasks.task("write"), model=f"recorded:{tmp_path / name}.jsonl")
    with pytest.raises(BadDefinition, match="can not be read"):
        lab.create(tasks.task("write"), model="recorded:nowhere.jsonl")
    with pytest.raises(UnknownName, match="original"):
        lab.create(tasks.task("write"), model="recorded:orignal")
    with pytest.raises(BadDefinition, match="live=MODEL"):
        lab.create(tasks.task("write"), model="recorded:original?fallback=x")
    with pytest.raises(UnknownName):
        lab.create(tasks.task("write"), model="recorded:original?live=clod")
    with pytest.raises(BadDefinition):
        lab.create(tasks.task("write"), model="recorded:?live=claude-test")
    with pytest.raises(UserError, match="jsonl"):
        recorded.export_recording(tmp_path / "r.txt")
    assert len(lab.sessions()) == before
