"""Inputs that land in the middle of a commit: facts move to the next number, and nothing that names a number goes stale."""

from __future__ import annotations

import pytest

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.events import GENESIS, Draft, Head, verify_chain
from agentlab.harness.wake import load
from agentlab.lab.inputs import append_input

from .test_simulated_crashes import judge, visits_of
from .worlds import Outside, task, world


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    crashpoints.arm(None)


def commits():
    made = world(Outside())
    made.accept(task(), "s")
    visits = visits_of(lambda: made.run("s"))
    return sum(1 for point, when, _ in visits if point is CrashPoint.COMMIT and when == "before")


@pytest.mark.parametrize(
    "die_after", [0, 1, 2, 3], ids=["goes on", "dies at once", "dies a commit later", "dies two later"]
)
def test_an_input_before_any_commit_leaves_a_log_that_wakes(die_after):
    for number in range(2, commits() + 1):
        outside = Outside()
        made = world(outside)
        made.accept(task(), "s")
        log, seen, landed = made.store.open("s"), 0, 0

        def strike(point, when, detail, made=made, log=log, number=number):
            nonlocal seen, landed
            if point is not CrashPoint.COMMIT:
                return
            if when == "before":
                seen += 1
                if seen == number:
                    landed = number
                    append_input(log, (Draft("note_added", {"id": "n", "text": "hello"}),), made.clock, made.ids)
            elif die_after and landed:
                landed += 1
                if landed > number + die_after - 1:
                    crashpoints.arm(None)
                    raise SimulatedDeath("after the race")

        crashpoints.arm(strike)
        try:
            made.run("s")
        except SimulatedDeath:
            pass
        finally:
            crashpoints.arm(None)
        verify_chain(log.replay(), Head(0, GENESIS))
        loaded = load(log, made.store.blobs)
        assert not loaded.skipped, f"commit {number}: {loaded.skipped}"
        assert made.run("s") == "ended"
        judge(made, outside, b"one line\n")
