"""When to write a checkpoint: frozen specs and a pure test of whether one is due.

A trigger sees only :class:`Facts`. Times are seconds of the events' own clock, so the same log gives the same
checkpoints. A :class:`~agentlab.definition.PolicySpec` names a trigger and its numbers, or combines others with
*any* and *all*; :func:`parse_policy` and :func:`policy_text` are its short form. A step's kind overrides the policy:
*confirm* is checkpointed every time, *move* never.
"""

from agentlab.policies.arguments import ARGUMENTS, validate
from agentlab.policies.facts import Facts, facts_at_start
from agentlab.policies.grammar import parse_policy, policy_text
from agentlab.policies.rules import DEFAULT, DEFAULT_EVERY_EVENTS, asks_for_bytes, due
from agentlab.policies.triggers import TRIGGERS, Trigger, measured_cost, measured_mtbf

__all__ = [
    "ARGUMENTS",
    "DEFAULT",
    "DEFAULT_EVERY_EVENTS",
    "TRIGGERS",
    "Facts",
    "Trigger",
    "asks_for_bytes",
    "due",
    "facts_at_start",
    "measured_cost",
    "measured_mtbf",
    "parse_policy",
    "policy_text",
    "validate",
]
