"""The loop guard: tells a run that circles from one that waits, polls, repairs or works through a batch.

:func:`observe` is a fold over finished calls; :func:`findings` runs it over a whole session. Pure: no input or
output, and a state that does not grow.
"""

from agentlab.guard.action import Action, action_of, actions_from_events
from agentlab.guard.detect import findings, findings_in
from agentlab.guard.policy import GuardPolicy, Patience
from agentlab.guard.state import Finding, GuardState, new_step, observe, resumed, round_cap

__all__ = [
    "Action",
    "Finding",
    "GuardPolicy",
    "GuardState",
    "Patience",
    "action_of",
    "actions_from_events",
    "findings",
    "findings_in",
    "new_step",
    "observe",
    "resumed",
    "round_cap",
]
