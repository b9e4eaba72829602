"""Bugs to plant: each one a change of a few words in a copy of the package, and who has to notice it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 280.0
EXPLORE = """
import json, sys
from agentlab.explorer import explore
report = explore(sys.argv[1], pairs=False, stop_after=1, faults="faults" in sys.argv[2:])
print(json.dumps([report.to_json()["violations"], report.violating, report.seconds]))
"""


@dataclass(frozen=True)
class Mutation:
    """``old`` becomes ``new`` in ``file``; ``judge`` is ``explore``, or code that must raise an AssertionError.

    ``faults`` says that it takes a service that misbehaves, or a second harness, to show it.
    """

    name: str
    file: str
    old: str
    new: str
    judge: str = "explore"
    task: str = "agentlab.examples.sound_delivery"
    faults: bool = False


DURABILITY = """
import sys, pathlib
from tests.log.crash_states import Recorder
from tests.log.test_durability import append_and_seal
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
append_and_seal(Recorder, folder)
"""
"""The log's own suite for power loss, without the rest of pytest: it raises where a crash state is torn or lacks something."""
FILE_SYNC = """                disk.fsync(fd)
                _reach(points.fsync, "after", detail)"""
FOLDER_SYNC = "        sync_folder(disk, os.path.dirname(path), points.dirsync, detail)\n    return tmp"

MUTATIONS = (
    # effects
    Mutation(
        "an effect is executed before it is registered", "harness/effects.py",
        "    rig.recorder.commit((Draft(\"effect_pending\", pending, parent_seq=call.seq, step=_step(rig), **place),))",
        "    rig.recorder.stage((Draft(\"effect_pending\", pending, parent_seq=call.seq, step=_step(rig), **place),))",
    ),
    Mutation(
        "the key belongs to the incarnation", "harness/effects.py",
        "    key = call.key or effect_key(rig, call, tool)",
        "    key = f'{effect_key(rig, call, tool)}/{rig.recorder.incarnation}'",
        task="agentlab.examples.sound_delivery:BLIND",
    ),
    Mutation(
        "a pending effect is repeated, not verified", "session/recovery.py",
        "                return c.VerifyEffect(call.call_id, call.tool, call.key)",
        "                return c.RunCall(call.call_id, call.tool, call.effect, call.tries, 0)",
    ),
    Mutation(
        "verify is skipped in a recovery and its outcome assumed", "harness/effects.py",
        "    outcome, evidence, value = _ask_outside(rig, call, tool)\n    if outcome == \"not_done\" and",
        "    outcome, evidence, value = \"completed\", \"assumed\", {\"id\": 1}\n    if outcome == \"not_done\" and",
    ),
    # fencing
    Mutation(
        "a newer incarnation does not fence", "harness/recorder.py",
        "if KINDS[event.type].cls == \"opening\" and event.incarnation > self.incarnation:",
        "if False:",
    ),
    Mutation(
        "a wake opens no incarnation of its own", "harness/assembly.py",
        "recorder = recorder_of(loaded.state, loaded.state.incarnation + 1)",
        "recorder = recorder_of(loaded.state, max(1, loaded.state.incarnation))",
    ),
    Mutation(
        "a conflict counts as success", "harness/recorder.py",
        "                dropped = self._rebase() or dropped\n                continue",
        "                pass",
    ),
    # budget
    Mutation(
        "a wake starts with a fresh budget", "session/fold.py",
        "        \"budget\": budget.cut(state.budget),",
        "        \"budget\": budget.BudgetState(limits=state.budget.limits),",
    ),
    Mutation(
        "what is at risk is forgotten at a wake", "session/fold.py",
        "        \"budget\": budget.cut(state.budget),",
        "        \"budget\": budget.BudgetState(used=state.budget.used, limits=state.budget.limits),",
    ),
    Mutation(
        "the model is asked before the request is on record", "harness/asking.py",
        "    rig.recorder.commit((_request_draft(rig, request, request_id, command, drift),))",
        "    rig.recorder.stage((_request_draft(rig, request, request_id, command, drift),))",
    ),
    # workspace and sandbox
    Mutation(
        "recorded commands are not run again", "harness/sandboxing.py",
        "for call_id, seq in since:",
        "for call_id, seq in ():",
    ),
    Mutation(
        "a command's id changes with the incarnation", "harness/toolcalls.py",
        "    exec_id = execution_id(call.call_id, call.tries, rig.state.sandbox.restores)",
        "    exec_id = execution_id(call.call_id, f\"{call.tries}{rig.recorder.incarnation}\", rig.state.sandbox.restores)",
    ),
    Mutation(
        "a result is acknowledged before it is on record", "harness/toolcalls.py",
        "    rig.unacknowledged.append(exec_id)\n    outcome = result_of(completed)",
        "    rig.sandbox.acknowledge([exec_id])\n    outcome = result_of(completed)",
    ),
    Mutation(
        "the sandbox is never given back", "harness/ending.py",
        "        rig.sandbox.destroy()",
        "        pass",
    ),
    Mutation(
        "a lost sandbox ends the harness", "harness/rig.py",
        "            except SandboxGone:\n                pass ",
        "            except KeyError:\n                pass ",
    ),
    # checkpoints and replay
    Mutation(
        "a checkpoint without the side effects", "harness/checkpointing.py",
        "    data = canonical(to_json(state)).encode()",
        "    data = canonical({**to_json(state), \"effects\": to_json(type(state.effects)())}).encode()",
        task="agentlab.examples.sound_delivery:AGAIN",
    ),
    Mutation(
        "a wake reads the log one event late", "harness/wake.py",
        "    for event in log.replay(state.seq + 1):\n        head = _chained",
        "    for event in log.replay(state.seq + (2 if state.seq else 1)):\n        head = _chained",
    ),
    Mutation(
        "a wake forgets where the plan was", "session/fold.py",
        "        \"incarnation\": event.incarnation,\n",
        "        \"incarnation\": event.incarnation,\n        \"plan\": evolve(state.plan, current=0, started=False, completed=0),\n",
    ),
    # services that misbehave
    Mutation(
        "an effect that was not heard of is sent again", "harness/effects.py",
        "    return [Draft(\"retry_scheduled\", reason, **place)]",
        "    return not_done(rig, call, tool, message, outcome)",
        task="agentlab.examples.sound_delivery:DOUBT", faults=True,
    ),
    Mutation(
        "a failed model call is no error but an answer", "harness/asking.py",
        "        return [_error_draft(rig, failed, request_id, command.purpose, _ms(rig, started))]",
        "        return []",
        faults=True,
    ),
    Mutation(
        "an append that the disk refused counts as done", "harness/recorder.py",
        "        except OutcomeUnknown:",
        "        except Exception as error:\n            if type(error).__name__ == 'StorageFailed':\n                return",
        faults=True,
    ),
    Mutation(
        "a command that failed in the sandbox counts as done", "harness/toolcalls.py",
        "    if outcome.ok:\n        extra =",
        "    if True:\n        extra =",
        faults=True,
    ),
    # what the facts about crash safety plant: protocols B to E of the log
    Mutation("B: no fsync of the file", "log/files.py", FILE_SYNC, FILE_SYNC.split("\n", 1)[1], DURABILITY),
    Mutation("C: no fsync of the folder", "log/files.py", FOLDER_SYNC, "        pass\n    return tmp", DURABILITY),
    Mutation("D: no fsync at all", "log/files.py", "    if durable:\n", "    if not path:\n", DURABILITY),
    Mutation(
        "E: the final name is written in place", "log/files.py",
        "        disk.link(tmp, path)\n",
        "        fd = disk.create(path)\n        disk.write(fd, data)\n        disk.fsync(fd)\n        disk.close(fd)\n",
        DURABILITY,
    ),
)  # fmt: skip


