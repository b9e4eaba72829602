"""Real processes that draw on one pool at the same moment, one of them killed in the middle: never overdrawn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentlab.clock import SystemClock
from agentlab.events import Draft
from agentlab.ids import RandomIds
from agentlab.pool.folder import PoolFolder

DRAWER = """
import sys
from agentlab.clock import SystemClock
from agentlab.ids import RandomIds
from agentlab.pool.budget import PoolBudget
from agentlab.pool.folder import PoolFolder
lab, name, need = sys.argv[1], sys.argv[2], int(sys.argv[3])
pool = PoolBudget(PoolFolder(lab, SystemClock(), RandomIds()).journal, name, RandomIds(), lambda other: None)
have = pool.join(1, lambda dimension: 0)["tokens"]
print("ready", flush=True)
sys.stdin.readline()
number = 0
while True:
    drawn = pool.draw(f"{name}#{number}", 1, {"tokens": have + need}, {"tokens": have + 3 * need})
    if drawn.refused:
        break
    have, number = drawn.allotted["tokens"], number + 1
    print(have, flush=True)
print("refused", flush=True)
sys.stdin.readline()
"""
LIMIT = 500


@pytest.mark.parametrize("kill_after", [1, 3])
def test_processes_that_draw_at_the_same_moment_never_overdraw(tmp_path, kill_after):
    folder = PoolFolder(tmp_path, SystemClock(), RandomIds())
    payload = {"id": "l", "dimension": "tokens", "limit": LIMIT, "expected_version": 0}
    folder.made().change(lambda state: (Draft("pool_extended", payload),))
    drawers = {
        name: subprocess.Popen(
            [sys.executable, "-c", DRAWER, str(tmp_path), name, str(need)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )
        for name, need in (("a", 7), ("b", 11), ("victim", 5))
    }  # fmt: skip
    try:
        assert all(d.stdout.readline() == "ready\n" for d in drawers.values())
        for drawer in drawers.values():
            drawer.stdin.write("go\n")
            drawer.stdin.flush()
        victim, told = drawers.pop("victim"), {}
        for _ in range(kill_after):
            line = victim.stdout.readline().strip()
            if line == "refused":
                break
            told["victim"] = int(line)
        victim.kill()
        victim.communicate()
        for name, drawer in drawers.items():
            while (line := drawer.stdout.readline().strip()) != "refused":
                told[name] = int(line)
        state = folder.journal().look()
        assert state.taken("tokens") <= LIMIT - 1 and state.left("tokens") <= 7, "used up, and not overdrawn"
        for name, total in told.items():
            recorded = state.accounts[name].allotted["tokens"]
            assert recorded >= total if name == "victim" else recorded == total
        ids = [e.payload["id"] for e in folder.journal()._log.replay() if e.type == "pool_drawn"]
        assert len(ids) == len(set(ids))
    finally:
        for drawer in drawers.values():
            drawer.kill()
            drawer.communicate()
