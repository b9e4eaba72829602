"""An answer that comes while the harness that asked is still on its way out."""

from __future__ import annotations

import contextlib
import signal
import threading

import pytest

import agentlab as al
from agentlab import process

from .owner import Owner


@al.tool(effect="pure", needs_approval=True)
def press() -> str:
    """Press it."""
    return "pressed"


def presses(view):
    return al.say("done") if view.calls("press") else al.call("press")


@pytest.mark.parametrize("whose", ["its own", "another owner's"])
def test_a_wake_while_the_harness_that_asked_has_not_left_yet_goes_on(lab, until, whose):
    task = al.Task(name="button", goal="Press it.", tools=[press], model=presses)
    session = lab.create(task, crash=["stop:harness@question_asked:after"])
    with contextlib.ExitStack() as stack:
        if whose == "its own":
            session.start()
        else:
            stack.enter_context(Owner(lab.path)).start(session.id)
        until(lambda: session.state.control.status == "waiting", what="a question")
        resting = dict(session.state.process)
        until(lambda: process.stopped(resting["pid"]), what="it is stopped before it has left")
        session.approve()
        waking = threading.Thread(target=session.wake, daemon=True)
        waking.start()
        waking.join(0.3)
        assert waking.is_alive() and process.liveness(resting) == "alive", "the stopped harness can not leave yet"
        process.send_signal(resting, signal.SIGCONT)
        waking.join(120)
        assert not waking.is_alive() and session.status().status == "completed"


def test_a_session_that_comes_to_rest_while_it_is_woken_is_woken_all_the_same(lab, until, monkeypatch):
    session = lab.create(al.Task(name="hopeless", goal="Try.", model=gives_up))
    session.start(arm=[al.parse_fault("stop:harness@session_paused", "stop")])
    until(lambda: session.state.process and process.stopped(session.state.process["pid"]), what="about to rest")
    lingers = session._lingers

    def rests_meanwhile():
        process.send_signal(session.state.process, signal.SIGCONT)
        until(lambda: not lab.supervisor.alive(session.id), what="it has left")
        return lingers()

    monkeypatch.setattr(session, "_lingers", rests_meanwhile)
    assert session.status().status == "running"
    session.wake()
    assert session.status().status == "paused"
    assert [e.type for e in session.events()].count("session_paused") == 2, "it tried again"


def gives_up(view):
    raise al.UserError("it is hopeless")


def test_an_answer_and_a_wake_one_right_after_the_other(lab):
    for _ in range(3):
        session = lab.run(al.Task(name="colour", goal="Ask for a colour.", model=asks))
        assert session.status().status == "waiting"
        session.reply("blue")
        session.wake()
        assert session.status().status == "completed"


def asks(view):
    if not view.calls("ask_user"):
        return al.call("ask_user", question="Which colour?")
    return al.say(f"It is {view.last.result}.")
