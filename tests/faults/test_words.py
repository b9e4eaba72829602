"""Faults in words and as data: what can be said, what comes back, what a seed decides."""

from __future__ import annotations

import json

import pytest

import agentlab as al
from agentlab.errors import BadDefinition, UnknownName
from agentlab.failures import Bursty, CrashLoop, Poisson, Times, Weibull
from agentlab.faults import NAMED, Faults, parse_fault, parse_faults
from agentlab.faults.kinds import KINDS
from agentlab.faults.spec import MOST

WORDS = [
    "harness@tool_result#2", "sandbox@step=4", "sandbox-process@snapshot.take:after", "stop:harness@seq=42",
    "second:harness@effect.send", "int:harness@after=2s", "model:529", "model:429=3#2", "model:cut=50", "tool:exception",
    "tool(notify):lost_reply#2", "disk:full@event.append#5", "disk:slow=0.5@blob.put", "disk:eio@checkpoint_written",
    "clock:back=60@tool_result:after",
]  # fmt: skip


@pytest.mark.parametrize("words", WORDS)
def test_words_come_back_as_they_were(words):
    fault = parse_fault(words, "f1")
    assert fault.spec() == words
    assert Faults.from_json(json.loads(json.dumps(Faults([fault], 3).to_json()))) == Faults([fault], 3)


@pytest.mark.parametrize("service", KINDS)
def test_every_kind_can_be_said(service):
    for kind in KINDS[service]:
        assert parse_fault(f"{service}:{kind}", "f").action == kind
        number = f"{service}:{kind}=7"
        if KINDS[service][kind].unit:
            assert parse_fault(number, "f").value == 7
        else:
            with pytest.raises(BadDefinition, match="takes no number"):
                parse_fault(number, "f")


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ("modle:529", UnknownName, "did you mean model"),
        ("model:592", UnknownName, "did you mean 529"),
        ("hraness@wake", UnknownName, "did you mean harness"),
        ("stp:harness@wake", UnknownName, "did you mean stop"),
        ("disk:full@event.apend", UnknownName, "did you mean event.append"),
        ("harness@tool_reslt", UnknownName, "did you mean tool_result"),
        ("model:529@tool_result", BadDefinition, "calls of a model are counted"),
        ("model(act):529", BadDefinition, "only a tool has a name"),
        ("second:sandbox@wake", BadDefinition, "only a harness"),
        ("model:529#0", BadDefinition, "count from 1"),
        ("model:529*0", BadDefinition, "at least once"),
        ("model:529*3", BadDefinition, "strikes 3 times"),
        ("harness", BadDefinition, "is no fault"),
        ("model:429=1.2.3", BadDefinition, "not a number"),
        ("stop:harness@poisson=60", BadDefinition, "kills"),
        ("harness@poisson=0", BadDefinition, "mtbf"),
        ("harness@bursty=60/2", BadDefinition, "only weibull"),
        ("harness@poisson=60*0", BadDefinition, "at least once"),
    ],
)
def test_words_that_mean_nothing_are_refused(words, error, says):
    with pytest.raises(error, match=says):
        parse_fault(words, "f")


def test_repetitions_and_commas_make_a_chain():
    faults = parse_faults("harness@tool_result#2,model:529#3*3", "f1")
    assert [f.id for f in faults] == ["f1.1", "f1.2", "f1.3", "f1.4"]
    assert [f.follows for f in faults] == ["", "f1.1", "f1.2", "f1.3"]
    assert [f.visit for f in faults] == [2, 3, 1, 1], "after the first of three it is the very next call"
    assert Faults(["harness@tool_result#2,model:529#3*3"]).words() == [
        "harness@tool_result#2,model:529#3,model:529,model:529"
    ]
    with pytest.raises(BadDefinition, match="257 times"):
        Faults(["model:529*500"])


