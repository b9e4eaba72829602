"""Schedules as words, as files, as tests."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from agentlab.cli import main
from agentlab.errors import BadDefinition, UnknownName
from agentlab.explorer import explore, parse_schedule, read_schedule
from agentlab.explorer.schedule import Violation, crash_options, keep, real_faults, shrink
from agentlab.faults import parse_faults
from agentlab.notebook.explorations import ExploreView

WORDS = ("sandbox@sandbox.execute#2:after", "harness@effect.reply", "both@log.commit#7", "zombie@log.link")


def test_words_come_back_as_they_were():
    assert tuple(str(strike) for strike in parse_schedule(WORDS)) == WORDS


@pytest.mark.parametrize(
    "words, error",
    [
        ("harness", BadDefinition),
        ("harness@wake#0", BadDefinition),
        ("cat@wake", UnknownName),
        ("both@sofa", UnknownName),
    ],
)
def test_words_that_mean_nothing_are_refused(words, error):
    with pytest.raises(error):
        parse_schedule([words])


def test_a_schedule_is_one_option_whose_faults_follow_each_other():
    schedule = parse_schedule(("both@log.commit#7", "harness@wake:after"))
    option = crash_options(schedule)
    assert option == "--crash sandbox@log.commit#7,harness@log.commit#7,harness@wake:after"
    faults = real_faults(schedule)
    assert [fault.follows for fault in faults] == ["", faults[0].id, faults[1].id]
    assert faults == parse_faults(option.removeprefix("--crash "), "f")


def test_shrinking_leaves_what_is_needed_and_lowers_visits():
    schedule = parse_schedule([f"harness@log.commit#{n}" for n in (9, 4, 8, 3, 7)])

    def fails(part):
        words = [str(strike) for strike in part]
        return any("#4" in w or "#2" in w for w in words) and any("#7" in w for w in words)

    assert [str(s) for s in shrink(schedule, fails)] == ["harness@log.commit#2", "harness@log.commit#7"]


def test_a_kept_schedule_is_a_test_that_fails_until_the_task_is_mended(tmp_path):
    test = tmp_path / "test_mine.py"
    test.write_text(
        "from agentlab.examples import broken_no_key, sound_delivery\n"
        "def test_broken(agent_explorer):\n    agent_explorer.check(broken_no_key.TASK)\n"
        "def test_sound(agent_explorer):\n    agent_explorer.check(sound_delivery.BLIND, pairs=False)\n"
    )
    first = run_pytest(tmp_path, "test_mine.py")
    assert "1 failed, 1 passed" in first, first
    assert "--crash harness@effect.reply" in first
    (kept,) = tmp_path.glob("*.schedule.json")
    assert read_schedule(kept)[0] == "agentlab.examples.broken_no_key:TASK"
    mended, foreign = tmp_path / "mended.schedule.json", tmp_path / "night.schedule.json"
    mended.write_text(kept.read_text().replace("broken_no_key:TASK", "sound_delivery:BLIND"))
    foreign.write_text('{"cron": "0 3 * * *"}')
    second = run_pytest(tmp_path, ".")
    assert "happened 2 times" in second and f"{mended.name}: " not in second, second
    assert "2 failed, 2 passed" in second, (
        "the two of before, the kept one, the mended one; somebody else's file is none of ours"
    )


def test_what_an_exploration_kept_is_a_test_only_where_it_is_asked_for(tmp_path):
    """``%agent explore`` in a project: its files must not turn up in the project's own tests."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_theirs.py").write_text("def test_theirs():\n    pass\n")
    found = Violation("effects", "twice", (), "sound", source="agentlab.examples.sound_delivery:BLIND")
    kept = keep(found, tmp_path / "schedules", 1)
    shutil.copytree(tmp_path / "schedules", tmp_path / "others")
    assert "1 passed" in run_pytest(tmp_path, ".")
    asked = run_pytest(tmp_path, "tests", f"others/{kept.name}", "schedules", "--agentlab-schedules=kept")
    assert "3 passed" in asked, asked
    shutil.move(kept, tmp_path / "tests")
    assert "3 passed" in run_pytest(tmp_path, "--agentlab-schedules=others")


def run_pytest(folder, *args):
    """A pytest of its own, without the plugins of this suite: they cost seconds."""
    others = ("nbval", "xdist", "hypothesispytest", "randomly", "timeout", "playwright", "anyio", "cacheprovider")
    argv = [sys.executable, "-m", "pytest", "-q", "--rootdir", ".", *(f"-pno:{name}" for name in others), *args]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=240)
    return done.stdout + done.stderr


def test_what_only_a_simulation_can_do_is_pasted_there():
    found = Violation("effects", "twice", parse_schedule(["power@log.link#3"]), "mine")
    assert "mine --schedule power@log.link#3" in str(found)
    assert "mine --crash harness@log.link#3" in str(Violation("x", "y", parse_schedule(["harness@log.link#3"]), "mine"))


