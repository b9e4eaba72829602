"""Spans, histories and costs read from a session's events."""

import pytest

from agentlab.events import GENESIS, Draft, Head, seal
from agentlab.experiments import Costs, Exponential, WhatIf, costs_of, history_of, spans_of
from tests.harness.worlds import Outside, task, world

PROCESS = {"host": "h", "boot_id": "b", "pid": 1, "start_time": 1}


@pytest.fixture(scope="module")
def events():
    made = world(Outside())
    made.accept(task(), "s")
    assert made.run("s") == "ended"
    return list(made.store.open("s").replay())


def sealed(*rows):
    """Events at given seconds, from (seconds, type, payload)."""
    head, out = Head(0, GENESIS), []
    for seconds, kind, payload in rows:
        made = seal(
            (Draft(kind, payload),), head, session_id="s", incarnation=1, commit_id="c", now_us=int(seconds * 1e6)
        )
        out += made
        head = Head(made[-1].seq, made[-1].hash)
    return out


def woken(reason):
    return {"process": PROCESS, "baseline": {}, "reason": reason, "cursor": 0}


def test_a_session_becomes_its_useful_work(events):
    spans = spans_of(events)
    kinds = [e.type for e in events if e.type not in ("harness_woken", "checkpoint_written", "snapshot_taken")]
    assert len(spans) == len(kinds)
    assert 0 < sum(s.duration_s for s in spans) <= (events[-1].ts - events[0].ts) / 1e6
    assert sum(s.external for s in spans) == 1 and kinds[[s.external for s in spans].index(True)] == "effect_pending"
    assert sum(s.sandboxed for s in spans) == 1
    assert [kinds[i] for i, s in enumerate(spans) if s.milestone] == ["step_completed"]
    assert {s.step for s in spans} == {0, 1, 2, 3}
    before = [s.external for s in spans].index(True) - 1
    assert spans[before].checkpointable  # a checkpoint can be written before the effect
    assert WhatIf(spans, "default", Costs(0.01, 0.1)).run(Exponential(1.0), 1).completed


def test_costs_are_those_of_the_checkpoints(events):
    found = costs_of(events)
    assert len(found) == sum(e.type == "checkpoint_written" for e in events) > 0
    assert all(cost >= 0 for cost in found)


def test_waiting_and_downtime_are_no_exposure_and_no_work():
    rows = sealed(
        (0, "session_started", {"definition": {}, "baseline": {}, "input": {}}),
        (100, "harness_woken", woken("start")),
        (110, "attempt_started", {"attempt": 1}),
        (115, "note_added", {"id": "n", "text": "hm"}),
        (120, "session_paused", {"reason": "requested"}),
        (500, "resume_requested", {"id": "r"}),
        (510, "harness_woken", woken("resume")),
        (530, "attempt_started", {"attempt": 2}),
        (900, "harness_woken", woken("crash")),
        (905, "attempt_started", {"attempt": 3}),
    )
    history = history_of(rows)
    assert history.span_s == 10 + 10 + 20 + 5
    assert history.failures_s == (40.0,)
    assert [s.duration_s for s in spans_of(rows)] == [0.0, 10.0, 20.0, 5.0]
