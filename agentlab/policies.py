"""When to write a checkpoint: frozen specs and a pure test of whether one is due.

A trigger sees only :class:`Facts`. Times are seconds of the events' own clock, so the same log gives the same
checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentlab.definition import PolicySpec
from agentlab.errors import BadDefinition, UnknownName

DEFAULT_EVERY_EVENTS = 50


@dataclass(frozen=True, slots=True)
class Facts:
    """What a trigger may know.

    Counts are since the newest checkpoint (or the start); ``pausing`` and ``effect_next`` say what the harness is
    about to do; ``step_kind`` is the kind of the step in progress.
    """

    events: int
    steps: int
    seconds: float
    milestone: bool
    large_result: bool
    effect_next: bool
    pausing: bool
    step_kind: str
    budget_alert: bool = False
    unsnapshotted: int = 0
    checkpoint_cost_s: float = 0.0
    crashes: int = 0
    running_s: float = 0.0


Trigger = Callable[[Facts, Mapping[str, Any]], str | None]


def _every_events(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return f"every {args['n']} events" if facts.events >= args["n"] else None


def _every_steps(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return f"every {args['n']} steps" if facts.steps >= args["n"] else None


def _seconds(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return f"every {args['t']} s" if facts.seconds >= args["t"] and facts.events > 0 else None


def _milestones(facts: Facts, args: Mapping[str, Any]) -> str | None:
    if facts.milestone:
        return "milestone"
    return "large result" if facts.large_result else None


def _before_effect(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return "before effect" if facts.effect_next and facts.events > 0 else None


def _on_pause(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return "pause" if facts.pausing and facts.events > 0 else None


def _never(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return None


TRIGGERS: dict[str, Trigger] = {
    "never": _never,
    "every_events": _every_events,
    "every_steps": _every_steps,
    "seconds": _seconds,
    "milestones": _milestones,
    "before_effect": _before_effect,
    "on_pause": _on_pause,
}

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
    if spec.kind == "default":
        spec = DEFAULT
    if facts.step_kind == "confirm" and spec.kind != "never" and facts.steps > 0:
        return "confirm step"
    return _due(spec, facts)


def _due(spec: PolicySpec, facts: Facts) -> str | None:
    if spec.kind in ("any", "all"):
        reasons = [_due(part, facts) for part in spec.parts]
        if spec.kind == "any":
            return next((r for r in reasons if r), None)
        return " and ".join(r for r in reasons if r) if reasons and all(reasons) else None
    trigger = TRIGGERS.get(spec.kind)
    if trigger is None:
        raise UnknownName("checkpoint policy", spec.kind, [*TRIGGERS, "any", "all", "default"])
    return trigger(facts, spec.args)


def parse_policy(text: str) -> PolicySpec:
    """A policy from its short form: ``never``, ``default``, ``every=5`` (events), ``steps=1``, ``seconds=30``, ``milestones`` …

    Several joined with ``+`` mean any of them.

    Raises:
        UnknownName, BadDefinition: no such policy, or a number that is missing or not positive.
    """
    if "+" in text:
        return PolicySpec("any", parts=tuple(parse_policy(part) for part in text.split("+")))
    name, _, number = text.strip().partition("=")
    name = name.strip().replace("-", "_")
    counted = {"every": ("every_events", "n"), "every_events": ("every_events", "n"), "steps": ("every_steps", "n"),
               "every_steps": ("every_steps", "n"), "seconds": ("seconds", "t")}  # fmt: skip
    if name in counted:
        kind, argument = counted[name]
        try:
            value = float(number) if argument == "t" else int(number)
        except ValueError:
            raise BadDefinition(f"policy {text!r} needs a number, as in {name}=5") from None
        if not value > 0:
            raise BadDefinition(f"policy {text!r} needs a positive number")
        return PolicySpec(kind, {argument: value})
    if name in TRIGGERS or name == "default":
        return PolicySpec(name)
    raise UnknownName("checkpoint policy", name, [*TRIGGERS, "default", "every", "steps"])


def facts_at_start() -> Facts:
    """The facts of a session that has just begun, to try a spec on."""
    return Facts(0, 0, 0.0, False, False, False, False, "")
