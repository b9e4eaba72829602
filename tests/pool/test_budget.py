"""A budget shared by sessions: never overdrawn, whatever dies when; the two logs agree again after every recovery."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentlab import crashpoints
from agentlab.clock import ManualClock
from agentlab.definition import Limits
from agentlab.errors import Fenced
from agentlab.events import GENESIS, Draft
from agentlab.harness import pooling
from agentlab.harness.loop import run as run_loop
from agentlab.harness.wake import load
from agentlab.ids import CountedIds
from agentlab.lab.inputs import append_input
from agentlab.log.memory import MemoryLog
from agentlab.pool.budget import PoolBudget, Unused
from agentlab.pool.journal import Journal
from agentlab.session.fold import fold_all
from agentlab.session.state import State
from tests.harness.test_simulated_crashes import die_at, visits_of
from tests.harness.worlds import Outside, task, world


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    crashpoints.arm(None)


def limit(journal, dimension, amount):
    version = journal.look().versions.get(dimension, 0)
    payload = {"id": "l", "dimension": dimension, "limit": amount, "expected_version": version}
    journal.change(lambda state: (Draft("pool_extended", payload),))


class Shared(RuleBasedStateMachine):
    """Sessions draw, spend, give back, die between the two logs, wake as the next incarnation; zombies try too."""

    names = st.sampled_from(["a", "b", "c"])

    @initialize(amount=st.integers(50, 400))
    def begin(self, amount):
        self.log, self.ids, self.limit = MemoryLog("pool"), CountedIds(), amount
        limit(self.journal(), "tokens", amount)
        self.allotted = {}  # what each session's own log says it has
        self.spent = {"a": 0, "b": 0, "c": 7}  # one spent something before there was a pool
        self.brought = dict(self.spent)
        self.incarnation = dict.fromkeys(self.spent, 0)
        self.ended = set()

    def journal(self):
        return Journal(self.log, ManualClock(), self.ids)

    def pool(self, name):
        def judge(other):
            dead = other in self.ended or other not in self.allotted
            return Unused(lambda _: self.spent[other], {}, other in self.ended) if dead else None

        return PoolBudget(self.journal, name, self.ids, judge)

    @rule(name=names)
    def wakes(self, name):
        if name in self.ended:
            return
        self.incarnation[name] += 1
        joined = self.pool(name).join(self.incarnation[name], lambda _: self.spent[name])
        self.allotted[name] = joined["tokens"]
        assert self.allotted[name] >= self.spent[name], "nothing that is spent was taken back"

    @rule(name=names, need=st.integers(1, 120), dies=st.booleans())
    def draws(self, name, need, dies):
        if name not in self.allotted:
            return
        total = self.allotted[name] + need
        left = self.limit - self.taken()
        drawn = self.pool(name).draw("r", self.incarnation[name], {"tokens": total}, {"tokens": total + 8 * need})
        if dies:
            del self.allotted[name]  # the reservation is in the pool's log only
        elif drawn.refused:
            assert drawn.allotted["tokens"] < total
            assert self.limit - self.taken() - need <= 0 or left <= need
        else:
            assert drawn.allotted["tokens"] >= total
            self.allotted[name] = drawn.allotted["tokens"]

    @rule(name=names, amount=st.integers(1, 60))
    def spends_what_it_has(self, name, amount):
        if name in self.allotted:
            self.spent[name] = min(self.allotted[name], self.spent[name] + amount)

    @rule(name=names, dies=st.booleans(), ends=st.booleans())
    def rests(self, name, dies, ends):
        if name not in self.allotted:
            return
        kept = self.allotted.pop(name) and self.spent[name]
        if ends:
            self.ended.add(name)
        if not dies:  # else only the session's log says that it gives back
            self.pool(name).give_back("r", self.incarnation[name], {"tokens": kept}, closed=ends)

    @rule(name=names)
    def a_zombie_changes_nothing(self, name):
        account = self.journal().look().accounts.get(name)
        if account is None or not account.incarnation:
            return
        before = self.log.head()
        with pytest.raises(Fenced):
            self.pool(name).give_back("z", account.incarnation - 1, {"tokens": 0}, closed=True)
        assert self.log.head() == before

    def taken(self):
        return self.journal().look().taken("tokens")

    @invariant()
    def never_overdrawn(self):
        state = self.journal().look()
        assert state.taken("tokens") <= self.limit
        assert sum(self.spent[n] - self.brought[n] for n in self.spent) <= state.taken("tokens")
        for name, allotted in self.allotted.items():
            assert allotted <= state.accounts[name].allotted["tokens"], "the pool knows of all that a session has"


TestShared = Shared.TestCase
TestShared.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


# --- real harness code, killed at every crash point --------------------------------------------------------------------


class TwoWorlds:
    """One simulated session that draws on a pool, whose log is in memory too."""

    def __init__(self, amount=100_000, calls=10):
        self.outside = Outside()
        self.made = world(self.outside)
        self.made.accept(task(limits=Limits(rounds_per_step=10)), "s")
        self.log = MemoryLog("lab")
        limit(self.journal(), "tokens", amount)
        limit(self.journal(), "tool_calls", calls)

    def journal(self):
        return Journal(self.log, self.made.clock, self.made.ids)

    def run(self):
        if self.state().control.status == "ended":
            return "ended"
        rig = self.made.wake("s")
        rig.pool = PoolBudget(self.journal, "s", self.made.ids, lambda other: None, self.made.clock)
        pooling.enter(rig)
        return run_loop(rig)

    def state(self):
        return load(self.made.store.open("s"), self.made.store.blobs).state

    def events(self):
        return list(self.made.store.open("s").replay())

    def check(self):
        """At any moment: what the session may spend, the pool has set aside; and it spent no more than that."""
        state, pool = self.state(), self.journal().look()
        for dimension, allotted in state.budget.allotted.items():
            account = pool.accounts.get("s")
            assert account is None or allotted <= account.allotted[dimension]
            assert state.budget.committed(dimension) <= allotted
            assert pool.taken(dimension) <= pool.limits[dimension]


def test_a_session_draws_in_chunks_and_gives_back_what_it_did_not_need():
    made = TwoWorlds()
    assert made.run() == "ended"
    made.check()
    kinds = [e.type for e in made.log.replay()]
    assert 1 <= kinds.count("pool_drawn") <= 3, "steps rarely touch the pool"
    state, pool = made.state(), made.journal().look()
    assert not pool.accounts and pool.spent["tokens"] == state.budget.used_of("tokens")
    assert pool.spent["tool_calls"] == 3 == state.budget.used["tool_calls"]
    drawn = [e for e in made.events() if e.type == "budget_allotted" and e.payload.get("reservation")]
    ids = {e.payload["id"] for e in made.log.replay() if e.type == "pool_drawn"}
    assert {e.payload["reservation"] for e in drawn} == ids and all(i.startswith("s#") for i in ids)


def test_a_death_at_every_visit_of_every_crash_point_neither_loses_nor_doubles_a_reservation():
    visits = visits_of(TwoWorlds().run)
    for visit in visits[::2]:
        made = TwoWorlds()
        die_at(visit)
        try:
            made.run()
        except crashpoints.SimulatedDeath:
            crashpoints.arm(None)
            made.check()
            assert made.run() == "ended", visit
        crashpoints.arm(None)
        made.check()
        state, pool = made.state(), made.journal().look()
        account = pool.accounts.get("s")
        for dimension in ("tokens", "tool_calls"):
            committed = state.budget.committed(dimension)
            if account is None:
                assert pool.spent[dimension] == committed, visit
            else:  # it died after its end and before it told the pool: who needs it finds it in its log
                assert state.control.status == "ended" and account.allotted[dimension] >= committed
        assert fold_all(State(hash=GENESIS), made.events()).budget == state.budget
        assert len(made.outside.delivered) == 1


def test_what_a_session_spent_between_the_look_at_its_log_and_the_look_at_its_harness_is_not_taken_back(monkeypatch):
    made = TwoWorlds()
    die_at((crashpoints.CrashPoint.MODEL_SEND, "before", 1))
    with pytest.raises(crashpoints.SimulatedDeath):
        made.run()
    crashpoints.arm(None)

    def ends_meanwhile(record):
        if made.state().control.status != "ended":
            assert made.run() == "ended"
        return "dead"

    monkeypatch.setattr(pooling.process, "liveness", ends_meanwhile)
    found = pooling.unused(made.made.store, made.made.clock)("s")
    assert found is not None and found.ended
    assert found.committed("tokens") == made.state().budget.committed("tokens")


def test_an_empty_pool_pauses_the_session_and_more_lets_it_go_on_where_it_was():
    made = TwoWorlds(calls=2)
    assert made.run() == "paused"
    state = made.state()
    assert state.control.reason == "budget" and state.budget.refused == "tool_calls"
    pause = next(e for e in made.events() if e.type == "session_paused")
    assert pause.payload["detail"] == "the lab's pool: tool_calls"
    assert state.checkpoint.seq > 0, "a checkpoint, then the pause"
    made.check()
    assert made.journal().look().taken("tool_calls") == 2, "it kept only what it spent"
    limit(made.journal(), "tool_calls", 3)
    resume(made)
    assert made.run() == "ended"
    kinds = [e.type for e in made.events()]
    assert kinds.count("step_started") == 3 and len(made.outside.delivered) == 1
    made.check()


def resume(made):
    log = made.made.store.open("s")
    append_input(log, (Draft("resume_requested", {"id": made.made.ids.new("i")}),), made.made.clock, made.made.ids)


def test_what_a_provider_counts_beyond_the_estimate_is_told_to_the_pool():
    made = TwoWorlds(amount=20_000)

    def dear(definition):
        inner = original(definition)

        class Dear:
            name, params = inner.name, inner.params

            def complete(self, request, on_text=None):
                reply = inner.complete(request, on_text)
                return replace(reply, usage=replace(reply.usage, input_tokens=30_000))

        return Dear()

    original, made.made.model_of = made.made.model_of, dear
    assert made.run() == "paused", "the pool has no more"
    state, pool = made.state(), made.journal().look()
    assert pool.accounts["s"].allotted["tokens"] == state.budget.committed("tokens"), "the truth, whatever the limit"
    assert pool.left("tokens") < 0 and state.budget.refused == "tokens"


def test_a_quota_of_the_lab_counts_the_sends_of_all_sessions_and_survives_their_deaths():
    made = TwoWorlds()
    journal = made.journal()
    for key, quota in (("requests", 2), ("crm", 1)):
        journal.change(lambda state, k=key, n=quota: (Draft("pool_quota", {"id": "q", "key": k, "per_minute": n}),))
    first, second = (
        PoolBudget(made.journal, name, made.made.ids, lambda other: None, made.made.clock) for name in ("a", "b")
    )
    clock = made.made.clock
    began = clock.now_us()
    assert first.pace(["requests"]) == 0 and second.pace(["requests"]) == 0
    later = second.pace(["requests"])
    assert later >= began + 60_000_000, "another session's send counts"
    assert first.pace(["send", "crm"]) == 0 and second.pace(["fetch", "crm"]) > began, "one service, two tools"
    assert second.pace(["fetch"]) == 0, "no quota, no entry"
    clock.set_wall(later)
    assert PoolBudget(made.journal, "b", made.made.ids, lambda other: None, clock).pace(["requests"]) == 0


def one_request_a_minute(made):
    payload = {"id": "q", "key": "requests", "per_minute": 1}
    made.journal().change(lambda state: (Draft("pool_quota", payload),))


def test_a_session_waits_for_the_quota_of_the_lab():
    made = TwoWorlds()
    one_request_a_minute(made)
    assert made.run() == "ended"
    asked = [e.ts for e in made.events() if e.type == "model_request"]
    assert len(asked) > 2 and all(b - a >= 60_000_000 for a, b in zip(asked, asked[1:], strict=False))


def test_a_pause_is_heard_while_a_session_waits_for_a_quota():
    made = TwoWorlds()
    one_request_a_minute(made)
    clock, log = made.made.clock, made.made.store.open("s")
    sleep = clock.sleep

    def slept(seconds):
        sleep(seconds)
        if not any(e.type == "pause_requested" for e in log.replay()):
            asked = Draft("pause_requested", {"id": "p", "reason": "lunch", "mode": "safe"})
            append_input(log, (asked,), clock, made.made.ids)

    clock.sleep = slept
    assert made.run() == "paused"
    assert sum(1 for e in made.events() if e.type == "model_request") == 1, "nothing was sent before its time"
