"""Per-minute quotas: of model requests, of one tool, of a service that several tools call."""

from __future__ import annotations

from agentlab.budget.state import BudgetState
from agentlab.evolve import evolve

WINDOW_S = 60
Counts = tuple[tuple[int, int], ...]
"""Sends of the newest window: (second, how many)."""


def keys_of(state: BudgetState, name: str) -> tuple[str, ...]:
    """The quotas that a send of ``name`` (``requests``, or a tool) counts towards."""
    if not state.quotas:
        return ()
    service = state.services.get(name)
    return tuple(key for key in (name, service) if key is not None and key in state.quotas)


def sent(state: BudgetState, name: str, at_us: int) -> BudgetState:
    """One send at ``at_us`` (microseconds, UTC) is counted."""
    keys = keys_of(state, name)
    if not keys:
        return state
    return evolve(state, recent={**state.recent, **{key: counted(state.recent.get(key, ()), at_us) for key in keys}})


def not_before(state: BudgetState, name: str) -> int:
    """When the next send of ``name`` is within its quotas, in microseconds UTC; 0 for now. Never too early."""
    return max((free_at(state.recent.get(key, ()), state.quotas[key]) for key in keys_of(state, name)), default=0)


def counted(counts: Counts, at_us: int) -> Counts:
    """``counts`` with one send more; what is older than the window is forgotten."""
    second = at_us // 1_000_000
    now = dict(counts)
    now[second] = now.get(second, 0) + 1
    newest = max(now)
    return tuple(sorted((s, n) for s, n in now.items() if s > newest - WINDOW_S - 1))


def free_at(counts: Counts, quota: int) -> int:
    """When one more send keeps every window within ``quota``, in microseconds UTC; 0 for now."""
    over = sum(n for _, n in counts) - quota
    for second, count in counts:
        if over < 0:
            break
        over -= count
        if over < 0:
            return (second + WINDOW_S + 1) * 1_000_000
    return 0
