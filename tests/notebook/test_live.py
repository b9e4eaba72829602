"""Following a run in a cell: how often its view is renewed, and an Interrupt that comes early."""

from __future__ import annotations

import signal
from types import SimpleNamespace

from agentlab.lab import Session
from agentlab.notebook import live
from agentlab.notebook.live import LiveView, counted_interrupts
from tests.notebook.conftest import SLOW, hold, let_go


def test_the_view_is_renewed_at_most_four_times_a_second_however_often_there_is_news(here, monkeypatch):
    clock, shown = [0.0], []
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    view = LiveView(here.lab.create("sales_report"))
    monkeypatch.setattr(view, "_put", lambda html: shown.append(clock[0]))
    for step in range(64 * 4):
        clock[0] = step / 64
        view.refresh()
    assert shown == [quarter / 4 for quarter in range(16)]


def test_interrupts_are_counted_from_the_outermost_count_on():
    before = signal.getsignal(signal.SIGINT)
    with counted_interrupts() as outer:
        signal.raise_signal(signal.SIGINT)
        with counted_interrupts() as inner:
            assert inner is outer and inner.count == 1
        signal.raise_signal(signal.SIGINT)
        assert outer.count == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_between_the_start_of_a_harness_and_the_wait_for_it_pauses(shell, here, monkeypatch):
    begin = Session.start

    def interrupted(session, **how):
        begin(session, **how)
        let_go(held, session, "pause_requested")
        signal.raise_signal(signal.SIGINT)

    held = hold(2)
    monkeypatch.setattr(Session, "start", interrupted)
    shell.run(SLOW)
    assert shell.run("%agent run slow").status.status == "paused"
    held = hold(4)
    (session,) = here.lab.sessions()
    monkeypatch.setattr(Session, "start", begin)
    assert session.status().status == "paused"
    held.unlink()
    assert shell.run("%agent wake").status.status == "completed"
