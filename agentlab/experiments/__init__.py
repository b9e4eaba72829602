"""Experiments: failure processes, fits to histories, replays of recorded timings under other policies, statistics.

Everything is decided by seeds. Importing this package loads no optional package; numpy comes with the first bootstrap.
"""

from agentlab.experiments.costs import Costs
from agentlab.experiments.fit import Estimate, History, dispersion, fit_cost, fit_mtbf
from agentlab.experiments.recorded import costs_of, history_of, spans_of
from agentlab.experiments.stats import Comparison, Recommendation, compare, recommend, runs_needed
from agentlab.experiments.track import Span, Track
from agentlab.experiments.whatif import Outcome, Replay, WhatIf, sweep
from agentlab.failures import Bursty, CrashLoop, Deadline, Exponential, Poisson, Process, Times, Weibull

__all__ = [
    "Bursty",
    "Comparison",
    "Costs",
    "CrashLoop",
    "Deadline",
    "Estimate",
    "Exponential",
    "History",
    "Outcome",
    "Poisson",
    "Process",
    "Recommendation",
    "Replay",
    "Span",
    "Times",
    "Track",
    "Weibull",
    "WhatIf",
    "compare",
    "costs_of",
    "dispersion",
    "fit_cost",
    "fit_mtbf",
    "history_of",
    "recommend",
    "runs_needed",
    "spans_of",
    "sweep",
]
