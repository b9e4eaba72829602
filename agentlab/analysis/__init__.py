"""Frames, plots, diagnosis and reports over the logs of sessions.

    from agentlab import analysis

    analysis.calls(session)                          # a data frame
    analysis.plots.latency(session)                  # a matplotlib Axes
    analysis.diagnose(session)                       # symptoms with evidence
    analysis.report(lab, "report.html")              # one page that needs nothing else

All take a session, several, a lab, or (with ``lab=``) an SQL condition over its sessions. Nothing heavy is imported
until a function needs it.
"""

from agentlab.analysis import plots
from agentlab.analysis.diagnose import Diagnosis, Symptom, diagnose
from agentlab.analysis.frames import (
    budget,
    calls,
    checkpoints,
    decisions,
    effects,
    events,
    guard,
    recoveries,
    sessions,
    turns,
)
from agentlab.analysis.report import report
from agentlab.analysis.sources import Analysed, analysed

__all__ = [
    "Analysed",
    "Diagnosis",
    "Symptom",
    "analysed",
    "budget",
    "calls",
    "checkpoints",
    "decisions",
    "diagnose",
    "effects",
    "events",
    "guard",
    "plots",
    "recoveries",
    "report",
    "sessions",
    "turns",
]
