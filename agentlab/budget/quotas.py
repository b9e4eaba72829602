"""Per-minute quotas: of model requests, of one tool, of a service that several tools call."""

from __future__ import annotations

from agentlab.budget.state import BudgetState
from agentlab.evolve import evolve

WINDOW_S = 60


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
    second = at_us // 1_000_000
    recent = dict(state.recent)
    for key in keys:
        counts = dict(recent.get(key, ()))
        counts[second] = counts.get(second, 0) + 1
        newest = max(counts)
        recent[key] = tuple(sorted((s, n) for s, n in counts.items() if s > newest - WINDOW_S - 1))
    return evolve(state, recent=recent)


def not_before(state: BudgetState, name: str) -> int:
    """When the next send of ``name`` is within its quotas, in microseconds UTC; 0 for now. Never too early."""
    return max((_free_at(state, key) for key in keys_of(state, name)), default=0)


def _free_at(state: BudgetState, key: str) -> int:
    counts = state.recent.get(key, ())
    over = sum(n for _, n in counts) - state.quotas[key]
    for second, count in counts:
        if over < 0:
            break
        over -= count
        if over < 0:
            return (second + WINDOW_S + 1) * 1_000_000
    return 0
