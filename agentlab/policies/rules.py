"""Whether a checkpoint is due: the step's kind first, then the policy with its any-of and all-of."""

from __future__ import annotations

from agentlab.definition import PolicySpec
from agentlab.errors import UnknownName
from agentlab.policies.facts import Facts
from agentlab.policies.triggers import TRIGGERS

DEFAULT_EVERY_EVENTS = 50
"""N of the default policy. Measured on files of two durabilities, one busy machine, a small task: a checkpoint costs
as much as reading 80 to 250 events back (30 ms against 0.14 to 0.37 ms each), and a turn gives six to eight events. So
a recovery reads at most 50 events, some 15 ms, less than the start of the process; and with a model that takes a second
for a turn, the checkpoints take less than one part in two hundred of the time. A smaller N buys nothing that anybody
would notice, a larger one makes a crash dearer in commands that run again after a sandbox loss (about seven at most)."""

DEFAULT = PolicySpec(
    "any",
    parts=(
        PolicySpec("every_events", {"n": DEFAULT_EVERY_EVENTS}),
        PolicySpec("milestones"),
        PolicySpec("before_effect"),
        PolicySpec("on_pause"),
    ),
)


def asks_for_bytes(spec: PolicySpec) -> bool:
    """Whether any part of a policy wants to know how many bytes no snapshot holds."""
    return (spec.kind == "unsnapshotted" and "bytes" in spec.args) or any(map(asks_for_bytes, spec.parts))


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
