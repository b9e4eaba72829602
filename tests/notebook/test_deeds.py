"""A line of work of the panel: in order, and what has not begun can be taken back."""

from __future__ import annotations

import threading

from agentlab.notebook.panel.deeds import Deeds


def test_a_command_that_waits_is_taken_back_and_told_why_and_the_one_in_progress_goes_on():
    began, go_on, over = threading.Event(), threading.Event(), threading.Event()
    done: list[str] = []
    said: list[tuple[str, str]] = []

    def step(session):
        began.set()
        go_on.wait(60)
        done.append("step")

    deeds = Deeds(None, "deeds")
    deeds.do(step, lambda result, complaint: said.append(("step", complaint)))
    assert began.wait(60)
    deeds.do(lambda session: done.append("run"), lambda result, complaint: said.append(("run", complaint)))
    assert deeds.withdraw("a pause was asked") == 1
    assert said == [("run", "a pause was asked")]
    go_on.set()
    deeds.do(lambda session: done.append("later"), lambda result, complaint: over.set())
    assert over.wait(60) and done == ["step", "later"] and said[1:] == [("step", "")]
    assert deeds.withdraw("nothing waits") == 0
    deeds.close()
