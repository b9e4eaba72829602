"""The queue over a log: never more than the limit, first come first, for any order of asking, dying and resting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentlab import crashpoints
from agentlab.clock import ManualClock, SystemClock
from agentlab.events import Draft
from agentlab.harness import queueing
from agentlab.harness.loop import run as run_loop
from agentlab.harness.wake import load
from agentlab.ids import CountedIds, RandomIds
from agentlab.log.memory import MemoryLog
from agentlab.pool.folder import PoolFolder
from agentlab.pool.journal import Journal
from agentlab.pool.queue import GRACE_S, Owners, SessionQueue
from agentlab.pool.state import PoolState, fold
from tests.harness.test_simulated_crashes import die_at, visits_of
from tests.harness.worlds import Outside, task, world

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


def test_the_log_is_summed_up_now_and_then_and_reads_the_same(tmp_path):
    folder = PoolFolder(tmp_path, SystemClock(), RandomIds())
    limit(folder.made(), 1)
    queue = SessionQueue(folder.journal, "a", {"pid": 1}, None, SystemClock(), RandomIds())
    for _ in range(90):
        assert queue.ask() == 0
        queue.rest()
    assert queue.ask() == 0
    assert list((tmp_path / "pools").glob("*/segments/*.parquet"))
    again = PoolFolder(tmp_path, SystemClock(), RandomIds()).journal()
    assert again.look() == folder.journal().look() and list(again.look().running) == ["a"] and again.look().seq > 256
    whole = PoolState()
    for event in again._log.replay():
        whole = fold(whole, event)
    assert whole == again.look(), "from the summary and from the beginning it is the same"
    (pointer,) = again._log.pointers()
    assert 250 < pointer.seq < 270
    for file in (tmp_path / "pools").glob("*/checkpoints/*"):  # a hint that is wrong is not believed
        file.write_bytes(file.read_bytes().replace(str(pointer.seq).encode(), str(pointer.seq - 5).encode()))
    assert PoolFolder(tmp_path, SystemClock(), RandomIds()).journal().look() == whole


# --- real harness code in the queue, killed at every crash point --------------------------------------------------------


def queued_world():
    """A simulated session behind another that holds the one place, until ``free`` says that this one is gone."""
    made, log = world(Outside()), MemoryLog("lab")
    made.accept(task(), "s")
    journal = Journal(log, made.clock, made.ids)
    limit(journal, 1)
    gone: set[int] = set()
    owners = Owners(made.clock, lambda record: "dead" if record["pid"] in gone else "alive", lambda pid: False)
    assert SessionQueue(lambda: journal, "holder", {"pid": 1}, None, made.clock, made.ids, owners).ask() == 0

    def run(pid: int, patience_s: float) -> str:
        """One incarnation; the holder leaves after it has waited so long."""
        if load(made.store.open("s"), made.store.blobs).state.control.status == "ended":
            return "ended"
        rig = made.wake("s")
        rig.queue = SessionQueue(
            lambda: Journal(log, made.clock, made.ids), "s", {"pid": pid}, None, made.clock, made.ids, owners
        )
        began = made.clock.monotonic()
        sleep = made.clock.sleep

        def slept(seconds: float) -> None:
            sleep(seconds)
            if made.clock.monotonic() - began > patience_s:
                gone.add(1)

        made.clock.sleep = slept
        queueing.enter(rig)
        why = run_loop(rig)
        queueing.leave(rig)
        return why

    return made, run, gone, journal


def test_a_death_at_every_visit_of_every_crash_point_in_the_queue_keeps_the_place():
    made, run, *_ = queued_world()
    visits = visits_of(lambda: run(2, 1.0))
    kinds = [e.type for e in made.store.open("s").replay()]
    assert kinds.index("session_queued") < kinds.index("session_admitted") < kinds.index("attempt_started")
    for visit in visits[:40]:  # waking, queueing, waiting, and the first steps after it
        made, run, gone, journal = queued_world()
        die_at(visit)
        try:
            run(2, 1.0)
        except crashpoints.SimulatedDeath:
            crashpoints.arm(None)
            gone.add(2)
            assert journal.look().place("s") <= 1
            before = journal.look().waiting.get("s")
            assert run(3, 1.0) == "ended", visit
            if before is not None:
                drawn = [e for e in journal._log.replay() if e.type == "place_asked" and e.payload["session"] == "s"]
                assert drawn[0].seq == before.number, "the ticket it drew first"
        crashpoints.arm(None)
        events = list(made.store.open("s").replay())
        queued = [e.seq for e in events if e.type == "session_queued"]
        admitted = [e.seq for e in events if e.type == "session_admitted"]
        work = next(e.seq for e in events if e.type == "attempt_started")
        assert not queued or queued[0] < admitted[-1] < work, "nothing is done before it has a place"
        assert not journal.look().running, "the place was given back"
