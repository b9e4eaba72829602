"""Summaries in a pool's log: the whole folded state in one event now and then, so that nobody reads all of it again.

A pointer names the newest; it is a hint, and what it names is verified by its own hash before it is believed.
"""

from __future__ import annotations

from typing import Any

from agentlab.errors import LogError
from agentlab.events import Draft, Event, chain_hash, column_values
from agentlab.evolve import evolve
from agentlab.pool.state import Account, PoolState, Ticket
from agentlab.ports import Log, Pointer


def summary(state: PoolState, summary_id: str) -> Draft:
    """The state as the event that may follow it."""
    told = {
        "max_sessions": state.max_sessions,
        "running": {name: _ticket(ticket) for name, ticket in state.running.items()},
        "waiting": {name: _ticket(ticket) for name, ticket in state.waiting.items()},
        "limits": dict(state.limits),
        "versions": dict(state.versions),
        "accounts": {name: _account(account) for name, account in state.accounts.items()},
        "spent": dict(state.spent),
        "quotas": dict(state.quotas),
        "recent": {key: [list(pair) for pair in counts] for key, counts in state.recent.items()},
    }
    return Draft("pool_summed", {"id": summary_id, "cursor": state.seq, "cursor_hash": state.hash, "state": told})


def point_at(log: Log, event: Event) -> None:
    """Store the pointer to a summary."""
    payload = event.payload
    log.put_pointer(Pointer(event.seq, payload["cursor"], payload["cursor_hash"], event.hash))


def newest(log: Log) -> PoolState:
    """The state after the newest summary that verifies; the empty one when there is none."""
    for pointer in log.pointers():
        try:
            event = next(iter(log.replay(pointer.seq, pointer.seq)), None)
            if event is not None and event.type == "pool_summed" and event.hash == pointer.state_digest:
                return _read(event)
        except (LogError, KeyError, TypeError, ValueError):
            continue  # the one before it serves, or the whole log
    return PoolState()


def _read(event: Event) -> PoolState:
    """The state after a summary.

    Raises:
        KeyError, TypeError, ValueError: it is none, or its row was changed.
    """
    payload = event.payload
    if payload["cursor"] != event.seq - 1 or chain_hash(payload["cursor_hash"], column_values(event)) != event.hash:
        raise ValueError(f"event {event.seq} is no summary of what is before it")
    told: dict[str, Any] = payload["state"]
    return evolve(
        PoolState(),
        seq=event.seq,
        hash=event.hash,
        max_sessions=told["max_sessions"],
        running={name: Ticket(**ticket) for name, ticket in told["running"].items()},
        waiting={name: Ticket(**ticket) for name, ticket in told["waiting"].items()},
        limits=told["limits"],
        versions=told["versions"],
        accounts={name: Account(**account) for name, account in told["accounts"].items()},
        spent=told["spent"],
        quotas=told.get("quotas", {}),
        recent={key: tuple((s, n) for s, n in counts) for key, counts in told.get("recent", {}).items()},
    )


def _ticket(ticket: Ticket) -> dict[str, Any]:
    return {
        "session_id": ticket.session_id,
        "number": ticket.number,
        "process": dict(ticket.process),
        "keeper": dict(ticket.keeper),
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "allotted": dict(account.allotted),
        "brought": dict(account.brought),
        "incarnation": account.incarnation,
    }
