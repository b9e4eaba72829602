"""Conditions: what differs between the runs of an experiment, as frozen named data."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any

from agentlab.definition import PolicySpec, policy_from_json
from agentlab.errors import BadDefinition, UnknownName
from agentlab.events import canonical, digest
from agentlab.policies import parse_policy
from agentlab.policies.grammar import policy_text

SCHEMES = ("hybrid", "events", "snapshot")
_NUMBERS = re.compile(r"([a-z_-]+)=(\d+(?:\.\d+)?(?:,\d+(?:\.\d+)?)+)")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: its name, and the values that make it. Values are plain JSON, compared and stored as such."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The condition as plain data."""
        return {"name": self.name, "values": dict(self.values)}


@dataclass(frozen=True, slots=True)
class Plan:
    """What an experiment runs: every condition with every seed. ``about`` is what else was asked for and its results depend on.

    ``measured`` is what was found in the lab when the experiment began (latencies, the session to replay). It is kept with
    the plan and is no part of its identity: an experiment that was killed goes on with what it began with, whatever the
    lab has gained since.
    """

    kind: str
    subject: str
    conditions: tuple[Condition, ...]
    seeds: tuple[int | None, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [condition.name for condition in self.conditions]
        twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if twice:
            raise BadDefinition(
                f"{self.kind}: {', '.join(twice[:5])} is there twice: each condition needs its own name"
            )
        if not names or not self.seeds:
            raise BadDefinition(f"{self.kind}: there is nothing to run: give at least one condition and one seed")
        if len(set(self.seeds)) < len(self.seeds):
            raise BadDefinition(f"{self.kind}: a seed is there twice: equal seeds would be equal runs")

    def __len__(self) -> int:
        return len(self.conditions) * len(self.seeds)

    def jobs(self) -> Iterator[tuple[Condition, int | None]]:
        """Every run, seed by seed: whatever is cut off, the conditions have about as many runs each."""
        for seed in self.seeds:
            for condition in self.conditions:
                yield condition, seed

    def to_json(self) -> dict[str, Any]:
        """The plan as plain data, without what was measured."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "conditions": [condition.to_json() for condition in self.conditions],
            "seeds": list(self.seeds),
            "about": dict(self.about),
        }

    @property
    def digest(self) -> str:
        """Digest of the whole plan: an equal one is the same experiment."""
        return digest(canonical(self.to_json()))


def policies_of(given: Iterable[str | PolicySpec] | str | PolicySpec) -> dict[str, PolicySpec]:
    """Policies by their short form. ``every=1,5,20`` is three of them.

    Raises:
        UnknownName, BadDefinition: one that can not run, or none at all.
    """
    several: Iterable[str | PolicySpec] = (given,) if isinstance(given, (str, PolicySpec)) else given
    found: dict[str, PolicySpec] = {}
    for one in several:
        for spec in map(parse_policy, expanded(one)) if isinstance(one, str) else (one,):
            found[policy_text(spec)] = spec
    if not found:
        raise BadDefinition("which policies? as in policies=['every=5', 'seconds=30', 'daly']")
    return found


def expanded(text: str) -> list[str]:
    """``every=1,5,20`` as ``every=1``, ``every=5``, ``every=20``; thresholds of a budget belong together."""
    match = _NUMBERS.fullmatch(text.strip())
    if match is None or match[1] == "budget":
        return [text]
    return [f"{match[1]}={number}" for number in match[2].split(",")]


def policy_conditions(
    policies: Mapping[str, PolicySpec], schemes: Sequence[str], mtbf_s: float | None
) -> tuple[Condition, ...]:
    """Every policy under every scheme. Young's and Daly's take the known mean time between failures as their prior.

    Raises:
        UnknownName: no such scheme.
    """
    for scheme in schemes:
        if scheme not in SCHEMES:
            raise UnknownName("recovery scheme", str(scheme), SCHEMES)
    return tuple(
        Condition(
            name if len(schemes) == 1 else f"{name} ({scheme})",
            {"policy": name, "scheme": scheme, "spec": _json(_informed(spec, mtbf_s))},
        )
        for (name, spec), scheme in itertools.product(policies.items(), schemes)
    )


def spec_of(condition: Condition) -> PolicySpec:
    """The policy of a condition made by :func:`policy_conditions`."""
    return policy_from_json(condition.values["spec"])


def _informed(spec: PolicySpec, mtbf_s: float | None) -> PolicySpec:
    if spec.parts:
        return PolicySpec(spec.kind, spec.args, tuple(_informed(part, mtbf_s) for part in spec.parts))
    if mtbf_s and spec.kind in ("young", "daly") and not {"mtbf_s", "prior_mtbf_s"} & set(spec.args):
        return PolicySpec(spec.kind, {**spec.args, "prior_mtbf_s": mtbf_s})
    return spec


def _json(spec: PolicySpec) -> dict[str, Any]:
    return {"kind": spec.kind, "args": dict(spec.args), "parts": [_json(part) for part in spec.parts]}


def seeds_of(seeds: Iterable[int] | int) -> tuple[int, ...]:
    """Seeds as they may be given: some, or how many.

    Raises:
        BadDefinition: something else than integers.
    """
    try:
        if isinstance(seeds, str):
            raise TypeError
        return tuple(range(seeds)) if isinstance(seeds, int) else tuple(index(seed) for seed in seeds)
    except TypeError:
        raise BadDefinition(f"seeds are integers, or how many of them, not {seeds!r}") from None
