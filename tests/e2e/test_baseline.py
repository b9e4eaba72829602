"""What a run was made with is in the log, and a wake under something else says so."""

import subprocess
import sys
import textwrap

import pytest

from agentlab.errors import UserError
from agentlab.lab import Lab

from . import tasks


def test_every_opening_records_the_baseline(lab):
    session = lab.run(tasks.task("write"))
    started, woken = (e for e in session.events() if e.type in ("session_started", "harness_woken"))
    wanted = {
        "agentlab",
        "event_schema",
        "checkpoint_schema",
        "model",
        "model_params",
        "system",
        "tools",
        "policy",
        "limits",
        "prices",
    }
    for event in (started, woken):
        assert wanted <= set(event.payload["baseline"])
    assert not [e for e in session.events() if e.type == "baseline_changed"]


def test_a_wake_under_another_model_says_so_and_goes_on(lab):
    session = lab.create(tasks.task("write", "slow"))
    session.step()
    session.wake(model="scripted:tests.e2e.tasks:by_step")
    assert session.status().status == "completed"
    session = lab.create(tasks.task("write"))
    session.step()
    session.pause()
    session.kill()
    session.wake(model="scripted:tests.e2e.tasks:skips_after_errors")
    assert session.status().status == "completed"
    changed = [e for e in session.events() if e.type == "baseline_changed"]
    assert changed and "model" in changed[0].payload["fields"]
    assert changed[0].payload["after"]["model"].endswith("skips_after_errors")
    assert [e.payload["action"] for e in session.events() if e.type == "decision"][0] == "fail"


def test_a_tool_whose_source_changed_pauses_the_next_wake_until_it_is_allowed(tmp_path):
    module = tmp_path / "my_tools.py"
    module.write_text("def greet(name: str) -> str:\n    return 'hello ' + name\n")
    script = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import agentlab as al, my_tools
        def policy(view):
            return al.call("greet", name="Ada") if view.status.get("step") else al.say("done")
        if __name__ == "__main__":
            lab = al.Lab({str(tmp_path / "lab")!r})
            task = al.Task("greeting", "Greet.", tools=[al.tool(my_tools.greet, effect="pure")],
                           steps=[al.step("greet", tool="greet")], model=policy)
            lab.create(task, crash=["harness@model.send"]).start(restart=False)
            session = lab.session("greeting-1")
            session.wait(120)
        """
    )
    (tmp_path / "run.py").write_text(script)
    subprocess.run([sys.executable, str(tmp_path / "run.py")], capture_output=True, timeout=280)
    module.write_text("def greet(name: str) -> str:\n    return 'good morning ' + name\n")
    with Lab(tmp_path / "lab") as lab:
        session = lab.session("greeting-1")
        for _ in range(2):
            session.wake()
            assert (session.status().status, session.status().reason) == ("paused", "tools")
        assert "my_tools:greet" in session.state.control.reason + str(session.events()[-1].payload)
        assert not [e for e in session.events() if e.type == "tool_result"], "nothing of it has run"
        with pytest.raises(UserError, match="current"):
            session.wake(tools="old")
        session.wake(tools="current")
        assert session.status().status == "completed"
        changed = next(e for e in session.events() if e.type == "baseline_changed")
        assert changed.payload["after"]["sources_changed"] == ["my_tools:greet"]
