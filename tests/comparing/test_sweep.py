"""``al.sweep``: any function over any grid, killed and gone on with, failures as rows, a bar with the time left."""

import concurrent.futures
import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

import agentlab as al
from agentlab.authoring import task
from agentlab.comparing.latencies import Latencies
from agentlab.comparing.measuring import measure
from agentlab.comparing.progress import Line, Meter, Progress, clock
from agentlab.comparing.real import drive, own_lab
from agentlab.comparing.simulating import Crashes, Simulation
from agentlab.comparing.sweeping import grid_conditions
from agentlab.errors import AgentlabError, BadDefinition, SessionBusy, UserError
from tests.comparing import sweeper

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def threads():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        yield pool


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_a_sweep_killed_with_sigkill_goes_on_where_it_was(tmp_path, threads, monkeypatch):
    lab, ledger = tmp_path / "lab", tmp_path / "ledger"
    argv = [sys.executable, "-m", "tests.comparing.sweeper", str(lab), str(ledger)]
    child = subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def recorded():
        store = al.Lab(lab).store if lab.exists() else None
        names = store.sessions() if store else []
        return sum(e.type == "run_recorded" for e in store.open(names[0]).replay(1)) if names else 0

    until(lambda: recorded() >= 2 or child.poll() is not None)
    grid = {"number": [1, 2, 3], "letter": ["a", "b"]}
    with pytest.raises(SessionBusy):  # as long as another process drives it
        al.sweep(grid, sweeper.slowly, seeds=3, lab=al.Lab(lab), executor=threads, progress=False)
    until(lambda: recorded() >= 4 or child.poll() is not None)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    kept = recorded()
    assert 4 <= kept < 18
    (status,) = al.Lab(lab).statuses()
    assert status.status == "crashed"
    # Its workers end with it, though nobody told them.
    workers = {int(line.split()[3]) for line in ledger.read_text().splitlines()}
    until(lambda: not any(_alive(pid) for pid in workers))
    monkeypatch.setenv(sweeper.LEDGER, str(ledger))
    calls_before = len(ledger.read_text().splitlines())
    opened = al.Lab(lab)
    found = al.sweep(
        {"number": [1, 2, 3], "letter": ["a", "b"]},
        sweeper.slowly,
        seeds=3,
        lab=opened,
        executor=threads,
        progress=False,
    )
    calls = [tuple(line.split()[:3]) for line in ledger.read_text().splitlines()]
    assert len(calls) - calls_before == 18 - kept and len(set(calls)) == 18
    assert Counter(calls).most_common(1)[0][1] <= 2  # at most what was in flight is done again
    assert found.session_id == status.session_id and len(found.frame) == 18 and found.failed == 3
    events = opened.session(found.session_id).events()
    assert [e.payload["reason"] for e in events if e.type == "harness_woken"] == ["start", "crash"]
    assert opened.session(found.session_id).verify().seq == len(events)
    assert opened.statuses()[0].status == "completed"
    rows = found.frame[~found.frame.ok]
    assert (rows.number == 2).all() and (rows.letter == "b").all() and rows.error.str.contains("two b fails").all()
    good = found.frame[found.frame.ok]
    assert (good["sum"] == good.number + good.seed).all() and (good.word == good.letter * good.number).all()


def _alive(pid):
    try:
        os.kill(pid, 0)
        return not Path("/proc").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_conditions_are_named_plain_data_and_stored_with_the_runs(tmp_path, threads):
    def fn(model, limits):
        return model.upper() if isinstance(model, str) else model(limits["max_turns"])

    grid = {"model": {"loud": "abc", "double": lambda n: 2 * n}, "limits": [{"max_turns": 3}, {"max_turns": 4}]}
    lab = al.Lab(tmp_path)
    found = al.sweep(grid, fn, lab=lab, executor=threads, progress=False)
    assert found.frame.value.tolist() == ["ABC", "ABC", 6, 8]
    assert found.frame.condition[3] == "model=double, limits={'max_turns': 4}"
    events = lab.session(found.session_id).events()
    plan = events[0].payload["input"]["plan"]
    assert plan["conditions"][2] == {
        "name": "model=double, limits={'max_turns': 3}",
        "values": {"model": "double", "limits": {"max_turns": 3}},
    }
    runs = [e.payload for e in events if e.type == "run_recorded"]
    assert {r["condition"] for r in runs} == set(found.frame.condition) and all(r["values"] for r in runs)


def test_a_value_that_can_not_be_recorded_needs_a_name():
    with pytest.raises(BadDefinition, match="a name"):
        grid_conditions({"model": [object()]})
    with pytest.raises(BadDefinition, match="no values"):
        grid_conditions({"model": []})
    conditions, _ = grid_conditions([{"a": 1}, {"a": 2, "b": 3}])
    assert [c.name for c in conditions] == ["a=1", "a=2, b=3"]


