"""Forks in simulated worlds: at every event, after every crash, and always with histories that the API would accept."""

from __future__ import annotations

import pytest

from agentlab import crashpoints
from agentlab.crashpoints import SimulatedDeath
from agentlab.definition import Limits, PolicySpec
from agentlab.errors import LogCorrupt
from agentlab.events import GENESIS, Event, Head, verify_chain
from agentlab.lab import Lab, Session
from agentlab.models.pairing import check_messages
from agentlab.ports import ModelRequest

from .test_simulated_crashes import Visit, die_at, visits_of
from .worlds import Outside, task, world

GOAL = "Add, write one line, send one message."
MODEL = "scripted:tests.harness.worlds:policy"


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    crashpoints.arm(None)


class Forking:
    """A lab on disk whose sessions are driven in simulation; every question that a model is asked is looked at."""

    def __init__(self, folder, **changes) -> None:
        self.outside = Outside()
        self.asked: list[ModelRequest] = []
        self.world = world(self.outside)
        self.lab = Lab(folder)
        self.world.store = self.lab.store
        self.world.__post_init__()
        original = self.world.model_of

        def watched(definition):
            model = original(definition)
            complete = model.complete

            def check(request, on_text=None):
                check_messages(request.messages, ask=True)
                assert f"<goal>{GOAL}</goal>" in request.messages[0]["content"][0]["text"], "the goal, verbatim"
                self.asked.append(request)
                return complete(request, on_text)

            model.complete = check
            return model

        self.world.model_of = watched
        fields = {"model": MODEL, "durability": "process", "policy": PolicySpec("every_steps", {"n": 1})}
        self.world.accept(task(**{**fields, **changes}), "s")

    @property
    def session(self) -> Session:
        return self.lab.session("s")

    def fork(self, at: int | None = None, parent: Session | None = None, **changes) -> Session:
        return (parent or self.session).fork(at, trust=True, **changes)

    def run(self, session: Session) -> list[Event]:
        assert self.world.run(session.id) == "ended"
        events = session.events()
        verify_chain(events, Head(0, GENESIS))
        assert events[-1].payload["outcome"] == "completed"
        assert len(self.outside.delivered) == 1, "exactly one effect, whoever wanted it"
        assert session.read_file("report.txt") == b"one line\n"
        return [e for e in events if e.session_id == session.id]


@pytest.fixture
def made(tmp_path):
    found = Forking(tmp_path / "lab")
    found.run(found.session)
    return found


def test_a_fork_at_every_event_of_an_ended_session_comes_to_the_same_end_and_sends_nothing(made):
    events = made.session.events()
    begins = {made.fork(at).log.base.seq: at for at in range(1, len(events) + 1)}
    for at in begins.values():
        made.run(made.fork(at))
    assert made.outside.requests == 1
    assert made.session.events() == events


def test_after_every_crash_a_fork_and_its_parent_deliver_once_whoever_goes_first(tmp_path):
    probe = Forking(tmp_path / "probe")
    visits: list[Visit] = visits_of(lambda: probe.world.run("s"))
    chosen = [v for v in visits if v[0].value.startswith(("effect", "commit", "tool", "model", "log"))][::5]
    assert len(chosen) > 10
    for number, visit in enumerate(chosen):
        found = Forking(tmp_path / str(number))
        die_at(visit)
        with pytest.raises(SimulatedDeath):
            found.world.run("s")
        crashpoints.arm(None)
        fork = found.fork()
        order = [fork, found.session] if number % 2 else [found.session, fork]
        for session in order:
            assert found.world.run(session.id) == "ended", visit
        delivered = sorted(found.outside.delivered)
        # A fork made before anything was registered is free to act; two messages are then two decisions.
        registered = any(e.type == "effect_pending" for e in found.session.events() if e.seq <= fork.log.base.seq)
        assert len(delivered) == 1 or (not registered and len(delivered) == 2), (visit, delivered)


def test_a_fork_in_mid_history_dies_everywhere_and_leaves_no_call_without_its_result(made):
    """The field reports: orphans in mid-history after a resume, tool_use without tool_result."""
    at = next(e.seq for e in made.session.events() if e.type == "step_started" and e.payload["step_id"] == "send")
    first = made.fork(at)
    visits: list[Visit] = visits_of(lambda: made.world.run(first.id))
    # Blobs that an earlier fork has stored are there already, so those points are not reached every time.
    steady = [visit for visit in visits if not visit[0].value.startswith("blob")]
    for visit in steady[::5]:
        fork = made.fork(at)
        die_at(visit)
        with pytest.raises(SimulatedDeath):
            made.world.run(fork.id)
        crashpoints.arm(None)
        own = made.run(fork)
        asked = {e.payload["call_id"] for e in own if e.type == "tool_requested"}
        answered = [e.payload["call_id"] for e in own if e.type in ("tool_result", "tool_error")]
        assert asked <= set(answered) and len(answered) == len(set(answered)), visit
    assert made.outside.requests == 1


def test_a_result_on_record_that_is_missing_is_found_by_verify(made):
    at = next(e.seq for e in made.session.events() if e.type == "step_started" and e.payload["step_id"] == "send")
    fork = made.fork(at)
    (row,) = fork.effects_on_record()
    fork.verify()
    (made.lab.path / "blobs" / row.output[:2] / row.output).unlink()
    with pytest.raises(LogCorrupt, match="session_started"):
        fork.verify()


def test_a_fork_goes_on_from_what_was_spent_and_a_limit_that_was_used_up_stays_used_up(tmp_path):
    """The field report: a resume with a fresh budget."""
    found = Forking(tmp_path / "lab", limits=Limits(tool_calls=2, rounds_per_step=10))
    assert found.world.run("s") == "paused"
    used = dict(found.session.state.budget.used)
    assert used["tool_calls"] == 2 and found.session.status().reason == "budget"
    fork = found.fork()
    assert dict(fork.state.budget.used) == used
    assert found.world.run(fork.id) == "paused" and fork.status().reason == "budget"
    assert not found.outside.delivered
    more = found.fork(limits={"tool_calls": 3})
    found.run(more)
    assert more.state.budget.used["tool_calls"] == 3


def test_a_chain_of_forks_of_forks_each_a_step_further(made):
    chain = [made.session]
    at = 3
    while at < made.session.state.seq:
        fork = made.fork(at, chain[-1])
        made.run(fork)
        chain.append(fork)
        at += 4
    assert len(chain) > 5 and made.outside.requests == 1
    deepest = chain[-1]
    assert len({e.session_id for e in deepest.events()}) > 2 or deepest.log.base.seq <= 7
    deepest.verify()


def test_a_fork_can_go_back_to_a_checkpoint_of_the_shared_past(made):
    checkpoint, later = [e.seq for e in made.session.events() if e.type == "checkpoint_written"][:2]
    fork = made.fork(later)
    fork.restore(checkpoint)
    own = made.run(fork)
    back = next(e for e in own if e.type == "restored_to")
    assert back.payload["checkpoint_seq"] == checkpoint <= fork.log.base.seq
    assert made.session.superseded() == (), "the parent is not touched"
    with pytest.raises(Exception, match="superseded"):
        second = made.fork(back.seq, fork)
        second.restore(later)
    made.run(made.fork(back.seq, fork))
