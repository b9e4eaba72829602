"""The folded state of a pool: who runs, who waits, in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentlab.budget.quotas import Counts, counted
from agentlab.errors import LogCorrupt
from agentlab.events import GENESIS, Event
from agentlab.evolve import evolve


@dataclass(frozen=True, slots=True)
class Ticket:
    """A session's claim: ``number`` says since when (the seq of the event that drew it) and so gives the order.

    ``process`` is the record of the harness that runs or waits for the session, empty when none does; ``keeper`` that
    of the process which would start the next harness at once, empty when there is none.
    """

    session_id: str
    number: int
    process: Mapping[str, Any] = field(default_factory=dict)
    keeper: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Account:
    """What the pool set aside for a session, in all, with what it ``brought``: spent before it drew on the pool.

    Only the harness of the newest ``incarnation`` may change it.
    """

    allotted: Mapping[str, int] = field(default_factory=dict)
    brought: Mapping[str, int] = field(default_factory=dict)
    incarnation: int = 0

    def taken(self, dimension: str) -> int:
        """What counts against the pool's limit."""
        return self.allotted.get(dimension, 0) - self.brought.get(dimension, 0)


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool as of event ``seq`` of its log.

    ``max_sessions`` is None when the lab sets no limit. ``running`` are the sessions that hold a place, ``waiting``
    the others, both by session id; the order is that of the tickets' numbers. ``limits`` are for all sessions
    together, ``accounts`` what is set aside for each, ``spent`` what closed accounts used.
    ``quotas`` are sends per minute of all sessions together, ``recent`` those of the newest minute.
    """

    seq: int = 0
    hash: str = GENESIS
    max_sessions: int | None = None
    running: Mapping[str, Ticket] = field(default_factory=dict)
    waiting: Mapping[str, Ticket] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    accounts: Mapping[str, Account] = field(default_factory=dict)
    spent: Mapping[str, int] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)
    recent: Mapping[str, Counts] = field(default_factory=dict)

    def taken(self, dimension: str) -> int:
        """What is spent or set aside, by all sessions together."""
        return self.spent.get(dimension, 0) + sum(account.taken(dimension) for account in self.accounts.values())

    def left(self, dimension: str) -> int:
        """What may still be set aside of a limited dimension."""
        return self.limits[dimension] - self.taken(dimension)

    def queue(self) -> list[Ticket]:
        """Who waits, first come first."""
        return sorted(self.waiting.values(), key=lambda ticket: ticket.number)

    def place(self, session_id: str) -> int:
        """The session's place in the queue, counted from 1; 0 when it is not in it."""
        ids = [ticket.session_id for ticket in self.queue()]
        return ids.index(session_id) + 1 if session_id in ids else 0


def fold(state: PoolState, event: Event) -> PoolState:
    """The state after ``event``.

    Raises:
        LogCorrupt: a gap, or a kind that does not belong into a pool's log.
    """
    if event.seq != state.seq + 1:
        raise LogCorrupt(f"pool {event.session_id!r}: event {state.seq + 1} expected, found {event.seq}")
    handler = HANDLERS.get(event.type)
    if handler is None:
        raise LogCorrupt(f"pool {event.session_id!r}: event {event.seq} is of kind {event.type!r}, which no pool has")
    return evolve(state, seq=event.seq, hash=event.hash, **handler(state, event))


def _limited(state: PoolState, event: Event) -> dict[str, Any]:
    return {"max_sessions": event.payload["max_sessions"]}


def _asked(state: PoolState, event: Event) -> dict[str, Any]:
    p = event.payload
    name = p["session"]
    records = {"process": p["process"], "keeper": p.get("keeper") or {}}
    if name in state.running:  # the next harness of a session that has its place already
        return {"running": {**state.running, name: evolve(state.running[name], **records)}}
    known = state.waiting.get(name) or Ticket(name, event.seq)
    return {"waiting": {**state.waiting, name: evolve(known, **records)}}


def _taken(state: PoolState, event: Event) -> dict[str, Any]:
    name = event.payload["session"]
    ticket = state.waiting.get(name)
    if ticket is None:
        return {}
    waiting = {k: v for k, v in state.waiting.items() if k != name}
    return {"waiting": waiting, "running": {**state.running, name: ticket}}


def _left(state: PoolState, event: Event) -> dict[str, Any]:
    name = event.payload["session"]
    return {
        "running": {k: v for k, v in state.running.items() if k != name},
        "waiting": {k: v for k, v in state.waiting.items() if k != name},
    }


def _extended(state: PoolState, event: Event) -> dict[str, Any]:
    p = event.payload
    name, version = p["dimension"], state.versions.get(p["dimension"], 0)
    if version != p["expected_version"]:
        return {}
    limits = {k: v for k, v in state.limits.items() if k != name}
    if p["limit"] is not None:
        limits[name] = p["limit"]
    return {"limits": limits, "versions": {**state.versions, name: version + 1}}


def _allotted(state: PoolState, event: Event) -> dict[str, Any]:
    p = event.payload
    name = p["session"]
    account = state.accounts.get(name) or Account()
    if p["incarnation"] < account.incarnation:
        return {}  # of a harness that is fenced; whoever appends looks first, so this is never met
    brought = p.get("brought", account.brought)
    account = Account(dict(p["allotted"]), dict(brought), p["incarnation"])
    if p.get("closed"):
        spent = dict(state.spent)
        for dimension in account.allotted:
            spent[dimension] = spent.get(dimension, 0) + account.taken(dimension)
        return {"spent": spent, "accounts": {k: v for k, v in state.accounts.items() if k != name}}
    return {"accounts": {**state.accounts, name: account}}


def _quota(state: PoolState, event: Event) -> dict[str, Any]:
    key, quota = event.payload["key"], event.payload["per_minute"]
    rest = {k: v for k, v in state.quotas.items() if k != key}
    return {"quotas": rest if quota is None else {**rest, key: quota}}


def _paced(state: PoolState, event: Event) -> dict[str, Any]:
    keys = event.payload["keys"]
    return {"recent": {**state.recent, **{key: counted(state.recent.get(key, ()), event.ts) for key in keys}}}


def _summed(state: PoolState, event: Event) -> dict[str, Any]:
    return {}  # it says what the events before it said


HANDLERS: dict[str, Callable[[PoolState, Event], dict[str, Any]]] = {
    "pool_limited": _limited,
    "pool_quota": _quota,
    "pool_paced": _paced,
    "pool_summed": _summed,
    "pool_extended": _extended,
    "pool_joined": _allotted,
    "pool_drawn": _allotted,
    "pool_returned": _allotted,
    "place_asked": _asked,
    "place_taken": _taken,
    "place_left": _left,
}
