"""The queue of a lab with real sessions: places, order, and what a crash of everything leaves of them."""

from __future__ import annotations

import pytest

from agentlab.errors import BadDefinition
from agentlab.lab import Lab

from . import tasks
from .owner import Owner


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


def gated(lab, gate):
    return lab.create(tasks.task("gate", tools=(tasks.PURE_GATED,)), params={"gate": str(gate)})


def test_order_and_place_survive_the_death_of_everything(tmp_path, gate, until):
    with Lab(tmp_path / "lab", max_sessions=1) as lab:
        first = gated(lab, gate)
        second, third = lab.create(tasks.task("measure")), lab.create(tasks.task("measure"))
        with Owner(lab.path) as owner:
            owner.start(first.id)
            until((tmp_path / "gate.reached").exists, what="the first one runs")
            for place, session in enumerate((second, third), 1):
                owner.start(session.id)
                until(lambda s=session, p=place: s.state.control.queued == p, what=f"place {place}")
            owner.kill(lab)

        places = [(p.session_id, p.place) for p in lab.queue.places()]
        assert places == [(first.id, 0), (second.id, 1), (third.id, 2)]
        for place, session in enumerate((second, third), 1):
            found = session.locate()
            assert found.condition == "harness_dead" and f"place {place} of 2" in " ".join(found.evidence)

    with Lab(tmp_path / "lab") as lab:  # another process would see the same: it is all in the lab
        assert lab.queue.max_sessions == 1
        first, second, third = (lab.session(s.id) for s in (first, second, third))
        first.wake(background=True)
        until(lambda: first.state.incarnation == 2 and not first.state.recovery.phase, what="the first goes on")
        third.wake(background=True)  # wakes before the second, and keeps its place behind it
        second.wake(background=True)
        until(lambda: second.state.incarnation == third.state.incarnation == 2, what="both are awake")
        gate.touch()
        for session in (first, second, third):
            assert session.wait(120).status == "completed"
        admitted = [next(e for e in s.events() if e.type == "session_admitted") for s in (second, third)]
        assert admitted[0].ts < admitted[1].ts, "the second before the third"
        ended = [s.events()[-1] for s in (first, second)]
        assert ended[0].ts < admitted[0].ts and ended[1].ts < admitted[1].ts, "never two at once"
        assert lab.queue.places() == []


def test_a_limit_set_while_sessions_run_counts_them_and_a_higher_one_lets_the_next_in(lab, gate, until):
    first = gated(lab, gate)
    first.start()
    until((gate.parent / "gate.reached").exists, what="the first one runs")
    assert not (lab.path / "pools").exists(), "a lab without a limit keeps no pool"
    lab.queue.limit(1)
    assert [(p.session_id, p.place) for p in lab.queue.places()] == [(first.id, 0)]
    second = lab.run(tasks.task("measure"), background=True)
    until(lambda: second.status().status == "queued", what="the second one waits")
    second.pause("lunch")
    assert second.wait(120).status == "paused"
    assert [p.place for p in lab.queue.places()] == [0, 1], "a pause keeps the ticket"
    second.wake(background=True)
    lab.queue.limit(2)
    assert second.wait(120).status == "completed"
    gate.touch()
    assert first.wait(120).status == "completed"


def test_a_session_at_rest_holds_no_place(lab, until):
    lab.queue.limit(1)
    waiting = lab.run(tasks.task("ask"), timeout_s=120)
    assert waiting.status().status == "waiting"
    assert lab.run(tasks.task("measure"), timeout_s=120).status().status == "completed"
    waiting.reply("North")
    assert waiting.wake(timeout_s=120).status().status == "completed"


def test_a_harness_killed_by_hand_gives_its_place_and_one_that_restarts_keeps_it(lab, gate, until):
    lab.queue.limit(1)
    first = gated(lab, gate)
    first.start()
    until((gate.parent / "gate.reached").exists, what="the first one runs")
    second = lab.run(tasks.task("measure"), background=True)
    until(lambda: second.status().status == "queued", what="the second one waits")
    first.kill("harness", restart=True)
    until(lambda: first.state.incarnation == 2, what="the next harness")
    assert second.status().status == "queued", "the keeper started the next harness, the place was kept"
    first.kill("harness")
    assert second.wait(120).status == "completed"


@pytest.mark.parametrize("wrong", [0, -1, True, "two", 1.5])
def test_a_limit_is_a_number_from_one_on(lab, wrong):
    with pytest.raises(BadDefinition, match="from 1 on"):
        lab.queue.limit(wrong)
    assert lab.queue.max_sessions is None