@pytest.mark.parametrize(
    ("grid", "fn", "name"),
    [(5, print, None), ("abc", print, None), ([5], print, None), ({"a": [1]}, None, None), ({"a": [1]}, print, "../x")],
)
def test_what_is_no_sweep_is_refused_in_a_line(tmp_path, grid, fn, name):
    lab = al.Lab(tmp_path)
    with pytest.raises(UserError):
        al.sweep(grid, fn, lab=lab, name=name, progress=False)
    assert not lab.store.sessions()


def test_a_field_that_nothing_takes_is_refused_before_anything_runs(tmp_path):
    lab = al.Lab(tmp_path)

    def fn(number, *, letter="a"):
        raise AssertionError("it was called")

    def takes_all(**values):
        raise AssertionError("it was called")

    nowhere = concurrent.futures.Executor()  # cannot run anything
    for grid, called, seeds, said in (
        (
            [{"policy": "never"}, {"polcy": "never"}],
            "sea_table",
            None,
            "no task field named 'polcy': did you mean policy",
        ),
        ({"limit": [{"max_turns": 3}]}, task("sea_table"), 2, "no task field named 'limit': did you mean limits"),
        ({"name": ["x"]}, "sea_table", None, "no task field named 'name'"),
        ({"seed": [1], "model": ["x"], "session_id": ["y"]}, "sea_table", None, "no task field named 'session_id'"),
        ({"nmber": [1]}, fn, None, "no argument of fn named 'nmber': did you mean number"),
        ({"number": [1]}, fn, 2, "no argument of fn named 'seed'"),
        ([{"number": 1}, {"letter": "b"}], fn, None, "fn needs 'number', which condition 'letter=b' does not give"),
        ({5: [1]}, takes_all, None, "a field is a name, not 5"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            al.sweep(grid, called, seeds, lab=lab, executor=nowhere, progress=False)
    assert not lab.store.sessions()


def test_numbers_that_json_has_no_word_for_come_back_as_numbers(tmp_path, threads):
    def fn(a):
        return {"x": float("nan"), "y": float("-inf"), "z": 1 << 20_000, "parts": [a, {"b": None}], "what": fn}

    row = al.sweep({"a": [1]}, fn, lab=al.Lab(tmp_path), executor=threads, progress=False).frame.iloc[0]
    assert row.x != row.x and row.y == -math.inf and row.z == 1 << 20_000
    assert row.parts == '[1,{"b":null}]' and row.what.startswith("<function ")


def test_a_changed_function_is_another_sweep(tmp_path, threads):
    lab = al.Lab(tmp_path)

    def fn(a):
        return a

    first = al.sweep({"a": [1]}, fn, lab=lab, executor=threads, progress=False)

    def fn(a):  # noqa: F811
        return a + 1

    second = al.sweep({"a": [1]}, fn, lab=lab, executor=threads, progress=False)
    assert first.session_id.rsplit("-", 1)[0] != second.session_id.rsplit("-", 1)[0]


def _die(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_run_that_kills_its_worker_is_a_failed_run_and_the_others_are_done(tmp_path):
    found = al.sweep({"number": [1, 2, 3, 4]}, _die, lab=al.Lab(tmp_path), progress=False)
    assert found.frame.ok.tolist() == [True, False, True, True] and "WorkerDied" in found.frame.error[1]


def test_a_run_that_calls_exit_is_a_failed_run_and_the_others_are_done(tmp_path):
    def fn(code):
        return sys.exit(code) if code else "stays"

    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        found = al.sweep({"code": [0, 3]}, fn, lab=al.Lab(tmp_path), executor=threads, progress=False)
    assert found.frame.ok.tolist() == [True, False] and found.frame.error[1] == "SystemExit: 3"


def _sleep(number):
    time.sleep(3600.0)


def test_an_interrupt_ends_the_workers_in_the_middle_of_what_they_do(tmp_path):
    seen = []

    def interrupt(progress):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has just gone
                if "spawn_main" in " ".join(child.cmdline()):
                    seen.append(child)
        if seen:
            raise KeyboardInterrupt

    lab = al.Lab(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        al.sweep({"number": [1, 2]}, _sleep, lab=lab, progress=interrupt)
    until(lambda: not any(_alive(worker.pid) for worker in seen))
    assert lab.statuses()[0].status == "paused"


def test_an_executor_that_breaks_is_told_and_the_sweep_can_go_on(tmp_path, threads):
    lab = al.Lab(tmp_path)
    with concurrent.futures.ProcessPoolExecutor(1) as pool, pytest.raises(AgentlabError, match="goes on"):
        al.sweep({"number": [2]}, _die, lab=lab, executor=pool, progress=False)
    assert lab.statuses()[0].status == "paused"


def test_a_task_runs_over_its_own_fields_whatever_they_are(tmp_path, threads):
    """Policies, prompts, budgets, guard thresholds, context strategies, models: each run really had what its row says."""
    lab = al.Lab(tmp_path)
    grid = [
        {"policy": "every=5", "goal": "Ask the sea, briefly."},
        {"guard": {"window": 6}, "context": {"strategy": "results+window"}, "resources": {"cpu_s": 30}},
        {"limits": {"model_calls": 1}},
        {"guard": {"windou": 6}},
        {"model": "scripted:tests.comparing.chains:nobody"},
    ]
    frame = al.sweep(grid, "sea_table", lab=lab, executor=threads, progress=False).frame
    assert frame.ok.tolist() == [True, True, True, False, False]
    assert frame.outcome.tolist()[:3] == ["completed", "completed", "paused"] and frame.checkpoints[0] > 0
    assert "no setting 'windou'" in frame.error[3] and "nobody" in frame.error[4]
    given = []
    for name in frame.session_id[:3]:
        folder, session_id = name.split("/")
        given.append(al.Lab(lab.path / "runs" / folder).session(session_id).events()[0].payload["definition"])
    assert given[0]["goal"] == "Ask the sea, briefly." and given[0]["policy"]["kind"] == "every_events"
    assert given[1]["guard"]["window"] == 6 and given[1]["context"]["strategy"] == "results+window"
    assert given[1]["resources"]["cpu_s"] == 30 and given[2]["limits"]["model_calls"] == 1


def _local(folder):
    with own_lab(folder) as lab:
        session = lab.create("sea_table")
        assert drive(session, Crashes(), 0, 240.0) is False
        return session.events()


def _simulated(folder):
    return Simulation(task("sea_table"), Latencies()).run(Crashes(), 0)


def test_kinds_of_sandboxes_are_swept_by_their_names(tmp_path, threads):
    def ran(sandbox):
        events = sandbox(str(tmp_path / "runs"))
        (ready,) = [e for e in events if e.type == "sandbox_ready"]
        row = measure(events)
        return {"kind": ready.payload["record"]["kind"], "calls": row["model_calls"], "bytes": row["bytes_written"]}

    grid = {"sandbox": {"local": _local, "simulated": _simulated}}
    frame = al.sweep(grid, ran, lab=al.Lab(tmp_path / "lab"), executor=threads, progress=False).frame
    assert frame.ok.all(), frame.error.tolist()
    assert frame.sandbox.tolist() == frame.kind.tolist() == ["local", "simulated"]
    assert frame.calls.nunique() == 1 and (frame.bytes > 0).all()  # the same task takes the same way in both


def test_the_bar_says_how_far_it_is_and_how_long_it_will_take(monkeypatch):
    told, now = [], [1000.0]
    monkeypatch.setattr("agentlab.comparing.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    meter = Meter("s", 10, 2, told.append)
    now[0] += 30.0
    for error in ("", "", "x"):
        meter.count(error)
    meter.tick(last=True)
    (seen,) = told
    assert (seen.done, seen.failed, seen.total) == (5, 1, 10) and seen.left_s == pytest.approx(50)
    assert "5/10, 1 failed, 0:30, 0:50 left" in seen.line() and clock(3725) == "1:02:05"


def test_watching_never_stops_a_run(tmp_path, threads):
    def broken(progress):
        raise RuntimeError("nobody looks")

    found = al.sweep({"number": [1, 3]}, _die, lab=al.Lab(tmp_path), executor=threads, progress=broken)
    assert found.failed == 0


def test_a_terminal_gets_one_line_that_is_rewritten(capsys):
    line = Line(sys.stdout)
    line(Progress("s", 1, 0, 2, 1.0, 1.0))
    line(Progress("s", 2, 0, 2, 2.0, None))
    shown = capsys.readouterr().out
    assert shown.count("\r") == 2 and shown.count("\n") == 1 and "1/2" in shown and "2/2" in shown


def test_columns_that_meet_do_not_hide_each_other(tmp_path, threads):
    lab = al.Lab(tmp_path)

    def rate(seed, size):
        return {"error": size / 100, "ok": "perhaps", "size": -1}

    swept = al.sweep({"seed": [7, 8], "size": [3]}, rate, lab=lab, executor=threads, progress=False)
    frame = swept.frame
    assert frame["seed"].tolist() == [7, 8] and frame["size"].tolist() == [3, 3]
    assert frame["ok"].tolist() == [True, True] and frame["error"].tolist() == ["", ""] and swept.failed == 0
    assert frame["error_"].tolist() == [0.03, 0.03] and frame["ok_"].tolist() == ["perhaps"] * 2
    assert frame["size_"].tolist() == [-1, -1]
    with pytest.raises(BadDefinition, match="error is a column"):
        al.sweep({"error": [1]}, rate, lab=lab, executor=threads, progress=False)
    with pytest.raises(BadDefinition, match="in one place"):
        al.sweep({"seed": [1], "size": [1]}, rate, seeds=2, lab=lab, executor=threads, progress=False)
