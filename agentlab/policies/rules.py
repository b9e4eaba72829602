"""Whether a checkpoint is due: the step's kind first, then the policy with its any-of and all-of."""

from __future__ import annotations

from agentlab.definition import PolicySpec
from agentlab.errors import UnknownName
from agentlab.policies.facts import Facts
from agentlab.policies.triggers import TRIGGERS

DEFAULT_EVERY_EVENTS = 50

DEFAULT = PolicySpec(
    "any",
    parts=(
        PolicySpec("every_events", {"n": DEFAULT_EVERY_EVENTS}),
        PolicySpec("milestones"),
        PolicySpec("before_effect"),
        PolicySpec("on_pause"),
    ),
)


def due(spec: PolicySpec, facts: Facts) -> str | None:
    """The reason why a checkpoint is due now, or None.

    Raises:
        UnknownName: a policy of that kind does not exist.
    """
    if facts.step_kind == "move" and not (facts.pausing or facts.effect_next):
        return None  # data moving rests on the log
    if facts.step_kind == "confirm" and spec.kind != "never" and facts.steps > 0:
        return "confirm step"
    return _due(spec, facts)


def _due(spec: PolicySpec, facts: Facts) -> str | None:
    if spec.kind == "default":
        spec = DEFAULT
    if spec.kind == "any":
        for part in spec.parts:
            reason = _due(part, facts)
            if reason:
                return reason
        return None
    if spec.kind == "all":
        reasons = [_due(part, facts) for part in spec.parts]
        return " and ".join(r for r in reasons if r) if reasons and all(reasons) else None
    trigger = TRIGGERS.get(spec.kind)
    if trigger is None:
        raise UnknownName("checkpoint policy", spec.kind, [*TRIGGERS, "any", "all", "default"])
    return trigger(facts, spec.args)
