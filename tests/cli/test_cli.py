"""The command line as somebody types it: processes, exit codes, what is on which stream."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentlab.effects.receiver import ReceiverProcess
from agentlab.lab import Lab
from tests.cli import slowly
from tests.effects.helpers import until

ROOT = str(Path(__file__).parents[2])
SLOWLY = "scripted:tests.cli.slowly:policy"


def environment():
    return {**os.environ, "PYTHONPATH": ROOT, "PYTHONUNBUFFERED": "1"}


def agentlab(*words, timeout=280):
    argv = [sys.executable, "-m", "agentlab", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, env=environment(), timeout=timeout)


def good(*words, code=0):
    done = agentlab(*words)
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr)
    return done.stdout


def refused(*words):
    """The one line on standard error of a command that exits with 2 and prints nothing else."""
    done = agentlab(*words)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stdout == "" and "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("agentlab")
    return line


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A lab with one session of the sales task, run from the command line."""
    home = tmp_path_factory.mktemp("cli")
    with ReceiverProcess(home / "receiver") as receiver:
        url = f"receiver_url={receiver.url}"
        said = good("run", "sales_report", "--lab", home / "lab", "--session", "may", "--param", url)
        assert len(receiver.ledger()) == 1
    return home / "lab", said


def test_the_demo_refuses_what_can_not_be_its_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    assert "is a file; the demo's lab goes into a folder" in refused("demo", "--folder", file)
    assert "can not be made a folder for the demo's lab (Not a directory)" in refused("demo", "--folder", file / "x")
    assert file.read_text() == "mine"


def test_the_demo_keeps_its_promise():
    verdict = json.loads(good("demo", "--json"))
    assert verdict["verified"] is True and verdict["completed"] is True
    assert {
        "completed", "harness_kills", "sandbox_kills", "notifications", "report_sha256", "baseline_sha256", "events",
        "verified", "lost_steps", "lost_events", "costs", "baseline_events", "lab",
    } <= set(verdict)  # fmt: skip
    assert (verdict["harness_kills"], verdict["sandbox_kills"], verdict["notifications"]) == (2, 1, 1)
    assert verdict["report_sha256"] == verdict["baseline_sha256"] and len(verdict["report_sha256"]) == 64
    assert verdict["lost_steps"] == verdict["lost_events"] == 0 and len(verdict["costs"]) == 3


def test_a_run_tells_its_timeline_and_its_end(made):
    _, said = made
    *timeline, last = said.splitlines()
    assert "may: completed, 5 of 5 steps done" in last
    assert any("session_ended" in line and "completed" in line for line in timeline)
    numbers = [int(line.split()[1]) for line in timeline]
    assert numbers == sorted(set(numbers)), "each event once, in order"


def test_looking_at_a_session(made):
    lab, _ = made
    assert "may: completed" in good("sessions", "--lab", lab)
    (row,) = json.loads(good("sessions", "--lab", lab, "--json"))
    assert row["session_id"] == "may" and row["status"] == "completed" and row["steps_done"] == 5

    all_events = [json.loads(line) for line in good("log", "may", "--lab", lab, "--json").splitlines()]
    assert [e["seq"] for e in all_events] == list(range(1, row["events"] + 1))
    later = [json.loads(line) for line in good("log", "may", "--lab", lab, "--from", "42", "--json").splitlines()]
    assert later == all_events[41:]
    shown = good("log", "may", "--lab", lab, "--from", "42").splitlines()
    assert shown and all(int(line.split()[1]) >= 42 for line in shown)
    assert len(good("log", "may", "--lab", lab, "--all").splitlines()) == len(all_events) > len(shown)

    assert "may: ended" in good("locate", "may", "--lab", lab) and "because" in good("locate", "may", "--lab", lab)
    found = json.loads(good("locate", "may", "--lab", lab, "--json"))
    assert found["condition"] == "ended" and found["evidence"] and found["last_event"] == row["events"]

    head = json.loads(good("verify", "may", "--lab", lab, "--json"))
    assert head == {"session": "may", "events": row["events"], "head": all_events[-1]["hash"]}
    assert f"{row['events']} events, hashes intact" in good("verify", "may", "--lab", lab)
    assert good("sessions", "--lab", lab.parent / "none").startswith("no sessions yet")


