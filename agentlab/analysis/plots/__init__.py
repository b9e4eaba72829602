"""Plots: one function, one matplotlib Axes.

Each takes ``x`` as the frames do (``policies`` takes the frame of a comparison), draws on ``ax`` (a new figure without
one) and returns it. ``ax.data`` is the frame that was drawn, ``ax.alt`` says in words what is to be seen. Colours are
Okabe and Ito's, never alone: a marker or a hatch says the same. Deaths are dashed lines with a triangle (harness) or a
cross (sandbox) on top, other injected faults have a star, recoveries are green bands, wherever there is an axis for
it. No global style is set and pyplot is not touched.
"""

from agentlab.analysis.plots.burning import burn
from agentlab.analysis.plots.comparing import policies
from agentlab.analysis.plots.context import context
from agentlab.analysis.plots.crashes import recovery
from agentlab.analysis.plots.distributions import latency
from agentlab.analysis.plots.effects import effects
from agentlab.analysis.plots.latencies import latency_over_run
from agentlab.analysis.plots.looping import loops
from agentlab.analysis.plots.timelines import timeline

OF_SESSIONS = ("burn", "context", "effects", "latency", "latency_over_run", "loops", "recovery", "timeline")
"""Names of those that take sessions."""

__all__ = [
    "OF_SESSIONS",
    "burn",
    "context",
    "effects",
    "latency",
    "latency_over_run",
    "loops",
    "policies",
    "recovery",
    "timeline",
]
