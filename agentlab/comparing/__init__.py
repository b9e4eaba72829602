"""Comparisons and sweeps: conditions and seeds over an executor, recorded as a session, summed up with intervals.

frame, summary = al.compare("sales_report", policies=["every=1,5,20", "daly"], faults=al.Poisson(mtbf=60))
al.sweep({"model": ["scripted:a:policy", "scripted:b:policy"]}, fn, seeds=range(5))
al.fit(lab)
"""

from agentlab.comparing.api import compare
from agentlab.comparing.compared import Compared
from agentlab.comparing.histories import Fit, fit
from agentlab.comparing.latencies import Latencies
from agentlab.comparing.progress import Progress
from agentlab.comparing.summary import Summary, summarise
from agentlab.comparing.sweeping import Swept, sweep

__all__ = ["Compared", "Fit", "Latencies", "Progress", "Summary", "Swept", "compare", "fit", "summarise", "sweep"]
