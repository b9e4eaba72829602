"""Tools of a notebook run where the notebook is, and what lies there shadows nothing of ours."""

import os

import pytest

import agentlab as al


def where() -> str:
    """The working folder."""
    return os.getcwd()


def ask(view):
    return al.call("where") if view.status.get("step") else al.say("done")


def task():
    return al.Task(
        "where",
        "Say where you are.",
        tools=[al.tool(where, effect="pure")],
        steps=[al.step("ask", tool="where")],
        model=ask,
    )


def answer(session):
    return next(e.payload["output"] for e in session.events() if e.type == "tool_result")


def test_a_tool_runs_in_the_owners_folder(lab, tmp_path, monkeypatch):
    place = tmp_path / "notebooks"
    place.mkdir()
    monkeypatch.chdir(place)
    assert answer(lab.run(task())) == str(place)


@pytest.mark.parametrize("name", ["json", "random", "agentlab", "socket"])
def test_a_file_beside_the_notebook_named_like_a_library_shadows_nothing(lab, tmp_path, monkeypatch, name):
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    session = lab.run(task())
    assert session.status().status == "completed", session.locate()


def test_a_folder_that_is_gone_does_not_stop_a_session(lab, tmp_path, monkeypatch):
    place = tmp_path / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    session = lab.run(task())
    monkeypatch.chdir(tmp_path)
    assert answer(session) == str(lab.path)
