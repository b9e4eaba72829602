"""Comparisons and sweeps: conditions and seeds over an executor, recorded as a session, summed up with intervals.

    frame, summary = al.compare("sales_report", policies=["every=1,5,20", "daly"], faults=al.Poisson(mtbf=60))
    al.sweep({"model": ["scripted:a:policy", "scripted:b:policy"]}, fn, seeds=range(5))
    al.fit(lab)

Names load when they are first used: the options of the command line stand here too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentlab.comparing.api import compare
    from agentlab.comparing.compared import Compared
    from agentlab.comparing.histories import Fit, fit
    from agentlab.comparing.latencies import Latencies
    from agentlab.comparing.progress import Progress
    from agentlab.comparing.summary import Summary, summarise
    from agentlab.comparing.sweeping import Swept, sweep

_HOMES = {
    "Compared": "compared",
    "Fit": "histories",
    "Latencies": "latencies",
    "Progress": "progress",
    "Summary": "summary",
    "Swept": "sweeping",
    "compare": "api",
    "fit": "histories",
    "summarise": "summary",
    "sweep": "sweeping",
}

__all__ = ["Compared", "Fit", "Latencies", "Progress", "Summary", "Swept", "compare", "fit", "summarise", "sweep"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'agentlab.comparing' has no attribute {name!r}")
    return getattr(import_module(f"agentlab.comparing.{home}"), name)
