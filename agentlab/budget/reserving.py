"""Reserve before, settle after: how amounts move between reserved, used and at risk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab.budget.dimensions import Amounts
from agentlab.budget.state import BudgetState
from agentlab.evolve import evolve

MAX_AT_RISK = 16
"""Reservations at risk that are kept by id; older ones are merged."""


def reserve(state: BudgetState, reservation: str, amounts: Amounts) -> BudgetState:
    """Set ``amounts`` aside under an id; the same id again replaces it."""
    return evolve(state, reserved={**state.reserved, reservation: dict(amounts)})


def settle(state: BudgetState, reservation: str | None, amounts: Amounts) -> BudgetState:
    """Count ``amounts`` as used and release the reservation."""
    return evolve(state, **settled(state, reservation, amounts))


def settled(state: BudgetState, reservation: str | None, amounts: Amounts) -> dict[str, Any]:
    """The fields that :func:`settle` changes, for a caller that changes others with them."""
    used = dict(state.used)
    for name, amount in amounts.items():
        used[name] = used.get(name, 0) + amount
    changes: dict[str, Any] = {"used": used}
    if reservation in state.reserved:
        changes["reserved"] = {k: v for k, v in state.reserved.items() if k != reservation}
    if reservation in state.at_risk:
        changes["at_risk"] = {k: v for k, v in state.at_risk.items() if k != reservation}
    return changes


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
    kept = {k: v for k, v in state.reserved.items() if k not in moved}
    return evolve(state, reserved=kept, at_risk=merged({**state.at_risk, **moved}))


def merged(at_risk: Mapping[str, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    """At most the newest by id, the older ones summed up under one."""
    kept = dict(at_risk)
    while len(kept) > MAX_AT_RISK:
        first, second = list(kept)[:2]
        both = {k: kept[first].get(k, 0) + kept[second].get(k, 0) for k in {*kept[first], *kept[second]}}
        del kept[first], kept[second]
        kept = {"earlier": both, **kept}
    return kept


def known(state: BudgetState, reservation: str, amounts: Amounts) -> BudgetState:
    """What a cut call really cost has become known: it counts instead of what was at risk. Nothing at risk, nothing done."""
    return settle(state, reservation, amounts) if reservation in state.at_risk else state


def extend(state: BudgetState, dimension: str, limit: int, expected_version: int) -> BudgetState:
    """Set an absolute new limit if the dimension's version is the expected one; otherwise nothing changes.

    Alerts begin anew under the new limit.
    """
    version = state.versions.get(dimension, 0)
    if version != expected_version:
        return state
    return evolve(
        state,
        limits={**state.limits, dimension: limit},
        versions={**state.versions, dimension: version + 1},
        alerted={k: v for k, v in state.alerted.items() if k != dimension},
    )