def test_a_seed_makes_the_same_schedule():
    words = ["harness@poisson=60s*4", "harness@weibull=60s/0.7*2", "sandbox@bursty=60s*2"]
    first, again, other = Faults(words, seed=7), Faults(words, seed=7), Faults(words, seed=8)
    assert first == again != other and len(first) == 8
    times = [fault.after_s for fault in first][:4]
    assert times == sorted(times) and times == [round(t, 3) for t, _ in zip(Poisson(60).times(7), "1234", strict=False)]
    assert Faults([Poisson(60)], seed=7).faults[0].after_s == times[0]
    assert [len(Faults([process], seed=1)) for process in (Weibull(60, 0.7), Bursty(60, burst_mean_s=6))] == [3, 3]
    printed = Faults(first.words(), seed=7)
    assert [f.after_s for f in printed] == [f.after_s for f in first], "what is printed is the schedule itself"
    assert str(first).startswith("--fault harness@after=") and str(first).endswith("--seed 7")


def test_named_schedules_can_be_read():
    for name in NAMED:
        assert len(Faults([name])) > 3
    assert al.Faults(["retry_storm", "harness@wake"]).words()[-1] == "harness@wake"


@pytest.mark.parametrize("item", [None, 3, object()])
def test_what_is_no_fault_is_refused(item):
    with pytest.raises(BadDefinition):
        Faults([item])


def test_two_schedules_of_one_session_are_told_apart(tmp_path):
    with al.Lab(tmp_path / "lab") as lab:
        session = lab.create("sales_report", crash=["harness@wake"], faults=al.Faults(["model:500*2"]), seed=4)
        session.inject(["disk:full"], seed=5)
        rows = [(row.fault, row.words, row.state, row.seed) for row in session.faults()]
        assert rows == [
            ("f3", "harness@wake", "armed", 4),
            ("f1.1", "model:500", "armed", 4),
            ("f1.2", "model:500", "armed", 4),
            ("f4", "disk:full@event.append", "armed", 5),
        ]
        armed = [event.payload for event in session.replay() if event.type == "fault_armed"]
        assert al.Faults.from_json(armed[0]).seed == 4, "the log holds what replays it"


@pytest.mark.parametrize(
    "process", [Poisson(86_400), Poisson(3e6), Times((0.001, 12345.678, 2_000_000.5)), CrashLoop(5, kills=2)]
)
def test_a_schedule_of_any_process_prints_and_is_the_same_when_it_is_read_again(process):
    made = Faults([process], seed=7)
    again = Faults(made.words())
    assert len(made) > 1
    assert [(f.after_s, f.seq) for f in again] == [(f.after_s, f.seq) for f in made]


def test_times_and_crash_loops_are_taken_whole():
    assert [f.after_s for f in Faults(Times((1.0, 2.0)))] == [1, 2]
    assert [f.after_s for f in Faults(Times((1.0, 2.0, 3.0, 4.0)))] == [1, 2, 3, 4]
    assert [f.seq for f in Faults(CrashLoop(5, kills=4))] == [5, 5, 5, 5]
    assert len(Faults(CrashLoop(5))) == MOST
    with pytest.raises(BadDefinition, match="a schedule may hold"):
        Faults(Times(tuple(float(n) for n in range(1, MOST + 2))))


@pytest.mark.parametrize(
    "data",
    [
        {"target": "harness"}, {"target": "harness", "step": 2, "seq": 3}, {"target": "harness", "point": "wake", "visit": -1},
        {"target": "model", "action": "exploded"}, {"target": "harness", "step": "two"}, {"target": "cat", "seq": 1},
        {"target": "harness", "seq": -4},
    ],
)  # fmt: skip
def test_data_that_say_no_fault_are_refused(data):
    with pytest.raises((BadDefinition, UnknownName)):
        Faults([data])


def test_data_need_no_id():
    assert Faults([{"target": "harness", "point": "wake"}]) == Faults(["harness@wake"])


@pytest.mark.parametrize("items", [None, 3])
def test_what_is_no_schedule_at_all_is_refused(items):
    with pytest.raises(BadDefinition, match="a fault is a text"):
        Faults(items)
