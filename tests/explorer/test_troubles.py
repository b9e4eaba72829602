"""Services that misbehave in a simulation: drawn by seed, judged like deaths, and never the reason for anything twice."""

from __future__ import annotations

from itertools import islice

import pytest

from agentlab.crashpoints import CrashPoint
from agentlab.errors import BadDefinition, UnknownName
from agentlab.explorer import explore, replay
from agentlab.explorer.api import subject_of
from agentlab.explorer.coverage import REAL_ONLY, SIMULATED
from agentlab.explorer.drawing import schedules
from agentlab.explorer.exploring import TWO, WOKEN, Explorer, play, stage
from agentlab.explorer.judging import TROUBLED
from agentlab.explorer.schedule import Violation, crash_options, parse_schedule, real_faults
from agentlab.explorer.troubles import all_troubles, known_kinds

from . import tasks

WORDS = (
    "model:529#2", "tool(send):lost_reply", "disk:full@event.append#5", "clock:back=60@model.send", "second@log.link#3",
    "model:429=3", "tool(write_line):timeout=2",
)  # fmt: skip


@pytest.fixture(scope="module")
def everything():
    return explore(tasks.ALL, pairs=False, faults=True)


def test_every_kind_of_misdeed_at_every_call_breaks_no_promise(everything):
    assert everything.clean and everything.complete, "\n".join(map(str, everything.violations))
    figures = everything.to_json()
    assert figures["misdeeds"]["hit"] == figures["misdeeds"]["known"] == len(known_kinds())
    assert all(everything.covered[f"single, {kind}"] for kind in ("model", "tool", "disk", "clock", "second"))


def test_what_must_have_happened_for_this_to_be_evidence_has_happened(everything):
    never = {name for name in (*TROUBLED, TWO, WOKEN) if not everything.sometimes[name]}
    assert never == set()


def test_a_simulation_reaches_every_crash_point_that_it_has_and_says_where_the_others_are(everything):
    assert everything.points == set(SIMULATED) == set(CrashPoint) - set(REAL_ONLY)
    figures = everything.to_json()
    assert figures["points_hit"] == figures["points_simulated"] == len(SIMULATED) and figures["points_not_hit"] == []
    assert figures["crash_points"] == len(CrashPoint) == len(SIMULATED) + len(figures["points_real_only"])
    lacks = explore("agentlab.examples.sound_delivery:BLIND", pairs=False)
    said = str(lacks)
    assert "not reached by this task: tool.send, tool.reply (needs a pure tool)" in said
    for point in CrashPoint:
        assert point in lacks.points or point.value in said, "nobody has to guess why a point is missing"


def test_a_seed_draws_the_same_schedules_and_each_kind_comes_first():
    explorer = Explorer(subject_of(tasks.SMALL), depth=1)
    with stage(explorer.subject):
        explorer.undisturbed()
    drawn = [list(islice(schedules(explorer.visits, explorer.calls, seed, True), 300)) for seed in (4, 4, 5)]
    assert drawn[0] == drawn[1] != drawn[2]
    kinds = {strike.kind for schedule in drawn[0] if len(schedule) == 1 for strike in schedule}
    assert kinds == {trouble.kind for trouble in all_troubles(explorer.calls)} == set(known_kinds())
    mixed = {strike.kind for schedule in drawn[0] if len(schedule) > 1 for strike in schedule}
    assert {"harness", "sandbox", "both", "second", "power", "tool:lost_reply", "model:529", "disk:full"} <= mixed


def test_random_schedules_mix_deaths_and_misdeeds_and_say_what_struck():
    report = explore(tasks.SMALL, pairs=False, seconds=1.5, seed=8)
    assert report.clean, "\n".join(map(str, report.violations))
    assert report.run["random"] > 0 and "kinds of misdeeds that struck" in str(report)


@pytest.mark.parametrize("words", WORDS)
def test_words_come_back_as_they_were_and_can_be_pasted(words):
    (strike,) = schedule = parse_schedule([words])
    assert str(strike) == words
    assert [fault.spec() for fault in real_faults(schedule)] == [words.replace("second@", "second:harness@")]
    violation = Violation("effects", "twice", (*schedule, *parse_schedule(["harness@wake"])), "mine")
    assert violation.paste() == crash_options(violation.schedule) and parse_schedule(violation.to_json()["schedule"])


@pytest.mark.parametrize(("words", "error"), [("modle:529", BadDefinition), ("model:592", UnknownName)])
def test_words_that_mean_nothing_are_refused(words, error):
    with pytest.raises(error):
        parse_schedule([words])


@pytest.mark.parametrize("misdeed", ["lost_reply", "false_failure"])
def test_a_tool_that_is_not_idempotent_is_found_without_any_death(misdeed):
    ((invariant, _),) = replay("agentlab.examples.broken_no_key", [f"tool(send):{misdeed}"])
    assert invariant == "effects"
    assert replay("agentlab.examples.sound_delivery", [f"tool(send):{misdeed}"]) == []


def test_what_misbehaves_too_often_makes_it_rest_and_once_woken_it_comes_to_its_end():
    explorer = Explorer(subject_of(tasks.SMALL), depth=1)
    with stage(explorer.subject):
        explorer.undisturbed()
        schedule = parse_schedule(["model:refusal", *["model:529"] * 3, "disk:eio@event.append#3"])
        world, runs = play(explorer.subject, schedule)
        assert explorer.judged(schedule) == [] and explorer.missed == ()
    assert [run.why for run in runs] == ["paused", "died", "ended"]
    errors = [event.error_type for event in world.log.replay(1) if event.type == "model_error"]
    assert errors == ["refused", "overloaded", "overloaded", "overloaded"]


def test_two_harnesses_awake_at_once_in_a_simulation():
    explorer = Explorer(subject_of(tasks.SMALL), depth=1)
    with stage(explorer.subject):
        explorer.undisturbed()
        for point, refused in (
            ("effect.send", ("effect_completed", "tool_result")),
            ("log.commit#12", ("effect_pending",)),
        ):
            schedule = parse_schedule([f"second@{point}"])
            world, runs = play(explorer.subject, schedule)
            assert explorer.judged(schedule) == [] and [run.why for run in runs] == ["ended"]
            assert runs[0].fenced == 1 and set(refused) <= set(runs[0].refused)
            events = list(world.log.replay(1))
            opened = next(event for event in events if event.type == "harness_woken" and event.incarnation == 2)
            assert {event.incarnation for event in events[opened.seq :]} == {2}, "nothing of the older one"
            assert list(world.outside.counts().values()) == [1]
