"""Plots: one function, one matplotlib Axes.

Each takes ``x`` as the frames do, draws on ``ax`` (a new figure without one) and returns it. ``ax.data`` is
the frame that was drawn, ``ax.alt`` says in words what is to be seen. Colours are Okabe and Ito's, never
alone: a marker or a hatch says the same. Deaths are dashed lines with a triangle on top, recoveries green bands, in
all of them. No global style is set and pyplot is not touched.
"""

from agentlab.analysis.plots.burning import burn
from agentlab.analysis.plots.context import context
from agentlab.analysis.plots.crashes import recovery
from agentlab.analysis.plots.effects import effects
from agentlab.analysis.plots.latencies import latency
from agentlab.analysis.plots.looping import loops
from agentlab.analysis.plots.timelines import timeline

__all__ = ["burn", "context", "effects", "latency", "loops", "recovery", "timeline"]
