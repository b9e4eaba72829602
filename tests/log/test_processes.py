"""Several processes on one log: of two appends at one seq exactly one wins, and sealing disturbs nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agentlab.events import GENESIS, Head, verify_chain
from agentlab.log import ParquetStore

from .test_sigkill import environment

WINS = 30


def test_racing_processes(tmp_path: Path) -> None:
    ParquetStore(tmp_path).create("race", "process")
    tests = Path(__file__).parent.parent
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "log.racer", str(tmp_path), name, str(WINS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tests, env=environment(tests),
        )
        for name in ("a", "b", "c")
    ]  # fmt: skip
    try:
        for racer in racers:
            assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        told = [commit for racer in racers for commit in racer.communicate(timeout=240)[0].split()]
        assert [racer.returncode for racer in racers] == [0, 0, 0]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    events = list(ParquetStore(tmp_path).open("race").replay())
    assert verify_chain(events, Head(0, GENESIS)).seq == len(events)
    written = list(dict.fromkeys(event.commit_id for event in events))
    assert sorted(written) == sorted(told) and len(told) == 3 * WINS
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
