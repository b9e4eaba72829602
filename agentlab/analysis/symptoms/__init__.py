"""The checks behind :func:`agentlab.analysis.diagnose`: one function for each known symptom.

Each takes :class:`agentlab.analysis.sources.Analysed` and gives a :class:`agentlab.analysis.diagnose.Symptom`; thresholds
are constants of its module. What the log does not record is said to be unknown, never taken for fine.
"""

from __future__ import annotations

from collections.abc import Callable

from agentlab.analysis.diagnose import Symptom
from agentlab.analysis.sources import Analysed
from agentlab.analysis.symptoms.behaviour import doubled_effects, drift, repetition
from agentlab.analysis.symptoms.checkpoints import frequent_checkpoints
from agentlab.analysis.symptoms.company import crowding
from agentlab.analysis.symptoms.recovering import amnesia, stuffed_history
from agentlab.analysis.symptoms.spending import budget_trips, estimates_off, unlimited_calls
from agentlab.analysis.symptoms.steps import failing_step, failing_tool, slowest_step

CHECKS: tuple[Callable[[Analysed], Symptom], ...] = (
    drift, doubled_effects, repetition, unlimited_calls, amnesia, stuffed_history, budget_trips, estimates_off, crowding,
    frequent_checkpoints, failing_tool, failing_step, slowest_step,
)  # fmt: skip
"""Every check, in the order of the table of symptoms."""
