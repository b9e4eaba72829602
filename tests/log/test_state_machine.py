"""Random programs of appends, stale writers, seals and simulated deaths, with the store in memory as oracle."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentlab.contracts.log import events_after
from agentlab.crashpoints import CrashPoint, SimulatedDeath, When, arm
from agentlab.errors import Conflict
from agentlab.events import Head
from agentlab.log import MemoryStore, ParquetLog, ParquetStore
from agentlab.ports import Durability

WHO = st.integers(0, 1)
POINTS = st.sampled_from(
    [p for p in CrashPoint if p.value.startswith(("log.", "segment.")) and p.value not in ("log.replay", "log.commit")]
)
MOMENTS: st.SearchStrategy[When] = st.sampled_from(["before", "after"])
DURABILITIES: st.SearchStrategy[Durability] = st.sampled_from(["disk", "group", "process"])


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.lab = Path(tempfile.mkdtemp(prefix="log-machine-"))
        self.counter = 0

    @initialize(durability=DURABILITIES)
    def start(self, durability: Durability) -> None:
        ParquetStore(self.lab).create("s", durability)
        self.oracle = MemoryStore().create("s", durability)
        self.handles = [self.fresh(), self.fresh()]
        self.known = [self.oracle.head(), self.oracle.head()]

    def teardown(self) -> None:
        arm(None)
        shutil.rmtree(self.lab)

    def fresh(self) -> ParquetLog:
        return ParquetStore(self.lab).open("s")

    def commit_id(self) -> str:
        self.counter += 1
        return f"c-{self.counter}"

    @rule(who=WHO, size=st.integers(1, 3))
    def append(self, who: int, size: int) -> None:
        head = self.handles[who].head()
        assert head == self.oracle.head()
        self.append_at(who, head, size)

    @rule(who=WHO, size=st.integers(1, 3))
    def append_with_what_it_knows(self, who: int, size: int) -> None:
        self.append_at(who, self.known[who], size)

    def append_at(self, who: int, head: Head, size: int) -> None:
        events = events_after(head, "s", ["x"] * size, self.commit_id())
        outcomes = []
        for log in (self.handles[who], self.oracle):
            try:
                log.append(events, head.seq + 1)
                outcomes.append("appended")
            except Conflict:
                outcomes.append("conflict")
        assert outcomes[0] == outcomes[1]
        if outcomes[0] == "appended":
            self.known[who] = self.oracle.head()
            self.handles[who].append(events, head.seq + 1)  # its answer may get lost: trying again is harmless

    @rule(who=WHO)
    def look(self, who: int) -> None:
        known = self.known[who]
        assert list(self.handles[who].poll(known.seq)) == list(self.oracle.poll(known.seq))
        self.known[who] = self.handles[who].head()
        assert self.known[who] == self.oracle.head()

    @rule(who=WHO)
    def seal(self, who: int) -> None:
        self.handles[who].seal()

    @rule(who=WHO)
    def flush(self, who: int) -> None:
        self.handles[who].flush()

    @rule(who=WHO)
    def reopen(self, who: int) -> None:
        self.handles[who] = self.fresh()

    @rule(who=WHO, point=POINTS, when=MOMENTS, hit=st.integers(1, 3), sealing=st.booleans())
    def die(self, who: int, point: CrashPoint, when: When, hit: int, sealing: bool) -> None:
        left = hit

        def trigger(reached: CrashPoint, moment: When, detail: str) -> None:
            nonlocal left
            left -= reached is point and moment == when
            if left == 0:
                arm(None)
                raise SimulatedDeath

        log, head = self.handles[who], self.oracle.head()
        events = events_after(head, "s", ["x", "y"], self.commit_id())
        acknowledged = died = False
        arm(trigger)
        try:
            if sealing:
                log.seal()
            log.append(events, head.seq + 1)
            acknowledged = True
        except SimulatedDeath:
            died = True
        finally:
            arm(None)
        if died:
            self.handles[who] = self.fresh()
        landed = self.fresh().head().seq > head.seq
        assert landed or not acknowledged
        if landed:
            self.oracle.append(events, head.seq + 1)

    @invariant()
    def everybody_reads_the_same(self) -> None:
        if not hasattr(self, "oracle"):
            return
        log = self.fresh()
        assert list(log.replay()) == list(self.oracle.replay())
        middle = self.oracle.head().seq // 2
        assert list(self.fresh().replay(middle + 1)) == list(self.oracle.poll(middle))
        starts = [start for _, start in log.commit_files()]
        assert starts == sorted(set(starts)) and (not starts or starts[0] == 1)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