def plant(mutation: Mutation, folder: Path) -> Path:
    """A copy of the package with one bug in it; the folder to import it from."""
    home = folder / "planted"
    shutil.copytree(ROOT / "agentlab", home / "agentlab", ignore=shutil.ignore_patterns("__pycache__"))
    path = home / "agentlab" / mutation.file
    text = path.read_text()
    assert mutation.old in text, f"{mutation.name}: {mutation.file} does not hold the words to change any more"
    path.write_text(text.replace(mutation.old, mutation.new))
    return home


def noticed(mutation: Mutation, folder: Path) -> str:
    """What noticed the bug (invariants, or the test that failed); empty when nothing did."""
    home = plant(mutation, folder)
    env = {**os.environ, "PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    if mutation.judge != "explore":
        # The suite is that of the repository, the package is the copy.
        env = {**env, "PYTHONPATH": os.pathsep.join((str(home), str(ROOT)))}
        argv = [sys.executable, "-P", "-c", mutation.judge, str(folder / "states")]
        done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
        last = (done.stderr.strip().splitlines() or [""])[-1]
        assert done.returncode == 0 or last.startswith("AssertionError: "), done.stderr[-3000:]
        return "" if done.returncode == 0 else last.removeprefix("AssertionError: ")
    done = subprocess.run(
        [sys.executable, "-c", EXPLORE, mutation.task, *(["faults"] if mutation.faults else [])],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    violations, _, _ = json.loads(done.stdout)
    return ", ".join(sorted({violation["invariant"] for violation in violations}))


if __name__ == "__main__":
    import tempfile

    for one in MUTATIONS:
        if sys.argv[1:] and not any(word in one.name for word in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as made:
            print(f"{one.name:<62}{noticed(one, Path(made)) or 'NOT NOTICED'}", flush=True)