def test_asking_and_diagnosing(made, tmp_path):
    lab, _ = made
    query = "SELECT session_id, status, started_at FROM sessions WHERE task = 'sales_report'"
    assert "may" in good("sql", query, "--lab", lab) and "no rows" in good("sql", query + " AND false", "--lab", lab)
    (row,) = json.loads(good("sql", query, "--lab", lab, "--json"))
    assert row["session_id"] == "may" and row["status"] == "ended" and row["started_at"].endswith("Z")
    assert good("sql", query, "--lab", lab, "--csv").splitlines()[1].startswith("may,ended,20")
    assert "latency_s" in good("sql", "calls", "--views") and "recoveries: one death" in good("sql", "--views")
    wrong = agentlab("sql", "SELECT nonsense FROM calls", "--lab", lab)
    assert wrong.returncode == 2 and "can not be answered" in wrong.stderr and "Traceback" not in wrong.stderr
    assert "no lab at" in refused("sql", query, "--lab", tmp_path / "none")
    found = json.loads(good("diagnose", "may", "--lab", lab, "--json"))
    assert found["subject"] == "may" and not [s for s in found["symptoms"] if s["verdict"] == "found"]
    made_ = json.loads(good("report", "may", "--lab", lab, "--to", tmp_path / "may.html", "--json"))
    assert (tmp_path / "may.html").stat().st_size == made_["bytes"] > 10_000
    assert good("seal", "--lab", lab).endswith("files merged\n")


