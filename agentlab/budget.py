"""Budget: what a session used, has reserved and has at risk, per dimension, as a fold over its events.

Amounts are integers: tokens, calls, millionths of a dollar, milliseconds. A reservation is made before the
spending and settled after it; one that was cut off by a crash stays counted as *at risk* until it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentlab.definition import Limits
from agentlab.evolve import evolve
from agentlab.ports import Usage

Amounts = Mapping[str, int]

DIMENSIONS = (
    "input_tokens",
    "output_tokens",
    "cache_tokens",
    "cost_microusd",
    "model_calls",
    "tool_calls",
    "active_ms",
    "steps",
)
"""Dimensions counted for every session; ``tool:<name>`` counts one tool's calls."""

COUNTS = frozenset({"model_calls", "tool_calls", "steps"})
"""Dimensions where the last unit may be used up (>= 0); the others need something left (> 0)."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """``used`` settled amounts, ``reserved`` open reservations by id, ``at_risk`` reservations cut by a crash."""

    used: Mapping[str, int] = field(default_factory=dict)
    reserved: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    at_risk: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)

    def committed(self, dimension: str) -> int:
        """Used plus reserved plus at risk."""
        total = self.used.get(dimension, 0)
        for group in (self.reserved, self.at_risk):
            for amounts in group.values():
                total += amounts.get(dimension, 0)
        return total

    def left(self, dimension: str) -> int | None:
        """What may still be committed; None when the dimension has no limit."""
        limit = self.limits.get(dimension)
        return None if limit is None else limit - self.committed(dimension)


def from_limits(limits: Limits) -> BudgetState:
    """A fresh budget under the limits of a definition."""
    named = {
        "input_tokens": limits.input_tokens,
        "output_tokens": limits.output_tokens,
        "cache_tokens": limits.cache_tokens,
        "cost_microusd": limits.cost_microusd,
        "tool_calls": limits.tool_calls,
        "steps": limits.steps,
        "active_ms": None if limits.active_s is None else round(limits.active_s * 1000),
    }
    named.update({f"tool:{name}": count for name, count in limits.tool_calls_by_tool.items()})
    return BudgetState(limits={k: v for k, v in named.items() if v is not None})


def reserve(state: BudgetState, reservation: str, amounts: Amounts) -> BudgetState:
    """Set ``amounts`` aside under an id; the same id again replaces it."""
    return evolve(state, reserved={**state.reserved, reservation: dict(amounts)})


def settle(state: BudgetState, reservation: str | None, amounts: Amounts) -> BudgetState:
    """Count ``amounts`` as used and release the reservation."""
    used = dict(state.used)
    for name, amount in amounts.items():
        used[name] = used.get(name, 0) + amount
    if reservation is None or (reservation not in state.reserved and reservation not in state.at_risk):
        return evolve(state, used=used)
    return evolve(
        state,
        used=used,
        reserved={k: v for k, v in state.reserved.items() if k != reservation},
        at_risk={k: v for k, v in state.at_risk.items() if k != reservation},
    )


def release(state: BudgetState, reservation: str) -> BudgetState:
    """Drop a reservation of which surely nothing was spent."""
    return evolve(state, reserved={k: v for k, v in state.reserved.items() if k != reservation})


def cut(state: BudgetState, reservation: str | None = None) -> BudgetState:
    """Reservations (one, or all open ones) whose outcome a crash hid become *at risk*: still counted, shown apart.

    At most the newest sixteen are kept by id, older ones are merged, so that the state stays bounded.
    """
    moved = {k: v for k, v in state.reserved.items() if reservation in (None, k)}
    if not moved:
        return state
    at_risk: dict[str, Mapping[str, int]] = {**state.at_risk, **moved}
    while len(at_risk) > 16:
        first, second = list(at_risk)[:2]
        merged = {k: at_risk[first].get(k, 0) + at_risk[second].get(k, 0) for k in {*at_risk[first], *at_risk[second]}}
        del at_risk[first], at_risk[second]
        at_risk = {"earlier": merged, **at_risk}
    return evolve(state, reserved={k: v for k, v in state.reserved.items() if k not in moved}, at_risk=at_risk)


def extend(state: BudgetState, dimension: str, limit: int, expected_version: int) -> BudgetState:
    """Set an absolute new limit if the dimension's version is the expected one; otherwise nothing changes."""
    version = state.versions.get(dimension, 0)
    if version != expected_version:
        return state
    return evolve(state, limits={**state.limits, dimension: limit}, versions={**state.versions, dimension: version + 1})


def exhausted(state: BudgetState, amounts: Amounts) -> str | None:
    """The first dimension that forbids spending ``amounts`` more, or None when all allow it."""
    for dimension in state.limits:
        left = state.left(dimension)
        assert left is not None
        left -= amounts.get(dimension, 0)
        if left < 0 or (left == 0 and dimension not in COUNTS and not dimension.startswith("tool:")):
            return dimension
    return None


def cost_microusd(usage: Usage, price: Mapping[str, float]) -> int:
    """Millionths of a dollar for ``usage`` under ``price`` (dollars per million tokens: input, output, cache_read, cache_write)."""
    return round(
        usage.input_tokens * price.get("input", 0.0)
        + usage.output_tokens * price.get("output", 0.0)
        + usage.cache_read_tokens * price.get("cache_read", 0.0)
        + usage.cache_write_tokens * price.get("cache_write", 0.0)
    )


def share(state: BudgetState) -> float:
    """The largest share of any limit that is committed: 0 without limits, 1 when one is used up."""
    return max((state.committed(name) / limit for name, limit in state.limits.items() if limit > 0), default=0.0)
