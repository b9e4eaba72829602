"""In a real kernel: one output, live updates, Interrupt, deaths, and a new kernel."""

from __future__ import annotations

import re

import pytest

from agentlab.lab import Lab
from tests.notebook.conftest import SLOW, held_in, hold, kinds, processes_of, text_of, until


def events_of(tmp_path, session_id):
    return until(lambda: session_id in Lab(tmp_path / "lab").store.sessions()) and Lab(tmp_path / "lab").session(
        session_id
    )


def one_result_each(session):
    """What the model asked for, after checking that every call has exactly one result."""
    events = session.events()
    asked = {e.call_id: e.payload["input"]["n"] for e in events if e.type == "tool_requested"}
    assert sorted(e.call_id for e in events if e.type == "tool_result") == sorted(asked)
    return list(asked.values())


def test_plain_and_none_and_live(kernels, tmp_path):
    kernel = kernels()
    kernel.run(SLOW.replace("12", "6"))
    status, seen = kernel.take(kernel.send("r = %agent run slow\nr"))
    assert status == "ok" and [m["msg_type"] for m in seen] == ["execute_result"]
    assert set(seen[0]["content"]["data"]) == {"text/plain", "text/html"}

    kernel.run("%env AGENTLAB_DISPLAY=none")
    assert kernel.run("%agent run slow") == ""
    assert kernel.run("x = %agent status\nprint(x.status.status)").strip() == "completed"

    kernel.run("%env AGENTLAB_DISPLAY=live")
    held, shown = hold(2, tmp_path), []
    wanted = ("of 40</span>", "<meter", "decided nap", "faults: 1 armed, 0 struck", "time left: 59 min")

    def heard(message):
        """The nap goes when all that is to be seen meanwhile has been seen; the time that is left changes every second."""
        shown.append(message["content"]["data"].get("text/html", ""))
        if len(shown) > 3 and all(any(words in html for html in shown) for words in wanted):
            held.unlink(missing_ok=True)

    cell = kernel.send("%agent run slow --limit tool_calls=40 --limit wall=60min --fault tool:lost_reply#99")
    status, seen = kernel.take(cell, heard=heard)
    types = [m["msg_type"] for m in seen]
    assert status == "ok" and types[0] == "display_data" and types[-1] == "execute_result"
    assert set(types[1:-1]) == {"update_display_data"}
    assert len({m["content"]["transient"]["display_id"] for m in seen[:-1]}) == 1
    assert "timeline" in seen[-2]["content"]["data"]["text/html"]
    with pytest.raises(Exception):  # noqa: B017 - nothing comes after the reply: the queue is empty
        kernel.client.get_iopub_msg(timeout=0.7)


@pytest.mark.parametrize("how", ["once", "twice"])
def test_interrupt_pauses(kernels, tmp_path, how):
    kernel = kernels()
    kernel.run(SLOW)
    held = hold(2, tmp_path)
    cell = kernel.send("%agent run slow")
    session = events_of(tmp_path, "naps-1")
    held_in(session, 2)
    kernel.manager.interrupt_kernel()
    until(lambda: "pause_requested" in kinds(session))
    if how == "twice":
        kernel.manager.interrupt_kernel()  # it does not wait for the nap, which goes on being held
    else:
        held.unlink()
    status, seen = kernel.take(cell)
    assert status == "ok"
    text = text_of(seen[-1])
    assert "naps-1: paused" in text and "%agent wake" in text and "%agent step" in text
    requested = [e.payload["mode"] for e in session.events() if e.type == "pause_requested"]
    assert requested == (["safe"] if how == "once" else ["safe", "now"])
    assert session.status().status == "paused" and kinds(session).count("harness_woken") == 1
    if how == "once":
        assert "completed" in kernel.run("%agent wake")
        assert one_result_each(session) == list(range(12))


def test_kill_and_wake(kernels, tmp_path):
    kernel = kernels()
    kernel.run(SLOW)
    held = hold(3, tmp_path)
    kernel.run("%agent run slow --background")
    session = events_of(tmp_path, "naps-1")
    held_in(session, 3)
    assert "killed: harness of naps-1" in kernel.run("%agent kill harness")
    assert "crashed" in kernel.run("%agent status")
    held.unlink()
    text = kernel.run("%agent wake")
    assert "naps-1: completed" in text and re.search(r"^harness +by hand ", text, re.MULTILINE)
    assert set(one_result_each(session)) == set(range(12))


def test_sigkill_of_the_kernel_leaves_nothing_and_a_new_kernel_wakes(kernels, tmp_path):
    kernel = kernels()
    kernel.run(SLOW)
    held = hold(3, tmp_path)
    kernel.run("%agent run slow --background")
    session = events_of(tmp_path, "naps-1")
    held_in(session, 3)
    assert len(processes_of(tmp_path)) >= 3  # keeper, harness, sandbox
    kernel.kill()
    until(lambda: not processes_of(tmp_path))
    new = kernels()
    assert "naps-1: crashed" in new.run("%agent")
    held.unlink()
    assert "naps-1: completed" in new.run("%agent wake")
    assert set(one_result_each(session)) == set(range(12))
    session.verify()
