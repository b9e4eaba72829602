"""One end-to-end test per judgement: what an agent session has to stand, shown with real processes and real kills."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from agentlab import process
from agentlab.lab import Lab

from . import tasks


def test_1_session_storage_kill_the_process_start_again_the_session_reads_back_whole(tmp_path, until):
    """The whole owner is killed (SIGKILL); another process reads every event back and goes on."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from agentlab.lab import Lab
from tests.e2e import tasks
lab = Lab({str(tmp_path / "lab")!r})
session = lab.run(tasks.task("write", "long"), background=True)
import time
seen = []
while True:
    state, fresh = session._reader.look()
    for event in fresh:
        print(event.seq, event.hash, flush=True)
    time.sleep(0.01)
"""
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    seen: dict[int, str] = {}
    while not any(seq >= 20 for seq in seen):
        line = owner.stdout.readline()
        assert line, "the owner ended early"
        seq, row = line.split()
        seen[int(seq)] = row
    owner.kill()
    owner.wait()
    owner.stdout.close()
    with Lab(tmp_path / "lab") as lab:
        session = lab.session("small-1")
        until(lambda: process.liveness(session.state.process) == "dead", what="the harness ends with its owner")
        kept = {e.seq: e.hash for e in session.events()}
        assert all(kept[seq] == row for seq, row in seen.items()), "what was seen is still there"
        assert session.verify().seq == len(kept)
        assert session.status().status == "crashed" and session.status().resumable


def test_2_every_key_action_is_an_event_and_the_log_says_why(lab, receiver):
    session = lab.run(tasks.task("write", "send"), params={"receiver_url": receiver.url})
    assert session.status().status == "completed"
    events = session.events()
    kinds = {e.type for e in events}
    assert {
        "session_started", "harness_woken", "plan_set", "step_started", "model_request", "model_response", "decision",
        "tool_requested", "tool_result", "effect_pending", "effect_completed", "step_completed", "checkpoint_written",
        "session_ended",
    } <= kinds  # fmt: skip
    decisions = [e for e in events if e.type == "decision"]
    assert [d.payload["action"] for d in decisions] == ["write_line", "send"]
    assert decisions[1].payload["why"] == "Step send needs send."
    assert "lines=1" in decisions[1].payload["last_result"]
    result = next(e for e in events if e.type == "tool_result").to_json()
    assert {"sessionId", "seq", "ts", "type", "toolName", "inputHash", "payload", "error"} <= set(result)
    assert result["inputHash"].startswith("sha256:") and result["payload"]["exitCode"] == 0


def test_3_goes_on_from_the_checkpoint_not_from_the_start(lab, receiver):
    session = lab.run(
        tasks.task("write", "slow", "send"), params={"receiver_url": receiver.url}, crash=["harness@step_completed#2"]
    )
    assert session.status().status == "completed"
    events = session.events()
    woken = [e for e in events if e.type == "harness_woken"]
    assert len(woken) == 2 and woken[1].payload["checkpoint_seq"]
    assert woken[1].payload["cursor"] > 5, "it read only what came after the checkpoint"
    answers = Counter(e.payload["step_id"] for e in events if e.type == "step_completed")
    assert answers == {"write": 1, "slow": 1, "send": 1}, "no step was done twice"
    recovered = next(e for e in events if e.type == "recovery_completed")
    assert recovered.payload["lost_steps"] == 0


def test_4_a_tool_that_fails_is_a_value_that_the_model_sees(lab):
    session = lab.run(tasks.task("write", model=tasks.skips_after_errors))
    assert session.status().status == "completed"
    errors = [e for e in session.events() if e.type == "tool_error"]
    assert len(errors) == 2
    assert errors[0].error == {"type": "RuntimeError", "message": "HTTP 500"}
    assert errors[0].error_type == "RuntimeError" and errors[0].tool_name == "fail"
    chosen = [e.payload["why"] for e in session.events() if e.type == "decision"]
    assert "HTTP 500" in chosen[-1], "it reacted to what the tool returned"


def test_5_three_retries_one_effect_outside(lab, receiver):
    receiver.misbehave("lose_reply", "lose_reply", "lose_reply")
    session = lab.run(tasks.task("flaky"), params={"receiver_url": receiver.url}, crash=["harness@effect.reply"])
    assert session.status().status == "completed"
    assert len(receiver.ledger()) == 1, "exactly one effect"
    events = session.events()
    keys = {e.effect_key for e in events if e.type.startswith("effect_")}
    assert len(keys) == 1, "the key stays the same over retries and restarts"
    assert sum(1 for e in events if e.type == "effect_completed") == 1


def test_6_the_sandbox_is_rebuilt_from_the_last_snapshot(lab, receiver, tmp_path, until):
    gate = tmp_path / "gate"
    task = tasks.task("write", "gate", "send", tools=tasks.MORE_TOOLS)
    session = lab.run(task, params={"receiver_url": receiver.url, "gate": str(gate)}, background=True)
    until(gate.with_name("gate.reached").exists, what="a tool that runs in the sandbox")
    assert any(e.type == "snapshot_taken" for e in session.replay())
    record = dict(session.state.sandbox.record)
    assert process.send_signal(record, group=True) and process.await_death(record, 60.0)
    shutil.rmtree(record["home"], ignore_errors=True)  # force-removed, as a container would be
    gate.touch()
    session.wait(120)
    assert session.status().status == "completed"
    assert session.read_file("report.txt") == b"hello\n"
    events = session.events()
    ready = [e for e in events if e.type == "sandbox_ready"]
    assert len(ready) == 2 and ready[1].payload["restored_from"]


def test_7_what_is_slow_and_which_step_fails_most_have_answers(lab):
    session = lab.run(tasks.task("slow", "write", model=tasks.by_step))
    assert session.status().status == "completed"
    timed = [e for e in session.events() if e.type in ("tool_result", "tool_error", "model_response")]
    assert all(e.duration_ms is not None for e in timed)
    took = {e.tool_name: e.duration_ms for e in timed if e.tool_name}
    assert list(took) == ["slow", "write_line"] and took["slow"] >= 500, "half a second of sleep is in it"
    failing = lab.run(tasks.task("write", model=tasks.skips_after_errors))
    steps = failing.result["steps"]
    assert max(steps, key=lambda name: steps[name]["errors"]) == "write" and steps["write"]["errors"] == 2
    json.dumps(failing.result)
