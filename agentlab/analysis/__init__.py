"""Frames, plots, diagnosis and reports over the logs of sessions.

    import agentlab as al

    al.frames.calls(session)                         # a data frame
    al.plots.latency(session)                        # a matplotlib Axes
    session.diagnose()                               # symptoms with evidence
    al.report(lab, "report.html")                    # one page that needs nothing else

All take a session, several, a lab, or an SQL condition over the sessions of a lab (of ``lab=``, else of the one in
hand in the notebook, else of ``./lab``). Nothing heavy is imported until a function needs it.
"""

from agentlab.analysis import frames, plots
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
from agentlab.analysis.report import Report, page, report
from agentlab.analysis.sources import Analysed, analysed

__all__ = [
    "Analysed",
    "Diagnosis",
    "Report",
    "Symptom",
    "analysed",
    "budget",
    "calls",
    "checkpoints",
    "decisions",
    "diagnose",
    "effects",
    "events",
    "frames",
    "guard",
    "page",
    "plots",
    "recoveries",
    "report",
    "sessions",
    "turns",
]
