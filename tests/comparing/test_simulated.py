"""Simulated runs: the same harness, crashes wherever the clock stands, every second counted once, and the closed forms."""

import math
from dataclasses import replace
from statistics import fmean, stdev

import pytest

from agentlab import interval
from agentlab.authoring import task
from agentlab.comparing.latencies import Latencies
from agentlab.comparing.measuring import measure
from agentlab.comparing.simulating import Crashes, Simulation
from agentlab.errors import BadDefinition, UnknownName
from agentlab.events import GENESIS, chain_hash, column_values
from agentlab.failures import CrashLoop, Deadline, Exponential, Times
from agentlab.policies import parse_policy
from tests.comparing.chains import chain

PIECE, DELTA, RESTART, MTBF, RUNS = 1.0, 0.25, 0.5, 12.0, 70
EXACT = Latencies.given(
    model_s=0.0, tool_s=PIECE, checkpoint_s=DELTA, restart_s=RESTART, sandbox_s=0.0, other_s=0.0
)  # fmt: skip
EXACT = replace(EXACT, measured={**EXACT.measured, **{(k, ""): (0.0,) for k in ("sandbox_restored", "sandbox_attached")},
                                 ("execution_rerun", ""): (PIECE,), ("harness_woken", "start"): (0.0,)})  # fmt: skip

PARTS = ("work_s", "overhead_s", "lost_s", "redone_s", "recovery_s")


def demo(latencies=None, **overrides):
    return Simulation(task("sales_report"), latencies or Latencies.given(model_s=1.0, tool_s=0.1), **overrides)


def test_every_second_of_a_run_is_counted_once_and_the_log_is_intact():
    simulation = demo(policy=parse_policy("every=5"))
    for seed in range(12):
        events = simulation.run(Crashes(Exponential(3.0)), seed)
        found = measure(events)
        assert math.fsum(found[p] for p in PARTS) == pytest.approx(found["total_s"])
        assert found["total_s"] == pytest.approx((events[-1].ts - events[0].ts) / 1e6, abs=1e-5)
        before = GENESIS
        for event in events:
            assert chain_hash(before, column_values(event)) == event.hash
            before = event.hash


def test_without_a_crash_only_checkpoints_are_paid_for():
    never, each = (measure(demo(policy=parse_policy(p)).run(Crashes(), 0)) for p in ("never", "every=1"))
    assert each["work_s"] == pytest.approx(never["work_s"]) and never["checkpoints"] == 0 < each["checkpoints"]
    assert each["overhead_s"] > never["overhead_s"] and not each["lost_s"] + each["redone_s"] + each["recovery_s"]
    assert each["completed"] and each["model_calls_repeated"] == 0


def test_a_run_is_decided_by_its_seed():
    first, again, other = (demo().run(Crashes(Exponential(3.0)), seed) for seed in (5, 5, 6))
    assert [e.hash for e in first] == [e.hash for e in again] != [e.hash for e in other]


def test_crashes_strike_at_their_times_and_cost_what_was_in_progress():
    # The model's first answer takes from 0.4 s on for 1 s: the crash at 1 s cuts it, and it is asked again.
    found = measure(events := demo().run(Crashes(Times((1.0,)), target="harness"), 0))
    (mark,) = [e for e in events if e.type == "fault_injected"]
    assert (mark.payload["at_us"] - events[0].ts) / 1e6 == pytest.approx(1.0)
    assert found["faults"] == 1 and found["model_calls_repeated"] == 1 and 0.4 < found["lost_s"] < 1
    assert found["recovery_s"] > 0.3 and found["commands_repeated"] == 0
    # Crashes in the restart begin it again.
    once, again = (measure(demo().run(Crashes(Times(t), target="harness"), 0)) for t in ((3.0,), (3.0, 3.1, 3.2)))
    assert again["faults"] == 3 and again["recovery_s"] == pytest.approx(once["recovery_s"] + 0.2, abs=1e-3)


def test_a_machine_takes_the_sandbox_along_and_a_harness_alone_does_not():
    late = Times((3.0,))
    machine, harness, sandbox = (
        measure(demo(policy=parse_policy("never")).run(Crashes(late, target), 0))
        for target in ("both", "harness", "sandbox")
    )
    assert machine["commands_repeated"] > 0 == harness["commands_repeated"] and sandbox["commands_repeated"] > 0
    assert machine["redone_s"] > 0 == harness["redone_s"]
    assert sandbox["faults"] == 1 and sandbox["model_calls_repeated"] == 0 and sandbox["completed"]


