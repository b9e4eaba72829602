"""The queue for places: a lab runs at most so many sessions at once, the rest wait in the order in which they came.

A place belongs to a session as long as its harness lives, or a keeper that lives starts the next one. Whoever
waits looks after the others: a place whose owner is dead beyond doubt (pid, start time, boot) is freed by the next
that wants it. A ticket is kept when its owner dies; the dead are passed over, and have their place again when
they wake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentlab import process
from agentlab.clock import Clock
from agentlab.events import Draft
from agentlab.ids import Ids
from agentlab.pool.journal import Journal
from agentlab.pool.state import PoolState, Ticket

GRACE_S = 15.0
"""Seconds that a living keeper has to start the next harness before the place of the dead one is freed: on a loaded
machine a process takes some to start."""

Liveness = Callable[[Mapping[str, Any]], str]
Stopped = Callable[[int], bool]


class Owners:
    """Tells which tickets somebody stands behind, and remembers since when a harness is seen dead."""

    def __init__(self, clock: Clock, liveness: Liveness = process.liveness, stopped: Stopped = process.stopped) -> None:
        self._clock, self._liveness, self._stopped = clock, liveness, stopped
        self._dead_since: dict[tuple[str, Any], float] = {}

    def gone(self, ticket: Ticket) -> bool:
        """Nobody runs or waits for the session, and nobody is about to."""
        if not ticket.process:
            return True
        seen = (ticket.session_id, ticket.process.get("pid"))
        if self._liveness(ticket.process) != "dead":
            self._dead_since.pop(seen, None)
            return False
        if not ticket.keeper or self._liveness(ticket.keeper) == "dead":
            return True
        now = self._clock.monotonic()
        return now - self._dead_since.setdefault(seen, now) > GRACE_S

    def waits(self, ticket: Ticket) -> bool:
        """Somebody stands in the queue for the session and could take a place now."""
        if self.gone(ticket):
            return False
        here = self._liveness(ticket.process) == "alive"
        return not (here and self._stopped(int(ticket.process["pid"])))

    def describe(self, ticket: Ticket) -> str:
        """The session and the process behind it, for a person."""
        if not ticket.process:
            return f"{ticket.session_id} (at rest)"
        word = self._liveness(ticket.process)
        return f"{ticket.session_id} (process {ticket.process.get('pid')}, {word})"


class SessionQueue:
    """One session's end of the queue, as its harness holds it."""

    def __init__(
        self,
        journal: Callable[[], Journal | None],
        session_id: str,
        owner: Mapping[str, Any],
        keeper: Mapping[str, Any] | None,
        clock: Clock,
        ids: Ids,
        owners: Owners | None = None,
    ) -> None:
        self._journal, self._session_id, self._ids = journal, session_id, ids
        self._owner, self._keeper = dict(owner), dict(keeper or {})
        self._owners = owners or Owners(clock)

    def ask(self) -> int:
        """Take a place if one is free for this session: 0. Else its place in the queue, counted from 1.

        The first call draws the ticket. Without a limit nothing is written.

        Raises:
            StorageFailed, LogCorrupt: the pool's log can not be used.
        """
        journal = self._journal()
        if journal is None:
            return 0
        return journal.change(self._claims).place(self._session_id)

    def rest(self) -> None:
        """Give the place back; a ticket keeps its number and is passed over until the session asks again."""
        journal = self._journal()
        if journal is not None:
            journal.change(lambda state: rests(state, self._session_id, self._ids))

    def _claims(self, state: PoolState) -> Sequence[Draft]:
        me = self._session_id
        if state.max_sessions is None and me not in state.waiting:
            return ()
        mine = state.running.get(me) or state.waiting.get(me)
        current = mine is not None and mine.process == self._owner and mine.keeper == self._keeper
        asked = {"session": me, "process": self._owner, "keeper": self._keeper}
        drafts = [] if current else [Draft("place_asked", {"id": self._ids.new("p"), **asked})]
        dead = [t for t in state.running.values() if t.session_id != me and self._owners.gone(t)]
        if me in state.running:
            others = len(state.running) - len(dead) - 1
            if current or state.max_sessions is None or others < state.max_sessions:
                return drafts
            # The limit was lowered while the session had no harness: now it waits like any other.
            return [self._left(state.running[me], "the limit is lower now"), *drafts]
        drafts += [self._left(t, "its owner is gone") for t in dead]
        ahead = [t for t in state.queue() if t.session_id != me and (mine is None or t.number < mine.number)]
        taken = len(state.running) - len(dead)
        if state.max_sessions is not None and taken < state.max_sessions:
            taken += sum(1 for ticket in ahead if self._owners.waits(ticket))
        if state.max_sessions is None or taken < state.max_sessions:
            drafts.append(Draft("place_taken", {"id": self._ids.new("p"), "session": me}))
        return drafts

    def _left(self, ticket: Ticket, reason: str) -> Draft:
        return Draft("place_left", {"id": self._ids.new("p"), "session": ticket.session_id, "reason": reason})


def rests(state: PoolState, session_id: str, ids: Ids) -> Sequence[Draft]:
    """What is written when a session comes to rest: its place is free, its ticket stays and nobody stands behind it."""
    if session_id in state.running:
        return (Draft("place_left", {"id": ids.new("p"), "session": session_id, "reason": "at rest"}),)
    ticket = state.waiting.get(session_id)
    if ticket is None or not ticket.process:
        return ()
    return (Draft("place_asked", {"id": ids.new("p"), "session": session_id, "process": {}}),)