def test_a_flipped_byte_is_found_and_named_or_changes_nothing(made, tmp_path):
    lab, _ = made
    copy = tmp_path / "lab"
    subprocess.run(["cp", "-r", str(lab), str(copy)], check=True)
    told = good("log", "may", "--lab", lab, "--json")
    path = max(copy.glob("sessions/*/*/*.parquet"), key=lambda file: file.stat().st_size)
    path.chmod(0o644)
    whole, found = path.read_bytes(), 0
    for tenth in range(10):
        data = bytearray(whole)
        data[4 + (len(data) - 8) * tenth // 10] ^= 0x01
        path.write_bytes(data)
        done = agentlab("verify", "may", "--lab", copy)
        if done.returncode == 0:  # a statistic, say: what is read is still what was written
            assert good("log", "may", "--lab", copy, "--json") == told
            continue
        found += 1
        assert done.returncode == 2 and not done.stdout and len(done.stderr.splitlines()) == 1
        assert path.name in done.stderr or "event " in done.stderr
    assert found >= 3
    assert good("verify", "may", "--lab", lab), "the original is whole"


def test_a_misspelt_word_gets_one_line_with_the_nearest_right_one(made):
    lab, _ = made
    assert "did you mean locate?" in refused("lcate", "may")
    assert "did you mean --json" in refused("sessions", "--jsn")
    assert "did you mean sales_report?" in refused("run", "sales_reprot", "--lab", lab)
    assert "did you mean may?" in refused("verify", "mai", "--lab", lab)
    assert "did you mean may?" in refused("wake", "mai", "--lab", lab)
    assert "tool_result" in refused("run", "sales_report", "--lab", lab, "--crash", "harness@tool_reslt")
    assert "did you mean every" in refused("run", "sales_report", "--lab", lab, "--policy", "evry=5")
    assert "NAME=VALUE" in refused("run", "sales_report", "--lab", lab, "--param", "receiver_url")
    assert "did you mean receiver_url?" in refused("run", "sales_report", "--lab", lab, "--param", "recever_url=x")
    assert "--from" in refused("log", "may", "--lab", lab, "--from", "x")
    assert "VERB" in refused()
    assert "has ended" in refused("wake", "may", "--lab", lab)
    assert "exists already" in refused("run", "sales_report", "--lab", lab, "--session", "may")
    with Lab(lab) as again:
        assert [s.id for s in again.sessions()] == ["may"], "no half-made session"


def test_a_lab_that_is_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("not a lab")
    for words in (["run", "sales_report"], ["sessions"], ["verify", "x"]):
        assert "is a file" in refused(*words, "--lab", path)


def heeding_interrupts():
    """In a child: as a terminal starts it. A script that runs the tests in its background has them ignore interrupts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_interrupted_run_pauses_and_a_wake_completes_it(tmp_path):
    lab = tmp_path / "lab"
    with ReceiverProcess(tmp_path / "receiver") as receiver:
        argv = [sys.executable, "-m", "agentlab", "run", "sales_report", "--lab", str(lab), "--session", "may"]
        argv += ["--model", SLOWLY, "--param", f"receiver_url={receiver.url}"]
        gate = tmp_path / "gate"
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment(), slowly.GATE: str(gate)},
            start_new_session=True, preexec_fn=heeding_interrupts,
        ) as run:  # fmt: skip
            try:
                said = []
                for line in run.stdout:
                    said.append(line)
                    if "step_completed" in line:
                        break
                os.killpg(run.pid, signal.SIGINT)  # as a terminal does: everyone in the foreground gets it
                with Lab(lab) as looked:
                    session = looked.session("may")
                    until(lambda: "pause_requested" in {e.type for e in session.events()}, "it is told to pause")
                gate.touch()
                rest, errors = run.communicate(timeout=280)
            finally:
                run.kill()
        assert run.returncode == 0 and errors == "", errors
        last = (said + rest.splitlines())[-1]
        assert "may: paused" in last, last
        assert not receiver.ledger()
        with Lab(lab) as looked:
            session = looked.session("may")
            assert session.status().status == "paused" and session.status().crashes == 0
            paused = next(e for e in session.events() if e.type == "session_paused")
            assert paused.payload["detail"] == "interrupted"

        status = json.loads(good("wake", "may", "--lab", lab, "--json"))
        assert status["status"] == "completed" and status["steps_done"] == 5
        assert len(receiver.ledger()) == 1


def test_a_run_with_kills_completes_too(tmp_path):
    with ReceiverProcess(tmp_path / "receiver") as receiver:
        words = ["run", "sales_report", "--lab", tmp_path / "lab", "--param", f"receiver_url={receiver.url}", "--json"]
        status = json.loads(good(*words, "--crash", "harness@tool_result", "--crash", "sandbox@step=2"))
        assert status["status"] == "completed" and status["crashes"] == 1
        assert len(receiver.ledger()) == 1
    assert (
        json.loads(good("verify", "sales_report-1", "--lab", tmp_path / "lab", "--json"))["events"] == status["events"]
    )


def test_bench_measures_what_it_says():
    out = subprocess.run(
        [sys.executable, "-m", "agentlab", "bench", "--quick", "--json"], capture_output=True, text=True, timeout=280
    )
    assert out.returncode == 0, out.stderr
    figures = json.loads(out.stdout)
    wanted = {"append_ratio", "step_growth", "restart_seconds", "simulated_events_per_second", "step_overhead_ms"}
    assert wanted <= set(figures)
    # what is added to a step is a difference of two times: on a busy machine a short run may give less than nothing
    assert all(figures[name] > 0 for name in wanted - {"step_overhead_ms"})


def test_the_limits_of_a_lab(tmp_path):
    lab = tmp_path / "lab"
    assert good("lab", "--lab", lab).startswith("no limit")
    assert good("lab", "--lab", lab, "--max-sessions", "3").startswith("at most 3 sessions at once")
    assert "1,000,000" in good("lab", "--lab", lab, "--limit", "tokens=1M")
    found = json.loads(good("lab", "--lab", lab, "--extend", "tokens=20k", "--json"))
    assert found["max_sessions"] == 3 and found["places"] == []
    assert found["pool"]["rows"][0] | {"limit": 1_020_000, "left": 1_020_000} == found["pool"]["rows"][0]
    assert Lab(lab).queue.max_sessions == 3
    assert "--max-sessions" in refused("lab", "--lab", lab, "--max-sessions", "0")
    assert "requests: at most 50 a minute" in good("lab", "--lab", lab, "--quota", "requests=50")
    assert "share no limit" in refused("lab", "--lab", lab, "--extend", "steps=1")


def test_the_budget_is_read_and_extended(tmp_path):
    with Lab(tmp_path / "lab") as lab:
        session = lab.create("sales_report", session_id="b", limits={"tool_calls": 3})
    where = ("--lab", tmp_path / "lab")
    assert "tool_calls" in good("budget", "b", *where) and session.state.budget.limits["tool_calls"] == 3
    row = next(r for r in json.loads(good("budget", "b", "extend", "calls=5", "--json", *where))["rows"] if r["limit"])
    assert row["dimension"] == "tool_calls" and row["limit"] == row["left"] == 8
    assert "tokens=20k" in refused("budget", "b", "extend", *where)
