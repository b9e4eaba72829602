"""The keeper's table of sessions, driven by hand, where the order of deaths decides. Real processes, no loop."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from agentlab import process
from agentlab.supervisor import keeper_system
from agentlab.supervisor.keeper_parts import Session
from agentlab.supervisor.keeper_sessions import Sessions

from .conftest import Bench, until


class Table:
    """A :class:`Sessions` whose deaths are handed over one by one."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.events: list[dict[str, Any]] = []
        self.selector = selectors.DefaultSelector()
        me = process.identify()
        files = keeper_system.RunFiles(str(bench.lab), me, me)
        watch = keeper_system.ExitWatch()
        self.sessions = Sessions(me, files, self.selector, watch, lambda event, **_: self.events.append(event))

    def start(self, *plans: list[str]) -> int:
        """Start a stand-in and return its pid."""
        answer = self.sessions.start(Session.of({"session": "s", "argv": self.bench.argv(*plans), "env": {}}))
        return int(answer["record"]["pid"])

    def listen(self) -> None:
        for key, mask in self.selector.select(60):
            key.data(mask)

    def names(self) -> list[str]:
        return [event["event"] for event in self.events]

    def dead(self, pid: int) -> None:
        """Wait until ``pid`` is a zombie."""
        until(lambda: process.start_time(pid) is None, f"{pid} is dead")

    def finish(self) -> None:
        self.sessions.close()
        self.sessions.kill_all()
        while not self.sessions.empty():
            for pid in list(self.sessions._by_pid):
                self.dead(pid)
                self.sessions.ended(pid)


@pytest.fixture
def table(bench: Bench) -> Iterator[Table]:
    made = Table(bench)
    yield made
    made.finish()


def test_the_next_harness_waits_until_the_last_tool_host_is_reaped(table: Table, bench: Bench) -> None:
    first = table.start(["spawn:toolhost", "stay"], ["stay"])
    table.listen()
    bench.staying()
    host = bench.spawned("toolhost")["pid"]
    os.kill(first, signal.SIGKILL)
    table.dead(first)
    table.sessions.ended(first)
    assert table.names() == ["started", "spawned", "exited"] and table.events[-1]["restarting"]
    table.dead(host)  # killed with its harness; but only when it is reaped, nobody can mistake it for alive
    assert table.names() == ["started", "spawned", "exited"]
    table.sessions.ended(host)
    assert table.names() == ["started", "spawned", "exited", "exited", "started"]


def test_a_stop_between_death_and_restart_takes_the_restart_back(table: Table, bench: Bench) -> None:
    first = table.start(["spawn:toolhost", "stay"])
    table.listen()
    bench.staying()
    host = bench.spawned("toolhost")["pid"]
    os.kill(first, signal.SIGKILL)
    table.dead(first)
    table.sessions.ended(first)
    assert table.sessions.stop("s", signal.SIGTERM) == {"ok": True, "record": None}
    busy = table.sessions.start(Session.of({"session": "s", "argv": ["x"], "env": {}}))
    assert not busy["ok"] and busy["busy"]
    table.dead(host)
    table.sessions.ended(host)
    assert table.names() == ["started", "spawned", "exited", "exited", "exited"]
    assert [event["restarting"] for event in table.events if event.get("kind") == "harness"] == [True, False]


@pytest.mark.parametrize(("last", "starts"), [("work:5", 2), ("done:paused", 1)])
def test_what_a_harness_said_before_it_died_counts_although_it_was_not_read_yet(
    table: Table, last: str, starts: int
) -> None:
    first = table.start([last, "die"], ["stay"])
    table.dead(first)
    table.sessions.ended(first)
    status = table.sessions.status()["s"]
    assert status["no_progress"] == 0 and status["starts"] == starts


def test_nothing_is_spawned_for_a_harness_that_is_dead(table: Table) -> None:
    first = table.start(["spawn:sandbox", "stay"])
    until(lambda: table.selector.select(0), "the request is there")
    os.kill(first, signal.SIGKILL)
    table.dead(first)
    table.sessions.ended(first)
    assert "spawned" not in table.names()
