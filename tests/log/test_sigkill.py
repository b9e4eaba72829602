"""Real SIGKILLs at every crash point of the store, each at its first, second … hit until a run gets through.

They prove order, atomicity and that nothing sits in a buffer of the process. Power loss is another suite's
subject: what a process has written survives its death even without fsync.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentlab.crashpoints import CrashPoint
from agentlab.log import ParquetStore
from agentlab.ports import Pointer

from .victims import BLOB, TEXTS, work

POINTS = [p.value for p in CrashPoint if p.value.startswith(("log.", "segment.", "blob.", "checkpoint.pointer"))]
POINTS = [name for name in POINTS if name not in ("log.replay", "log.commit")]  # those two are the harness's


@pytest.mark.parametrize("group", [POINTS[0::2], POINTS[1::2]], ids=["even", "odd"])
def test_killed_at_every_point(group: list[str], tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "log.victims", str(tmp_path), *group]
    tests = Path(__file__).parent.parent
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280, cwd=tests, env=environment(tests))
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    hit = {(case["point"], case["when"]) for case in cases if case["killed"]}
    assert hit == {(name, when) for name in group for when in ("before", "after")}, "a point was never reached"
    for case in cases:
        survives(Path(case["lab"]), case["acked"])


def environment(tests: Path) -> dict[str, str]:
    paths = [str(tests.parent), str(tests), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def survives(lab: Path, acked: str) -> None:
    """What was acknowledged is there, what is there is whole, and the work can go on to its end."""
    store = ParquetStore(lab)
    log = store.open("s")
    found = [event.payload["text"] for event in log.replay()]
    assert found == TEXTS[: len(found)] and len(found) >= acked.count("e")
    assert len(log.pointers()) >= acked.count("p")
    assert "b" not in acked or any(store.blobs.has(p.name) for p in (lab / "blobs").glob("*/*"))
    with open(os.devnull, "wb") as nowhere:
        work(lab, nowhere.fileno())
    again = ParquetStore(lab)
    assert [event.payload["text"] for event in again.open("s").replay()] == TEXTS
    assert again.blobs.get(again.blobs.put(BLOB)) == BLOB
    assert all(isinstance(pointer, Pointer) for pointer in again.open("s").pointers())
    files = again.open("s").commit_files()
    assert len(files) == len({start for _, start in files})
