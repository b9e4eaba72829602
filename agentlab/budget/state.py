"""The state of a budget, as the fold keeps it and a checkpoint stores it. It does not grow with history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentlab.budget.dimensions import TOKENS
from agentlab.definition import Limits

THRESHOLDS = (0.8, 0.95)
"""Shares of a limit at which an alert is raised, where the task names none."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Actual over estimate of a dimension: how many were seen, their moving mean and variance."""

    seen: int = 0
    mean: float = 0.0
    variance: float = 0.0


@dataclass(frozen=True, slots=True)
class BudgetState:
    """``used`` settled amounts, ``reserved`` open reservations by id, ``at_risk`` reservations cut by a crash.

    ``kept`` is the minimum reserve per dimension: only finishing may use it. ``thresholds`` are the shares at which
    alerts are raised, ``alerted`` the highest one raised per dimension, ``checkpoint_due`` the dimension whose alert
    still wants its checkpoint. ``quotas`` are sends per minute by key (``requests``, a tool, a service of ``services``),
    ``recent`` the sends of the newest minute as (second, count). ``estimate`` is what the open request was expected
    to need before the learned factor; ``learned`` is what came of such estimates. ``unpriced`` counts model calls
    whose cost nobody knows. ``allotted`` is what the lab's pool set aside for this session, in all and per dimension,
    ``refused`` the dimension in which the pool had no more.
    """

    used: Mapping[str, int] = field(default_factory=dict)
    reserved: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    at_risk: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    thresholds: tuple[float, ...] = THRESHOLDS
    alerted: Mapping[str, float] = field(default_factory=dict)
    checkpoint_due: str = ""
    quotas: Mapping[str, int] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)
    recent: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    estimate: Mapping[str, int] = field(default_factory=dict)
    learned: Mapping[str, Learned] = field(default_factory=dict)
    unpriced: int = 0
    allotted: Mapping[str, int] = field(default_factory=dict)
    refused: str = ""

    def committed(self, dimension: str) -> int:
        """Used plus reserved plus at risk."""
        return self.used_of(dimension) + self.reserved_of(dimension) + self.at_risk_of(dimension)

    def used_of(self, dimension: str) -> int:
        """What is settled."""
        return amount(self.used, dimension)

    def reserved_of(self, dimension: str) -> int:
        """What is set aside for what is under way."""
        return sum(amount(amounts, dimension) for amounts in self.reserved.values())

    def at_risk_of(self, dimension: str) -> int:
        """What a crash hid: it may have been spent."""
        return sum(amount(amounts, dimension) for amounts in self.at_risk.values())

    def left(self, dimension: str) -> int | None:
        """What may still be committed; None when the dimension has no limit."""
        limit = self.limits.get(dimension)
        return None if limit is None else limit - self.committed(dimension)


def amount(amounts: Mapping[str, int], dimension: str) -> int:
    """What ``amounts`` hold of a dimension; all tokens together for ``tokens``."""
    if dimension == "tokens":
        return sum(amounts.get(name, 0) for name in TOKENS)
    return amounts.get(dimension, 0)


def from_limits(limits: Limits, spec: Mapping[str, Any] | None = None) -> BudgetState:
    """A fresh budget under the limits of a definition and what its ``budget`` says.

    Of ``spec`` it reads ``reserve`` (the minimum reserve per dimension), ``alerts`` (thresholds between 0 and 1) and
    ``services`` (service to the tools that call it).
    """
    spec = spec or {}
    named = {
        "input_tokens": limits.input_tokens,
        "output_tokens": limits.output_tokens,
        "cache_tokens": limits.cache_tokens,
        "tokens": limits.tokens,
        "cost_microusd": limits.cost_microusd,
        "model_calls": limits.model_calls,
        "tool_calls": limits.tool_calls,
        "steps": limits.steps,
        "active_ms": None if limits.active_s is None else round(limits.active_s * 1000),
        "wall_ms": None if limits.wall_s is None else round(limits.wall_s * 1000),
    }
    named.update({f"tool:{name}": count for name, count in limits.tool_calls_by_tool.items()})
    quotas = dict(limits.per_minute_by_tool)
    if limits.requests_per_minute is not None:
        quotas["requests"] = limits.requests_per_minute
    return BudgetState(
        limits={k: v for k, v in named.items() if v is not None},
        kept={k: int(v) for k, v in (spec.get("reserve") or {}).items()},
        thresholds=tuple(sorted(float(t) for t in spec.get("alerts", THRESHOLDS))),
        quotas=quotas,
        services={tool: service for service, tools in (spec.get("services") or {}).items() for tool in tools},
    )
