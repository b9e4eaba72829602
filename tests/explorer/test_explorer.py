"""The explorer finds what is broken, finds nothing in what is sound, and says what it has really seen."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import agentlab as al
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.errors import BadDefinition
from agentlab.explorer import always_replayed, durability_dial, explore, replay, zombie_drill
from agentlab.explorer.api import replayed, subject_of
from agentlab.explorer.exploring import FENCED, LATE, POWER, TORN, Explorer, play, stage
from agentlab.explorer.implied import spending, workspace
from agentlab.explorer.judging import folded
from agentlab.explorer.mortal import Life, Mortal
from agentlab.explorer.schedule import parse_schedule

from . import tasks

SOUND = "agentlab.examples.sound_delivery"
GALLERY = {
    "no_key": ("effects", "harness@effect.reply"),
    "unrecorded": ("effects", "harness@tool.reply"),
    "global": ("result", "harness@log.link#4:after"),
    "checkpoint": ("effects", "harness@effect.reply"),
}


@pytest.mark.parametrize("name", GALLERY)
def test_each_mistake_of_the_gallery_is_found_and_shrunk_to_one_death(name, tmp_path):
    source = f"agentlab.examples.broken_{name}"
    report = explore(source, pairs=False, keep=tmp_path)
    invariant, schedule = GALLERY[name]
    (violation,) = report.violations
    assert violation.invariant == invariant and [str(s) for s in violation.schedule] == [schedule]
    assert f"--crash {schedule}" in str(violation) and violation.file.startswith(str(tmp_path))
    assert [found for found, _ in replay(source, [schedule])] == [invariant]
    assert replay(SOUND, [schedule]) == []


@pytest.mark.parametrize("name", GALLERY)
def test_mistakes_do_not_show_undisturbed(name):
    assert replay(f"agentlab.examples.broken_{name}", []) == []


@pytest.fixture(scope="module")
def sound():
    return explore(SOUND, pairs=True)


def test_what_is_sound_survives_every_single_death_and_every_pair(sound):
    assert sound.clean and sound.complete and sound.violating == 0
    figures = sound.to_json()
    assert {"crash_points", "points_hit", "schedules", "violations", "sometimes", "seconds"} <= figures.keys()
    assert figures["schedules"]["covered"] > figures["schedules"]["run"] > 1000


def test_what_must_have_happened_for_this_to_be_evidence_has_happened(sound):
    never = [name for name, count in sound.sometimes.items() if not count and name != "an effect was left in doubt"]
    assert never == []
    assert sound.sometimes[TORN] > 50
    assert {CrashPoint.EFFECT_VERIFY, CrashPoint.SNAPSHOT_RESTORE, CrashPoint.SANDBOX_ACK} <= sound.points


def test_an_effect_that_nobody_can_ask_about_is_left_in_doubt_and_that_is_honest():
    task = al.Task(
        name="in_doubt",
        goal="Send one message.",
        tools=(al.tool(tasks.send, effect="external"),),
        steps=(al.step("send", tool="send", kind="downstream"),),
        model=tasks.policy,
    )
    report = explore(task, pairs=True)
    assert report.clean and report.sometimes["an effect was left in doubt"] > 0
    # A zombie that wakes later is fenced; the session rests as the harness left it that took over, and asks a person.
    assert replay(task, ["zombie@effect.reply"]) == []


def test_the_demo_task_survives_every_single_death():
    report = explore("sales_report", pairs=False)
    assert report.clean and report.complete
    assert report.covered["single, harness"] > 200 and report.sometimes[FENCED] > 20 and report.sometimes[POWER] > 0


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_demo_task_survives_every_pair_within_a_minute():
    import time

    began = time.process_time()
    report = explore("sales_report", pairs=True)
    assert report.clean and report.complete
    assert report.covered["pairs, harness"] > 10_000
    assert time.process_time() - began < 60


def test_a_sample_without_merging_and_without_copies_agrees():
    subject = subject_of(tasks.SMALL)
    explorer = Explorer(subject, depth=1)
    chosen = random.Random(5)
    with stage(subject):
        explorer.undisturbed()
        for _ in range(150):
            pair = tuple(
                replace(chosen.choice(explorer.visits), target=chosen.choice(("harness", "both"))) for _ in "12"
            )
            assert explorer.judged(pair) == [], [str(s) for s in pair]


@pytest.mark.parametrize(
    "source",
    [
        "agentlab.examples.broken_global",
        SOUND,
    ],
)
def test_running_equal_states_again_finds_the_same(source):
    merged, whole = (explore(source, pairs=False, merge=merge) for merge in (True, False))
    # Merged runs of a broken task count once where they went on together; what is found is the same.
    assert 0 < merged.violating <= whole.violating or merged.violating == whole.violating == 0
    assert [(v.invariant, v.schedule) for v in merged.violations] == [
        (v.invariant, v.schedule) for v in whole.violations
    ]
    assert merged.run == whole.run


@pytest.mark.parametrize(
    "dial",
    [{"scheme": "snapshot"}, {"scheme": "events"}, {"durability": "group"}, {"strategy": "synthetic_error"}],
    ids=str,
)
def test_every_dial_keeps_its_promises(dial):
    report = explore(SOUND, pairs=False, **dial)
    assert report.clean and report.complete, "\n".join(map(str, report.violations))


def test_files_of_a_task_are_kept_although_its_sandbox_dies_at_the_very_end():
    subject = subject_of("sales_report", scheme="events")
    with stage(subject):
        world, runs = play(subject, parse_schedule(["sandbox@sandbox.result#8:after"]))
        kinds = [event.type for event in world.log.replay(1)]
        assert runs[-1].why == "ended" and kinds[-1] == "session_ended" and "sandbox_lost" in kinds
        assert workspace(world, list(world.log.replay(1))) == ""
        ended = list(world.log.replay(1))[-1].payload["result"]
        assert ended["snapshot"], "no file of the task was left"


def test_budget_and_workspace_are_worked_out_from_the_log_alone():
    subject = subject_of("sales_report")
    with stage(subject):
        world, _ = play(subject, ())
        events, state = list(world.log.replay(1)), folded(world.log)
        assert (workspace(world, events), spending(events, state)) == ("", "")
        lost = next(e for e in events if e.type == "tool_result" and e.tool_name == "clean_rows")
        assert "is not what the recorded commands leave" in workspace(world, [e for e in events if e is not lost])
        used = {**state.budget.used, "output_tokens": state.budget.used["output_tokens"] - 1}
        assert "output_tokens" in spending(events, replace(state, budget=replace(state.budget, used=used)))


def test_two_explorations_are_equal():
    first, second = (explore(tasks.SMALL, pairs=False, seconds=0.0).to_json() for _ in "12")
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_random_schedules_follow_their_seed_and_find_nothing():
    report = explore(SOUND, pairs=False, seconds=2.0, seed=3)
    assert report.clean and report.run["random"] > 0


def test_forgetting_everything_after_every_command_changes_nothing():
    assert always_replayed(SOUND) == []
    assert always_replayed("sales_report") == []


def test_the_zombie_drill_fences_at_every_point():
    report = zombie_drill(SOUND)
    assert "not reached by this task" not in str(report), "a drill visits what it visits"
    assert report.clean and report.sometimes[FENCED] >= 20
    assert all(report.sometimes[name] for name in LATE), "an append, an effect and a charge of the zombie's were tried"


def test_the_durability_dial_loses_nothing_that_was_promised():
    rows = {(row.durability, row.death): row for row in durability_dial(SOUND)}
    assert all(row.lost_events == 0 for (_, death), row in rows.items() if death == "harness")
    assert rows["disk", "power"].lost_events == 0
    assert 0 < rows["group", "power"].lost_events < rows["process", "power"].lost_events
    assert rows["group", "power"].lost_sessions == 0 < rows["process", "power"].lost_sessions, "an accepted task stays"
    assert all(row.violations == 0 for row in rows.values())


def test_a_users_own_task_with_functions_of_a_cell_is_explored_too():
    seen: list[str] = []

    def collect(text: str) -> int:
        """Keep a text in the process."""
        seen.append(text)
        return len(seen)

    def once() -> list[str]:
        return [] if len(seen) == 1 else [f"{len(seen)} texts"]

    def model(view):
        if view.status.get("step"):
            return [al.say("collecting"), al.call("collect", text="a")]
        return al.say("done")

    task = al.Task(
        name="collecting",
        goal="Collect one text.",
        tools=(al.tool(collect, effect="pure"),),
        steps=(al.step("collect", tool="collect"),),
        validator=al.validator(once, effect="pure"),
        limits={"attempts": 1},
        model=model,
    )
    report = al.explore(task, pairs=False)
    assert not report.clean and {v.invariant for v in report.violations} <= {"result", "recovery", "liveness"}


@pytest.mark.parametrize("visit", [4, 5, 6, 7])
def test_a_sandbox_killed_too_often_in_a_row_may_make_it_rest_and_one_more_wake_brings_it_to_its_end(visit):
    explorer = Explorer(subject_of("sales_report"), depth=1)
    strikes = parse_schedule(["both@log.link#8:after", *[f"both@log.link#{visit}:after"] * 5])
    with stage(explorer.subject):
        explorer.undisturbed()
        world, runs = play(explorer.subject, strikes)
        assert explorer.judged(strikes) == []
    assert [run.why for run in runs].count("paused") == 1 and runs[-1].why == "ended"
    assert any(e.type == "session_paused" and e.payload["reason"] == "sandbox" for e in world.log.replay(1))


def test_a_task_that_never_ends_alike_is_told_so_and_not_explored():
    def draw() -> float:
        """Draw a number."""
        return random.SystemRandom().random()

    def keep(number: float) -> str:
        """Keep a number."""
        with open("number.txt", "w") as file:
            file.write(str(number))
        return "kept"

    def model(view):
        if view.status.get("step") == "draw":
            return [al.call("draw")]
        if view.status.get("step") == "keep":
            return [al.call("keep", number=float(view.results("draw")[-1].result))]
        return al.say("done")

    task = al.Task(
        name="drawing",
        goal="Draw a number.",
        tools=(al.tool(draw, effect="pure"), al.tool(keep, effect="sandboxed")),
        steps=(al.step("draw", tool="draw"), al.step("keep", tool="keep")),
        model=model,
    )
    report = al.explore(task, pairs=False, seconds=5.0)
    (violation,) = report.violations
    assert violation.invariant == "workspace" and violation.schedule == () and violation.paste() == ""
    assert "two runs without any crash" in violation.message and not report.run["random"]


def test_what_never_struck_is_told():
    assert replayed(SOUND, ["harness@wake"]).missed == ()
    both = replayed(SOUND, ["harness@log.commit", "harness@wake#9"])
    assert both.found == () and both.missed == ("harness@wake#9",)
    assert both.to_json() == {"violations": [], "not_struck": ["harness@wake#9"]}
    assert both.lines() == ["no promise was broken, but harness@wake#9 never struck: that is no evidence"]


def test_a_report_is_text_for_whoever_prints_it():
    report = explore(SOUND, pairs=False)
    assert str(report) == repr(report) == "\n".join(report.lines())


def test_a_folder_that_can_not_be_written_costs_no_finding(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for keep in (file, file / "schedules"):
        with pytest.raises(BadDefinition, match="can be kept"):
            explore("agentlab.examples.broken_no_key", pairs=False, keep=keep)
    name = tmp_path / "broken_no_key-effects-1.schedule.json"
    name.mkdir()  # the folder looks good, the file can not be written
    report = explore("agentlab.examples.broken_no_key", pairs=False, keep=tmp_path)
    assert [(v.invariant, v.file) for v in report.violations] == [("effects", "")]


def test_a_port_is_dead_with_its_incarnation():
    life = Life()
    port = Mortal([1, 2], "log", life)
    assert port.count(1) == 1
    life.alive = False
    with pytest.raises(SimulatedDeath):
        port.append(3)
    assert life.late == ["log.append"]


def test_a_task_that_could_not_be_run_is_refused_before_anything_is_explored():
    with pytest.raises(BadDefinition, match="max_turns"):
        explore(replace(tasks.SMALL, limits=al.Limits(max_turns=0)))
