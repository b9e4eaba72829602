"""The arguments of each trigger, and ``validate``: a spec that can not run is refused before a session begins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentlab.definition import PolicySpec
from agentlab.errors import BadDefinition, UnknownName
from agentlab.policies.triggers import TRIGGERS


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a trigger takes. ``short`` maps names of the short form to arguments, the first being the plain number's.

    ``one_of`` lists arguments of which at least one must be given. Arguments in ``counts`` are whole numbers,
    those in ``words`` one of a few words, ``thresholds`` a list of fractions; all others are seconds.
    """

    short: Mapping[str, str] = field(default_factory=dict)
    one_of: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclusive: bool = False
    zero: tuple[str, ...] = ()


_RATE = Arguments({"mtbf": "mtbf_s", "cost": "cost_s", "prior": "prior_mtbf_s", "work": "work_s"})

ARGUMENTS: Mapping[str, Arguments] = {
    "every_events": Arguments({"n": "n"}, ("n",), ("n",)),
    "every_steps": Arguments({"n": "n"}, ("n",), ("n",)),
    "seconds": Arguments({"t": "t"}, ("t",)),
    "young": _RATE,
    "daly": _RATE,
    "deadline": Arguments(
        {"at": "at_s", "every": "period_s", "margin": "margin_s", "since": "since"},
        ("at_s", "period_s"), words={"since": ("start", "wake")}, exclusive=True, zero=("margin_s",),
    ),
    "unsnapshotted": Arguments({"n": "n", "bytes": "bytes"}, ("n", "bytes"), ("n", "bytes")),
    "budget": Arguments({"thresholds": "thresholds"}),
}  # fmt: skip
"""Triggers that are not named here take no arguments."""

COMPOSITES = ("any", "all")


def validate(spec: PolicySpec) -> PolicySpec:
    """The spec itself, if it can run.

    Raises:
        UnknownName: there is no such policy, or no such argument.
        BadDefinition: an argument is missing or not the number it should be, or a group has no parts.
    """
    if spec.kind in COMPOSITES:
        if not spec.parts:
            raise BadDefinition(f"policy {spec.kind!r} needs at least one part")
        if spec.args:
            raise BadDefinition(f"policy {spec.kind!r} takes parts, not arguments")
        for part in spec.parts:
            validate(part)
        return spec
    if spec.kind != "default" and spec.kind not in TRIGGERS:
        raise UnknownName("checkpoint policy", spec.kind, [*TRIGGERS, *COMPOSITES, "default"])
    if spec.parts:
        raise BadDefinition(f"policy {spec.kind!r} has no parts: use any or all to combine policies")
    takes = ARGUMENTS.get(spec.kind, Arguments())
    for name, value in spec.args.items():
        if name not in takes.short.values():
            raise UnknownName(f"argument of policy {spec.kind}", str(name), takes.short.values())
        _check(spec.kind, takes, name, value)
    _check_group(spec, takes)
    return spec


def _check_group(spec: PolicySpec, takes: Arguments) -> None:
    given = [name for name in takes.one_of if name in spec.args]
    if takes.one_of and not given:
        raise BadDefinition(f"policy {spec.kind!r} needs a number: {' or '.join(takes.one_of)}")
    if takes.exclusive and len(given) > 1:
        raise BadDefinition(f"policy {spec.kind!r} takes one of {' and '.join(given)}, not both")
    margin = spec.args.get("margin_s")
    if margin is not None and margin >= spec.args[given[0]]:
        raise BadDefinition(
            f"policy {spec.kind!r}: the margin ({margin} s) is not shorter than the time before the deadline"
        )


def _check(kind: str, takes: Arguments, name: str, value: Any) -> None:
    if name in takes.words:
        if value not in takes.words[name]:
            raise BadDefinition(f"policy {kind!r}: {name} is one of {', '.join(takes.words[name])}, not {value!r}")
    elif name == "thresholds":
        if not isinstance(value, (list, tuple)) or not value or not all(_number(v) and 0 < v <= 1 for v in value):
            raise BadDefinition(f"policy {kind!r}: thresholds are fractions over 0 and up to 1, not {value!r}")
    elif name in takes.counts:
        if not (isinstance(value, int) and not isinstance(value, bool) and value > 0):
            raise BadDefinition(f"policy {kind!r} needs a positive number without a fraction for {name}, not {value!r}")
    elif not (_number(value) and math.isfinite(value) and (value > 0 or (value == 0 and name in takes.zero))):
        raise BadDefinition(f"policy {kind!r} needs a positive number for {name}, not {value!r}")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
