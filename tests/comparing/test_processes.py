"""Every failure process through the simulation, and the fit of histories against what made them."""

import math

import pytest

import agentlab as al
from agentlab.authoring import task
from agentlab.comparing.latencies import ASSUMED, Latencies, gaps
from agentlab.comparing.measuring import measure
from agentlab.comparing.simulating import Crashes, Simulation
from agentlab.errors import BadDefinition
from agentlab.failures import from_json
from agentlab.policies import parse_policy


@pytest.fixture(scope="module")
def simulation():
    return Simulation(task("sales_report"), Latencies.given(model_s=1.0, tool_s=0.1), policy=parse_policy("every=5"))


class Session:
    """What :func:`agentlab.fit` needs of a session."""

    def __init__(self, events):
        self._events = events

    def events(self):
        return self._events


@pytest.mark.parametrize(
    "process",
    [
        al.Poisson(mtbf=4), al.Weibull(mtbf=4, shape=0.7), al.Weibull(mtbf=4, shape=2.0),
        al.Bursty(mtbf=6, burst_fraction=0.5, burst_mean_s=1.0), al.Deadline(period_s=2.5), al.CrashLoop(at_event=20, kills=1),
        al.Times((1.0, 4.0)),
    ],
    ids=lambda process: process.kind,
)  # fmt: skip
def test_each_process_strikes_when_it_says(simulation, process):
    assert from_json(process.to_json()) == process
    for seed in range(3):
        events = simulation.run(Crashes(process), seed)
        struck = [e.payload["at_us"] - events[0].ts for e in events if e.type == "fault_injected"]
        expected = [round(t * 1e6) for t in process.sample(seed, 3600.0)][: len(struck)]
        if process.kind == "crash_loop":
            assert len(struck) == 1
        else:
            assert struck == expected and (struck or process.sample(seed, 5.0) == [])
        assert measure(events)["faults"] == len(struck)


def test_a_fit_finds_what_made_the_history():
    latencies = Latencies.given(model_s=0.5, tool_s=0.2, checkpoint_s=0.04, restart_s=0.3, sandbox_s=0.1)
    simulation = Simulation(task("sales_report"), latencies, policy=parse_policy("every=5"))
    sessions = [
        Session(simulation.run(Crashes(al.Poisson(mtbf=3), "harness"), seed, no_progress=50)) for seed in range(30)
    ]
    found = al.fit(sessions)
    assert found.sessions == 30 and found.mtbf.count > 30
    # Time counts while a harness runs, and crashes strike then alone; some fall into restarts, which are no exposure.
    assert found.mtbf.low < 3 < found.mtbf.high
    assert found.checkpoint is not None and found.checkpoint.value == pytest.approx(0.04, rel=0.05)
    assert found.checkpoint.low == pytest.approx(0.04, rel=0.1) and found.checkpoint.high == pytest.approx(
        0.04, rel=0.1
    )
    assert found.restart is not None and found.restart.value > 0.3
    assert 0.4 < found.dispersion < 2.5
    assert found.to_json()["checkpoint"]["count"] == found.checkpoint.count


def test_a_history_without_a_crash_bounds_the_mean_time_from_below(simulation):
    found = al.fit([Session(simulation.run(Crashes(), 0))])
    assert found.mtbf.value == math.inf and found.mtbf.low > 1 and found.restart is None
    assert found.to_json()["mtbf"]["value"] is None and "no recovery was seen" in str(found)
    with pytest.raises(BadDefinition):
        al.fit([])


def test_latencies_that_were_measured_make_runs_like_those_that_were_measured(simulation):
    histories = [simulation.run(Crashes(al.Poisson(mtbf=5)), seed) for seed in range(10)]
    measured = Latencies.of_history(histories)
    again = Simulation(task("sales_report"), measured, policy=parse_policy("every=5"))
    for seed in range(5):
        first, second = (measure(s.run(Crashes(al.Poisson(mtbf=5)), seed)) for s in (simulation, again))
        assert second["total_s"] == pytest.approx(first["total_s"], rel=0.2) and second["faults"] == first["faults"]
    keys = {key for events in histories for key, _ in gaps(events)}
    assert ("harness_woken", "crash") in keys and ("model_response", "act") in keys
    assert measured.of(("harness_woken", "crash"))[0] == pytest.approx(ASSUMED["harness_woken"], abs=0.01)


def test_given_latencies_may_be_several_to_draw_from():
    latencies = Latencies.given(model_s=[1.0, 3.0], other_s=0.0)
    assert latencies.of(("model_response", "act")) == (1.0, 3.0) and latencies.of(("step_started", "")) == (0.0,)
    totals = {
        round(measure(Simulation(task("sales_report"), latencies).run(Crashes(), seed))["work_s"]) for seed in range(6)
    }
    assert len(totals) > 1
