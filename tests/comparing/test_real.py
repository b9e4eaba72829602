"""Real runs: child processes, SIGKILL at drawn times, marks in the log; and their agreement with the simulation."""

import concurrent.futures

import pytest

import agentlab as al
from agentlab.comparing.histories import measured_latencies
from agentlab.comparing.latencies import Latencies, gaps
from agentlab.comparing.real import drive, own_lab, strike
from agentlab.comparing.simulating import Crashes
from agentlab.experiments.columns import METRICS
from tests.comparing.chains import chain


@pytest.fixture(scope="module")
def threads():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield pool


def test_a_comparison_with_real_processes_and_real_kills(tmp_path, threads):
    lab = al.Lab(tmp_path / "lab")
    found = al.compare(
        chain(8, "slow_policy"), ["every=5", "never"], faults=al.Times((1.7,)), seeds=1, mode="real", lab=lab,
        executor=threads, progress=False,
    )  # fmt: skip
    frame = found.frame.set_index("policy")
    assert frame.completed.all() and (frame.faults == 1).all() and (frame["mode"] == "real").all()
    assert frame.checkpoints["every=5"] > frame.checkpoints["never"] == 0
    assert (frame.recovery_s > 0).all() and frame.overhead_s["every=5"] > frame.overhead_s["never"]
    assert lab.statuses()[0].status == "completed" and "SIGKILL" in found.text()
    # The runs' own labs stay with the lab that keeps the experiment, and their logs verify.
    folder, session_id = frame.session_id["every=5"].split("/")
    kept = al.Lab(lab.path / "runs" / folder).session(session_id)
    events = kept.events()
    (mark,) = [e for e in events if e.type == "fault_injected"]
    (death,) = [e for e in events if e.type == "harness_died"]
    assert death.payload["signal"] == 9 and abs((mark.payload["at_us"] - events[0].ts) / 1e6 - 1.7) < 0.5
    assert kept.verify().seq == len(events)


def test_a_crash_loop_of_real_harnesses_is_given_up_by_the_keeper(tmp_path):
    with own_lab(str(tmp_path)) as lab:
        session = lab.create("sea_table")
        assert drive(session, Crashes(al.CrashLoop(12)), 0, 60.0) is False
        assert session.status().reason == "crash_loop"


def test_a_real_run_that_is_over_its_limit_is_ended(tmp_path):
    with own_lab(str(tmp_path)) as lab:
        session = lab.create("sea_table", model=None)
        assert drive(session, Crashes(al.Times((0.05,))), 0, 0.06) is True
        assert not lab.supervisor.alive(session.id)
        strike(session, "both")  # nobody is left to be hit: nothing happens, and nothing is marked
        assert sum(e.type == "fault_injected" for e in session.events()) <= 1


def test_latencies_are_measured_in_a_labs_own_history(tmp_path):
    with own_lab(str(tmp_path)) as lab:
        session = lab.create("sea_table")
        assert drive(session, Crashes(al.Times((0.5,))), 0, 60.0) is False
        measured = measured_latencies(lab, "sea_table")
        assert "measured in 1 session" in measured.source
        found = dict(gaps(session.events()))
        assert found[("harness_woken", "start")] > 0.02
        assert measured.of(("harness_woken", "start")) == [found[("harness_woken", "start")]]
        fitted = al.fit(lab)
        assert fitted.sessions == 1 and fitted.mtbf.count in (0, 1) and fitted.mtbf.low < fitted.mtbf.value
        assert "mean time between failures" in str(fitted) and fitted.to_json()["sessions"] == 1
    assert measured_latencies(None, "sea_table") == Latencies()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_real_and_simulated_agree_on_the_demo_task(tmp_path):
    """20 seeds: the 95 % intervals of every metric's mean overlap, for each policy and scheme that is compared."""
    lab = al.Lab(tmp_path / "lab")
    asked = {"policies": ["every=5", "never"], "faults": al.Poisson(mtbf=4), "seeds": 20, "progress": False}
    with concurrent.futures.ThreadPoolExecutor(1) as one:
        real = al.compare("sales_report", mode="real", lab=lab, executor=one, **asked)
    histories = [events for path in sorted((lab.path / "runs").iterdir()) for events in _histories(path)]
    simulated = al.compare("sales_report", latencies=Latencies.of_history(histories), **asked)
    apart = []
    for condition in real.summary.conditions:
        for metric in METRICS:
            one, other = ([c.summary.value(condition, metric, k) for k in ("low", "high")] for c in (real, simulated))
            if one[1] < other[0] or other[1] < one[0]:
                apart.append((condition, metric, one, other))
    print(real, simulated, sep="\n")
    assert not apart


def _histories(path):
    return [session.events() for session in al.Lab(path).sessions()]
