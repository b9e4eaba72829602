"""``agentlab bench``: figures about this machine and this code, each a ratio or a rate measured in one run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from agentlab.bench.append import append_ratio
from agentlab.bench.comparing import experiment_figures
from agentlab.bench.overhead import step_overhead
from agentlab.bench.restart import restart_seconds
from agentlab.bench.simulated import simulated_events_per_second
from agentlab.bench.turns import step_growth


def run_bench(quick: bool = False, folder: Path | None = None) -> dict[str, Any]:
    """Measure everything in a temporary folder (below ``folder`` if given).

    Returns ``append_ratio`` (durable one-event commit over the bare write + fsync + link + folder fsync; with
    ``append_ms`` and ``bare_ms`` beside it), ``step_growth`` (commits of a turn at turn 10,000 over turn 10; the
    median of five runs, with ``turn_10_ms`` and ``turn_10000_ms``), ``restart_seconds`` (SIGKILL to the next
    harness's first event, median), ``simulated_events_per_second`` (one core), ``step_overhead_ms`` (what guard, budget and context
    add to a turn at turn 10,000; with ``step_ms_with_all`` and ``step_ms_without``), and what
    :func:`agentlab.bench.comparing.experiment_figures` says of experiments.
    """
    with tempfile.TemporaryDirectory(prefix="agentlab-bench-", dir=folder) as home:
        figures = append_ratio(home, rounds=60 if quick else 300)
        appended = {
            "append_ratio": round(figures["ratio"], 3),
            "append_ms": round(figures["append_us"] / 1000, 3),
            "bare_ms": round(figures["bare_us"] / 1000, 3),
        }
        grown = step_growth(Path(home, "turns"), turns=500 if quick else 10_000, runs=1 if quick else 5)
        restarted = restart_seconds(Path(home, "restart"), runs=5 if quick else 9)
        simulated = simulated_events_per_second(seconds=1.0 if quick else 5.0)
        added = step_overhead(turns=1_000 if quick else 10_000, runs=1 if quick else 3)
    return {**appended, **grown, **restarted, **simulated, **added, **experiment_figures(quick)}
