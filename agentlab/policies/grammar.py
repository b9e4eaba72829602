"""The short form of policies, as typed in a cell or on a command line, and its inverse.

::

    policy    = all-of { "+" all-of }              any of them is enough
    all-of    = part { "&" part }                  all of them at once; binds more tightly than "+"
    part      = "(" policy ")" | name [ "=" values ]
    values    = number | name ":" value { "," name ":" value }      (budget: number { "," number })

    never   default   every=5   steps=1   seconds=30   milestones   before-effect   after-effect   on-pause
    young=mtbf:60   daly=60   daly   deadline=3600   deadline=every:3600,margin:30   unsnapshotted=20
    unsnapshotted=bytes:1000000   budget=0.5,0.9   every=50+milestones   (seconds=60+steps=3)&unsnapshotted=1
"""

from __future__ import annotations

import re
from typing import Any

from agentlab.definition import PolicySpec
from agentlab.errors import BadDefinition, UnknownName
from agentlab.policies.arguments import ARGUMENTS, Arguments, validate
from agentlab.policies.triggers import TRIGGERS

SHORT_NAMES = {"every": "every_events", "steps": "every_steps"}
_LONG_NAMES = {kind: short for short, kind in SHORT_NAMES.items()}
_TOKEN = re.compile(r"[()+&]|(?:[^()+&]|(?<=\d[eE])\+(?=\d))+")
"""A plus sign between an exponent's ``e`` and its digits belongs to the number."""

MAX_DEPTH = 20


def parse_policy(text: str) -> PolicySpec:
    """A policy from its short form (see the module): ``every=5`` (events), ``steps=1``, ``a+b`` (any of), ``a&b`` (all of) …

    Raises:
        UnknownName, BadDefinition: no such policy or argument, or a number that is missing or not positive.
    """
    tokens = [token.strip() for token in _TOKEN.findall(text)]
    tokens = [token for token in tokens if token]
    spec, rest = _any_of(tokens, text, 0)
    if rest:
        raise BadDefinition(f"policy {text!r}: {rest[0]!r} was not expected")
    return validate(spec)


def _any_of(tokens: list[str], text: str, depth: int) -> tuple[PolicySpec, list[str]]:
    return _joined("+", "any", _all_of, tokens, text, depth)


def _all_of(tokens: list[str], text: str, depth: int) -> tuple[PolicySpec, list[str]]:
    return _joined("&", "all", _part, tokens, text, depth)


def _joined(sign: str, kind: str, inner: Any, tokens: list[str], text: str, depth: int) -> tuple[PolicySpec, list[str]]:
    part, tokens = inner(tokens, text, depth)
    parts = [part]
    while tokens and tokens[0] == sign:
        part, tokens = inner(tokens[1:], text, depth)
        parts.append(part)
    return (part if len(parts) == 1 else PolicySpec(kind, parts=tuple(parts))), tokens


def _part(tokens: list[str], text: str, depth: int) -> tuple[PolicySpec, list[str]]:
    if not tokens or tokens[0] in "+&)":
        raise BadDefinition(
            f"policy {text!r}: a name such as every=5 is missing" + (f" before {tokens[0]!r}" if tokens else "")
        )
    if tokens[0] != "(":
        return _leaf(tokens[0], text), tokens[1:]
    if depth >= MAX_DEPTH:
        raise BadDefinition(f"policy {text!r}: more than {MAX_DEPTH} brackets inside each other")
    spec, tokens = _any_of(tokens[1:], text, depth + 1)
    if not tokens or tokens[0] != ")":
        raise BadDefinition(f"policy {text!r}: a bracket is not closed")
    return spec, tokens[1:]


def _leaf(token: str, text: str) -> PolicySpec:
    name, equals, values = (part.strip() for part in token.partition("="))
    name = name.replace("-", "_")
    kind = SHORT_NAMES.get(name, name)
    if kind != "default" and kind not in TRIGGERS:
        raise UnknownName("checkpoint policy", name, [*TRIGGERS, "default", *SHORT_NAMES])
    if not equals:
        return PolicySpec(kind)
    takes = ARGUMENTS.get(kind)
    if takes is None:
        raise BadDefinition(f"policy {text!r}: {name} takes no number")
    if kind == "budget":
        return PolicySpec(kind, {"thresholds": [_number(v, False, text) for v in values.split(",")]})
    args: dict[str, Any] = {}
    for value in values.split(","):
        argument, given = _argument(value, takes, name, text)
        if argument in args:
            raise BadDefinition(f"policy {text!r} gives {argument} twice")
        args[argument] = given
    return PolicySpec(kind, args)


def _argument(value: str, takes: Arguments, name: str, text: str) -> tuple[str, Any]:
    first, colon, number = (part.strip() for part in value.partition(":"))
    argument = takes.short.get(first) if colon else next(iter(takes.short.values()))
    if argument is None:
        raise UnknownName(f"argument of policy {name}", first, takes.short)
    given = number if colon else first
    return argument, given if argument in takes.words else _number(given, argument in takes.counts, text)


def _number(given: str, whole: bool, text: str) -> float | int:
    try:
        return int(given) if whole else float(given)
    except ValueError:
        raise BadDefinition(f"policy {text!r} needs a number, as in every=5, not {given!r}") from None


def policy_text(spec: PolicySpec) -> str:
    """The short form of a spec: ``parse_policy(policy_text(spec)) == spec`` for every spec that parses.

    A group inside a group of the same sort keeps its brackets; a group of one part is written as that part.

    Raises:
        UnknownName, BadDefinition: the spec can not run.
    """
    return _text(validate(spec), outer="")


def _text(spec: PolicySpec, outer: str) -> str:
    if spec.kind in ("any", "all"):
        if len(spec.parts) == 1:
            return _text(spec.parts[0], outer)
        joined = ("+" if spec.kind == "any" else "&").join(_text(part, spec.kind) for part in spec.parts)
        bare = outer == "" or (outer == "any" and spec.kind == "all")
        return joined if bare else f"({joined})"
    name = _LONG_NAMES.get(spec.kind, spec.kind).replace("_", "-")
    takes = ARGUMENTS.get(spec.kind)
    if takes is None or not spec.args:
        return name
    if spec.kind == "budget":
        return f"{name}=" + ",".join(_written(v) for v in spec.args["thresholds"])
    plain, *_ = takes.short.values()
    if list(spec.args) == [plain]:
        return f"{name}={_written(spec.args[plain])}"
    shown = [f"{short}:{_written(spec.args[long])}" for short, long in takes.short.items() if long in spec.args]
    return f"{name}=" + ",".join(shown)


def _written(value: Any) -> str:
    """A number as short as it reads back exactly, a word as it is."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