def test_schemes_lose_do_again_and_write_what_their_ideas_say():
    """Pieces of 1 s, a checkpoint after every three, a crash of the machine in the sixth: two whole pieces came after it."""
    hybrid, events, snapshot = (
        measure(
            Simulation(chain(8), EXACT, policy=parse_policy("steps=3"), scheme=scheme).run(Crashes(Times((5.7,))), 0)
        )
        for scheme in ("hybrid", "events", "snapshot")
    )
    # Hybrid: answers are in the log, the workspace in the snapshot; the two commands since then run again.
    assert hybrid["lost_s"] == pytest.approx(5.7 - 5 - DELTA) and hybrid["redone_s"] == pytest.approx(2 * PIECE)
    assert (hybrid["commands_repeated"], hybrid["model_calls_repeated"], hybrid["lost_steps"]) == (2, 0, 0)
    # Events alone: nothing is written on the way, every command of the session runs again.
    assert events["lost_s"] == pytest.approx(5.7 - 5) and events["redone_s"] == pytest.approx(5 * PIECE)
    assert (events["commands_repeated"], events["model_calls_repeated"], events["checkpoints"]) == (5, 0, 0)
    # Snapshot alone: back to the checkpoint; answers and commands since then are lost, and asked and paid for again.
    assert snapshot["lost_s"] == pytest.approx(5.7 - 3 - DELTA) and snapshot["redone_s"] == 0
    assert (snapshot["commands_repeated"], snapshot["lost_steps"]) == (0, 2) and snapshot["model_calls_repeated"] >= 2
    assert (
        hybrid["checkpoints"] == snapshot["checkpoints"] == 2 and hybrid["bytes_written"] > 4 * events["bytes_written"]
    )
    assert hybrid["overhead_s"] == snapshot["overhead_s"] == pytest.approx(2 * DELTA) and events["overhead_s"] == 0
    assert hybrid["total_s"] == pytest.approx(snapshot["total_s"])  # answers take no time here
    assert events["total_s"] > hybrid["total_s"] + 2


def test_a_command_goes_on_while_no_harness_looks():
    slow = Latencies.given(tools_s={"export_month": 5.0}, model_s=0.1, restart_s=1.0)
    calm = measure(demo(slow).run(Crashes(), 0))
    struck = measure(demo(slow).run(Crashes(Times((3.0,)), target="harness"), 0))
    assert struck["total_s"] - calm["total_s"] < 1.0  # it ran on; only the recovery's own steps came on top


def test_a_poison_event_ends_in_a_crash_loop_unless_it_stops():
    endless = measure(demo().run(Crashes(CrashLoop(20)), 0))
    assert (
        endless["outcome"] == "crash_loop" and not endless["completed"] and endless["faults"] == 4
    )  # the first had done some work
    assert measure(demo().run(Crashes(CrashLoop(20, kills=2)), 0))["completed"]


def test_a_limit_ends_a_run_that_never_would():
    found = measure(demo().run(Crashes(Deadline(0.35)), 0, limit_s=30.0))
    assert not found["completed"] and found["outcome"] in ("crash_loop", "gave_up")


def test_what_can_not_be_simulated_is_refused():
    with pytest.raises(UnknownName):
        Crashes(None, "planet")
    with pytest.raises(BadDefinition):
        Crashes(CrashLoop(3), "sandbox")
    with pytest.raises(BadDefinition):
        Latencies.given(model_s=-1.0)
    with pytest.raises(BadDefinition):
        Latencies.of_history([])


# --- the closed forms, from the harness itself --------------------------------------------------------------------


def completions(policy: str, pieces: int) -> list[float]:
    simulation = Simulation(chain(pieces), EXACT, policy=parse_policy(policy))
    found = [measure(simulation.run(Crashes(Exponential(MTBF)), seed, no_progress=100)) for seed in range(RUNS)]
    assert all(f["completed"] for f in found)
    return [f["total_s"] for f in found]


@pytest.mark.parametrize("every", [2, 4])
def test_completion_times_of_the_harness_agree_with_dalys_closed_form(every):
    pieces = 8
    times = completions(f"steps={every}", pieces)
    expected = interval.completion_time(pieces * PIECE, every * PIECE, DELTA, MTBF, RESTART)
    z = (fmean(times) - expected) / (stdev(times) / math.sqrt(len(times)))
    assert abs(z) < 3, (fmean(times), expected)


def test_without_a_checkpoint_the_harness_agrees_with_the_closed_form_too():
    pieces = 6
    times = completions("never", pieces)
    expected = interval.completion_time_without(pieces * PIECE, MTBF, RESTART)
    z = (fmean(times) - expected) / (stdev(times) / math.sqrt(len(times)))
    assert abs(z) < 3, (fmean(times), expected)
