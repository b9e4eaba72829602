"""What-if comparisons: a recorded session's timing under other policies, schemes and crashes, without a model."""

import math
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean, stdev

import pytest

import agentlab as al
from agentlab import interval
from agentlab.comparing.conditions import policies_of, policy_conditions
from agentlab.comparing.real import drive, own_lab
from agentlab.comparing.replaying import ReplayRunner
from agentlab.comparing.simulating import Crashes, Simulation
from agentlab.errors import UserError
from agentlab.failures import Exponential, Times
from tests.comparing.chains import chain
from tests.comparing.test_simulated import DELTA, EXACT, MTBF, PIECE, RESTART


def recorded(pieces=8):
    return Simulation(chain(pieces), EXACT, policy=next(iter(policies_of(["never"]).values()))).run(Crashes(), 0)


def rows(runner, policy, scheme, seeds=1):
    (condition,) = policy_conditions(policies_of([policy]), [scheme], None)
    return [runner.run(condition, seed) for seed in range(seeds)]


def test_replays_of_a_recorded_session_agree_with_the_closed_form():
    runner = ReplayRunner(recorded(), Crashes(Exponential(MTBF)), DELTA, RESTART)
    assert runner.track.work_s == pytest.approx(8 * PIECE) and runner.track.sandboxed_share == pytest.approx(1.0)
    for scheme in ("hybrid", "snapshot"):  # all of its work is commands: both do it again from the checkpoint on
        times = [row["total_s"] for row in rows(runner, "steps=2", scheme, 3000)]
        expected = interval.completion_time(8 * PIECE, 2 * PIECE, DELTA, MTBF, RESTART)
        assert abs(fmean(times) - expected) / (stdev(times) / math.sqrt(len(times))) < 3


@pytest.mark.parametrize("scheme", ["hybrid", "events", "snapshot"])
@pytest.mark.parametrize("policy", ["never", "steps=2", "every=3+deadline=every:5", "daly=prior:12"])
def test_every_second_of_a_replay_is_counted_once(policy, scheme):
    runner = ReplayRunner(recorded(), Crashes(Exponential(6.0)), DELTA, RESTART)
    for row in rows(runner, policy, scheme, 40):
        parts = [row[p] for p in ("work_s", "overhead_s", "lost_s", "redone_s", "recovery_s")]
        assert min(parts) > -1e-9 and math.fsum(parts) == pytest.approx(row["total_s"])
        assert row["completed"] and row["model_calls_repeated"] >= 0


def test_schemes_differ_in_what_a_crash_costs():
    runner = ReplayRunner(recorded(), Crashes(Times((6.7,))), DELTA, RESTART)
    hybrid, events, snapshot = (rows(runner, "steps=4", scheme)[0] for scheme in ("hybrid", "events", "snapshot"))
    # A checkpoint at 4.25 s, the crash at 6.7 s: two whole pieces since, and 0.45 s of the next.
    assert snapshot["lost_s"] == pytest.approx(2.45) and snapshot["redone_s"] == 0
    assert hybrid["lost_s"] == pytest.approx(0.45) and hybrid["redone_s"] == pytest.approx(2.0)
    assert events["lost_s"] == pytest.approx(0.45) and events["redone_s"] == pytest.approx(6.0)
    assert snapshot["model_calls_repeated"] > hybrid["model_calls_repeated"] == events["model_calls_repeated"] == 0
    alone = ReplayRunner(recorded(), Crashes(Times((6.7,)), "harness"), DELTA, RESTART)
    assert rows(alone, "steps=4", "hybrid")[0]["redone_s"] == 0  # the sandbox lives on


def test_a_session_of_a_lab_is_replayed_and_the_newest_of_a_task_is_found(tmp_path):
    with ThreadPoolExecutor(1) as threads, own_lab(str(tmp_path)) as lab:
        session = lab.create("sea_table", policy="steps=1")
        assert drive(session, Crashes(), 0, 240.0) is False
        asked = {"policies": ["every=5", "never"], "schemes": ["hybrid", "snapshot"], "faults": 2.0, "seeds": 50}
        asked |= {"executor": threads}
        found = al.compare(session, mode="what-if", lab=lab, progress=False, **asked)
        assert (
            len(found.frame) == 200
            and found.frame.condition[0] == "every=5 (hybrid)"
            and "Replayed from" in found.text()
        )
        assert (
            (found.frame["mode"] == "what-if").all() and found.frame.completed.all() and found.frame.faults.sum() > 10
        )
        named = al.compare("sea_table", mode="what-if", lab=lab, progress=False, **asked)
        assert named.frame.total_s.tolist() == found.frame.total_s.tolist()
        assert {s for s in lab.store.sessions() if s.startswith("compare-")} == {found.session_id, named.session_id}
        with pytest.raises(UserError, match="none of 'sales_report'"):
            al.compare("sales_report", mode="what-if", lab=lab, progress=False, **asked)
        with pytest.raises(UserError, match="what-if"):
            al.compare(session, mode="simulated", lab=lab, progress=False, **asked)
