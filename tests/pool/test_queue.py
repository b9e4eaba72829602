"""The queue over a log: never more than the limit, first come first, for any order of asking, dying and resting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentlab.clock import ManualClock, SystemClock
from agentlab.events import Draft
from agentlab.ids import CountedIds, RandomIds
from agentlab.log.memory import MemoryLog
from agentlab.pool.folder import PoolFolder
from agentlab.pool.journal import Journal
from agentlab.pool.queue import GRACE_S, Owners, SessionQueue

SESSIONS = st.sampled_from(["a", "b", "c", "d"])


def limit(journal, number):
    journal.change(lambda state: (Draft("pool_limited", {"id": "l", "max_sessions": number}),))


class Queue(RuleBasedStateMachine):
    """Sessions ask, rest and die; processes are numbers, and a set says which live."""

    @initialize(number=st.integers(1, 3))
    def begin(self, number):
        self.clock, self.ids, self.log = ManualClock(), CountedIds(), MemoryLog("pool")
        self.alive: dict[str, int] = {}
        self.pids = 0
        self.asked: list[str] = []  # the order of the tickets of those that wait
        self.number = number
        limit(self.journal(), number)

    def journal(self):
        return Journal(self.log, self.clock, self.ids)

    def ask(self, name):
        owners = Owners(
            self.clock,
            lambda record: "alive" if record["pid"] in self.alive.values() else "dead",
            lambda pid: False,
        )
        queue = SessionQueue(self.journal, name, {"pid": self.alive[name]}, None, self.clock, self.ids, owners)
        place = queue.ask()
        if place and name not in self.asked:
            self.asked.append(name)
        if not place and name in self.asked:
            ahead = self.asked[: self.asked.index(name)]
            free = self.number - len(self.running() - {name})
            assert sum(1 for other in ahead if other in self.alive) < free, f"{name} went before {ahead}"
            self.asked.remove(name)
        return place

    def running(self):
        return {n for n in self.journal().look().running if n in self.alive}

    @rule(name=SESSIONS)
    def wakes_or_asks_again(self, name):
        if name not in self.alive:
            self.pids += 1
            self.alive[name] = self.pids
        self.ask(name)

    @rule(name=SESSIONS)
    def dies(self, name):
        self.alive.pop(name, None)

    @rule(name=SESSIONS)
    def rests(self, name):
        if self.alive.pop(name, None) is not None:
            SessionQueue(self.journal, name, {}, None, self.clock, self.ids).rest()

    @rule(number=st.integers(1, 3))
    def another_limit(self, number):
        self.number = max(number, len(self.running()))
        limit(self.journal(), self.number)

    @invariant()
    def never_more_than_the_limit(self):
        assert len(self.running()) <= self.number

    @invariant()
    def order_is_kept(self):
        waiting = [ticket.session_id for ticket in self.journal().look().queue()]
        assert waiting == self.asked

    def teardown(self):
        if not hasattr(self, "log"):
            return
        for _ in range(20):  # nobody waits for ever: whoever lives gets a place when the others rest
            for name in list(self.alive):
                if self.ask(name) == 0:
                    self.rests(name)
        assert not self.alive


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_place_whose_keeper_lives_is_kept_for_the_next_harness_for_a_while():
    clock, ids, log = ManualClock(), CountedIds(), MemoryLog("pool")
    journal = Journal(log, clock, ids)
    limit(journal, 1)
    dead: set[int] = set()
    owners = Owners(clock, lambda record: "dead" if record["pid"] in dead else "alive", lambda pid: False)

    def queue(name, pid):
        return SessionQueue(lambda: journal, name, {"pid": pid}, {"pid": 100}, clock, ids, owners)

    assert queue("a", 1).ask() == 0 and queue("b", 2).ask() == 1
    dead.add(1)
    assert queue("b", 2).ask() == 1, "its keeper may start the next one"
    assert queue("a", 3).ask() == 0, "and did"
    dead.add(3)
    assert queue("b", 2).ask() == 1
    clock.advance(GRACE_S + 1)
    assert queue("b", 2).ask() == 0, "it did not"
    assert queue("a", 4).ask() == 1


RACER = """
import sys
from agentlab import process
from agentlab.clock import SystemClock
from agentlab.ids import RandomIds
from agentlab.pool.folder import PoolFolder
from agentlab.pool.queue import SessionQueue
folder = PoolFolder(sys.argv[1], SystemClock(), RandomIds())
queue = SessionQueue(folder.journal, sys.argv[2], process.identify(), None, SystemClock(), RandomIds())
print("ready", flush=True)
sys.stdin.readline()
print(queue.ask(), flush=True)
sys.stdin.readline()
"""


def test_processes_that_ask_at_the_same_moment_get_places_and_numbers_without_a_gap(tmp_path):
    folder = PoolFolder(tmp_path, SystemClock(), RandomIds())
    limit(folder.made(), 2)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path), f"s{i}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )
        for i in range(5)
    ]  # fmt: skip
    try:
        assert all(r.stdout.readline() == "ready\n" for r in racers)
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        places = sorted(int(r.stdout.readline()) for r in racers)
        assert places == [0, 0, 1, 2, 3]
        state = folder.journal().look()
        assert len(state.running) == 2 and [t.number for t in state.queue()] == sorted(t.number for t in state.queue())
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


def test_the_log_is_merged_now_and_then_and_reads_the_same(tmp_path):
    folder = PoolFolder(tmp_path, SystemClock(), RandomIds())
    limit(folder.made(), 1)
    queue = SessionQueue(folder.journal, "a", {"pid": 1}, None, SystemClock(), RandomIds())
    for _ in range(90):
        assert queue.ask() == 0
        queue.rest()
    assert list((tmp_path / "pools").glob("*/segments/*.parquet"))
    again = PoolFolder(tmp_path, SystemClock(), RandomIds()).journal().look()
    assert again == folder.journal().look() and not again.running and again.seq > 256
