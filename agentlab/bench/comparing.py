"""Experiments: simulated sessions with faults, what-if replays, the share of the layer around the runs, and memory."""

from __future__ import annotations

import gc
import resource
import tempfile
import time
import tracemalloc
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from agentlab import authoring
from agentlab.comparing.conditions import Plan, policies_of, policy_conditions
from agentlab.comparing.engine import conduct
from agentlab.comparing.frames import run_frame
from agentlab.comparing.latencies import Latencies
from agentlab.comparing.measuring import measure
from agentlab.comparing.runners import SimulatedRunner
from agentlab.comparing.simulating import Crashes, Simulation
from agentlab.experiments import Costs, Span, Track, WhatIf
from agentlab.failures import Exponential
from agentlab.lab import Lab

MTBF_S = 11.0
"""With the assumed latencies a session of the demo task takes about 17 s, so it sees about two crashes."""
CORES = 2
POLICIES = (
    "never", "every=1", "every=5", "milestones", "young", "daly", "daly=600", "deadline=every:3600", "seconds=30+deadline=every:3600",
    "every=1+deadline=every:3600", "every=1+daly", "steps=1+daly", "every=5&daly", "every=5+daly+deadline=every:3600",
)  # fmt: skip
"""Every way of finding the next checkpoint of a replay, alone and joined."""


class Here(Executor):
    """Runs jobs in this very thread, and counts the processor time that they take."""

    _max_workers = 4

    def __init__(self) -> None:
        self.spent_s = 0.0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run ``fn`` at once."""
        future: Future[Any] = Future()
        began = time.process_time()
        future.set_result(fn(*args, **kwargs))
        self.spent_s += time.process_time() - began
        return future


def experiment_figures(quick: bool = False) -> dict[str, Any]:
    """Figures of experiments, all in processor time so that other load does not count.

    ``simulated_fault_sessions_per_minute``: demo-task sessions with about two crashes each, measured, per minute on two
    cores. ``whatif_seconds_per_10000``: the slowest of several policies, 10,000 replays of a 2,000-step session on one core
    (``whatif_slowest`` names it). ``experiment_overhead``: time of the layer (recording, scheduling, frame) over that of
    the runs. ``experiment_bytes_per_run``: memory kept per run while a sweep goes on, peak of the second half.
    """
    return {
        **_sessions(15 if quick else 300), **_replays(2 if quick else 200), **_layer(15 if quick else 200),
        "experiment_bytes_per_run": _kept(1000 if quick else 2000),
        "experiment_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }  # fmt: skip


def _sessions(count: int) -> dict[str, Any]:
    simulation = Simulation(authoring.task("sales_report"), Latencies())
    crashes = Crashes(Exponential(MTBF_S))
    measure(simulation.run(crashes, count))
    began, faults = time.process_time(), 0
    for seed in range(count):
        faults += measure(simulation.run(crashes, seed))["faults"]
    each = (time.process_time() - began) / count
    return {
        "simulated_fault_sessions_per_minute": round(CORES * 60 / each),
        "simulated_faults_per_session": round(faults / count, 2),
    }


def _replays(count: int) -> dict[str, Any]:
    track = Track([Span(3.0, True, 1 + number // 20, "work") for number in range(2000)])
    slowest, name = 0.0, ""
    for policy in POLICIES:
        whatif, process = WhatIf(track, policy, Costs(0.05, 1.0)), Exponential(600.0)
        began = time.process_time()
        for seed in range(count):
            whatif.run(process, seed)
        taken = (time.process_time() - began) / count * 10_000
        slowest, name = max((slowest, name), (taken, policy))
    return {"whatif_seconds_per_10000": round(slowest, 1), "whatif_slowest": name}


def _layer(count: int) -> dict[str, Any]:
    import pandas  # noqa: F401 (loaded once, whatever the number of runs)

    conditions = policy_conditions(policies_of(["every=5"]), ["hybrid"], MTBF_S)
    plan = Plan("compare", "bench", conditions, tuple(range(count)))
    runner = SimulatedRunner(authoring.task("sales_report"), Crashes(Exponential(MTBF_S)), Latencies(), None, {}, 1e9)
    with tempfile.TemporaryDirectory(prefix="agentlab-bench-") as folder, Lab(Path(folder)) as lab:
        here = Here()
        began = time.process_time()
        recording = conduct(plan, runner, lab, executor=here, progress=False)
        run_frame(recording.results(), "simulated", MTBF_S)
        whole = time.process_time() - began
    return {"experiment_overhead": round((whole - here.spent_s) / here.spent_s, 4)}


class _Nothing:
    batch = 20

    def run(self, condition: Any, seed: int | None) -> dict[str, Any]:
        """A row of the usual size."""
        return {"completed": True, "total_s": 1.0, "work_s": 1.0, "session_id": "", "outcome": "completed", "n": seed}


def _kept(count: int) -> int:
    """Bytes that an experiment's layer keeps for each run while it goes on."""
    peaks = []
    for runs in (count, 2 * count):
        plan = Plan("sweep", "bench", policy_conditions(policies_of(["never"]), ["hybrid"], None), tuple(range(runs)))
        with tempfile.TemporaryDirectory(prefix="agentlab-bench-") as folder, Lab(Path(folder)) as lab:
            gc.collect()
            tracemalloc.start()
            conduct(plan, _Nothing(), lab, executor=Here(), progress=False)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    return round((peaks[1] - peaks[0]) / count)