def test_a_file_that_is_no_schedule_is_refused(tmp_path):
    path = tmp_path / "x.schedule.json"
    path.write_text("{}")
    with pytest.raises(BadDefinition):
        read_schedule(path)


def test_the_command_line_explores_and_replays(tmp_path, capsys, monkeypatch):
    import json

    monkeypatch.chdir(tmp_path)
    assert main(["explore", "agentlab.examples.broken_checkpoint", "--single", "--json"]) == 1
    figures = json.loads(capsys.readouterr().out)
    assert len(figures["violations"]) == 1 and figures["schedules"]["covered"] > 50
    (kept,) = (tmp_path / "schedules").glob("*.schedule.json")
    assert main(["explore", "agentlab.examples.broken_checkpoint", "--replay", str(kept)]) == 1
    assert main(["explore", "agentlab.examples.sound_delivery", "--zombie"]) == 0
    assert "a zombie's late effect was refused" in capsys.readouterr().out
    assert main(["explore", "agentlab.examples.sound_delivery", "--replayed"]) == 0
    capsys.readouterr()
    assert main(["explore", "agentlab.examples.broken_no_key", "--schedule", "power@effect.reply"]) == 1
    assert "happened 2 times" in capsys.readouterr().out
    assert main(["explore", "agentlab.examples.broken_no_key", "--schedule", "sofa@wake"]) == 2
    capsys.readouterr()
    assert (
        main(["explore", "agentlab.examples.sound_delivery", "--single", "--seconds", "1", "--seed", "3", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["schedules"]["run_by_kind"]["random"] > 0
    assert main(["explore", "agentlab.examples.sound_delivery", "--pairs", "--budget", "0.01s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["complete"] is False, "a budget of time ends it early and says so"
    assert main(["explore", "agentlab.examples.sound_delivery:BLIND", "--dial"]) == 0
    assert "events lost" in capsys.readouterr().out
    assert main(["explore", "agentlab.examples.sofa"]) == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--schedule", ""], ["--zombie", "--dial"], ["--replayed", "--real"], ["--schedule", "harness@wake", "--replay", "x"],
        ["--count", "0", "--real"], ["--budget=-5s"], ["--seconds", "nan"], ["--time-limit=-1"],
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused_before_anything_runs(options, capsys):
    with pytest.raises(SystemExit) as left:
        main(["explore", "agentlab.examples.sound_delivery", *options])
    assert left.value.code == 2 and options[0].split("=")[0] in capsys.readouterr().err


def test_a_kept_schedule_is_of_one_task_and_what_never_struck_is_told(tmp_path, capsys):
    broken = "agentlab.examples.broken_no_key"
    assert main(["explore", broken, "--single", "--keep", str(tmp_path)]) == 1
    (kept,) = tmp_path.glob("*.schedule.json")
    assert main(["explore", broken, "--replay", str(kept), "--json"]) == 1
    assert main(["explore", "agentlab.examples.sound_delivery", "--replay", str(kept)]) == 2
    assert "was kept of" in capsys.readouterr().err
    assert main(["explore", broken, "--schedule", "harness@wake#99"]) == 0
    assert "harness@wake#99 never struck" in capsys.readouterr().out


def test_an_exploration_without_time_shows_nothing_and_says_so(capsys, monkeypatch):
    monkeypatch.setenv("AGENTLAB_DISPLAY", "plain")
    assert main(["explore", "agentlab.examples.sound_delivery", "--time-limit", "0"]) == 0
    assert "no death was judged, which is no evidence" in capsys.readouterr().out
    told = ExploreView(explore("sales_report", time_limit_s=0)).text()
    assert "no evidence" in told and "every promise kept" not in told


def test_what_is_no_time_is_told_how_to_be_written(capsys):
    with pytest.raises(SystemExit):
        main(["explore", "sales_report", "--budget", "soon"])
    assert "'soon' is no time: write 60, 60s or 2m" in capsys.readouterr().err


def test_a_model_that_nobody_can_ask_is_refused_before_anything_runs():
    with pytest.raises(UnknownName, match="model"):
        explore("sales_report", model="no-such-model", time_limit_s=0)


def test_a_module_of_ones_own_is_found_from_where_one_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(tmp_path))])
    (tmp_path / "mine_here.py").write_text("from agentlab.examples.sound_delivery import TASK\n")
    (tmp_path / "needs_more.py").write_text("import no_such_module_at_all\n")
    assert main(["explore", "mine_here:TASK", "--single"]) == 0
    capsys.readouterr()
    assert main(["explore", "mine_heer:TASK", "--single"]) == 2
    assert "did you mean mine_here" in capsys.readouterr().err
    assert main(["explore", "needs_more:TASK"]) == 2
    assert "no_such_module_at_all" in capsys.readouterr().err
