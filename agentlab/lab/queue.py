"""The lab's queue as its owner sees it: how many sessions may run at once, which run, which wait in which place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agentlab import process
from agentlab.errors import AgentlabError, BadDefinition
from agentlab.events import Draft
from agentlab.pool.folder import PoolFolder
from agentlab.pool.queue import Owners, rests
from agentlab.pool.state import PoolState

if TYPE_CHECKING:
    from agentlab.lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Placed:
    """A session in the queue: ``place`` 0 while it runs, else counted from 1; ``owner`` is the process behind it.

    ``ticket`` orders the sessions: the lower it is, the earlier its session asked.
    """

    session_id: str
    place: int
    ticket: int
    owner: str

    def to_json(self) -> dict[str, Any]:
        """The place as plain data."""
        return asdict(self)


class LabQueue:
    """Places of a lab. Everything it says is read from the pool's log when asked."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.folder = PoolFolder(lab.path, lab.clock, lab.ids)

    @property
    def max_sessions(self) -> int | None:
        """How many sessions run at once; None when the lab sets no limit."""
        return self._state().max_sessions

    def limit(self, max_sessions: int | None) -> None:
        """Let at most ``max_sessions`` sessions run at once; None for as many as there are.

        Sessions that run already keep running and count. Those that wait see the new limit within a moment.

        Raises:
            BadDefinition: no number from 1 on.
            BadLab, StorageFailed: the lab can not take it.
        """
        wrong = isinstance(max_sessions, bool) or not isinstance(max_sessions, int) or max_sessions < 1
        if max_sessions is not None and wrong:
            raise BadDefinition(f"max_sessions is a number of sessions from 1 on, or None, not {max_sessions!r}")
        if max_sessions is None and self.folder.journal() is None:
            return

        def limited(state: PoolState) -> Sequence[Draft]:
            if state.max_sessions == max_sessions:
                return ()
            return (Draft("pool_limited", {"id": self._lab.ids.new("p"), "max_sessions": max_sessions}),)

        journal = self.folder.made()
        journal.change(limited)
        # A harness looks at the limit after it is on record, and we look for harnesses after the limit is: whoever
        # comes second sees the other.
        if max_sessions is not None:
            journal.change(self._running)

    def _running(self, state: PoolState) -> Sequence[Draft]:
        drafts: list[Draft] = []
        for session_id in self._lab.store.sessions():
            if session_id in state.running or session_id in state.waiting:
                continue
            try:
                session = self._lab.session(session_id).state
            except AgentlabError:
                continue  # one that can not be read does not run
            if session.control.status == "running" and session.process:
                if process.liveness(session.process) == "alive":
                    asked = {"session": session_id, "process": dict(session.process), "keeper": {}}
                    drafts.append(Draft("place_asked", {"id": self._lab.ids.new("p"), **asked}))
                    drafts.append(Draft("place_taken", {"id": self._lab.ids.new("p"), "session": session_id}))
        return drafts

    def places(self) -> list[Placed]:
        """Who runs and who waits, in order."""
        state, owners = self._state(), Owners(self._lab.clock)
        running = sorted(state.running.values(), key=lambda ticket: ticket.number)
        rows = [Placed(t.session_id, 0, t.number, owners.describe(t)) for t in running]
        return rows + [Placed(t.session_id, i, t.number, owners.describe(t)) for i, t in enumerate(state.queue(), 1)]

    def evidence(self, session_id: str) -> tuple[str, ...]:
        """How the queue stands for one session, in sentences; nothing when it is not in it."""
        state, owners = self._state(), Owners(self._lab.clock)
        place = state.place(session_id)
        if not place:
            return ()
        ticket = state.waiting[session_id]
        running = ", ".join(owners.describe(t) for t in sorted(state.running.values(), key=lambda t: t.number))
        before = ", ".join(owners.describe(t) for t in state.queue()[: place - 1])
        limit = state.max_sessions
        return (
            f"the lab's queue has it in place {place} of {len(state.waiting)} (ticket {ticket.number})"
            + (f", behind {before}" if before else ""),
            f"{len(state.running)} of {'any number of' if limit is None else limit} places taken"
            + (f": {running}" if running else ""),
        )

    def rest(self, session_id: str) -> None:
        """Nobody drives this session now: its place is free, its ticket is passed over until it wakes."""
        self._change(session_id, lambda state: rests(state, session_id, self._lab.ids))

    def leave(self, session_id: str) -> None:
        """Take a session out of the queue and out of its place, as when its owner on another machine is known dead."""
        left = {"id": self._lab.ids.new("p"), "session": session_id, "reason": "by hand"}
        self._change(
            session_id,
            lambda state: (
                (Draft("place_left", left),) if session_id in state.running or session_id in state.waiting else ()
            ),
        )

    def _change(self, session_id: str, drafts_of: Any) -> None:
        journal = self.folder.journal()
        if journal is not None:
            journal.change(drafts_of)

    def _state(self) -> PoolState:
        journal = self.folder.journal()
        return PoolState() if journal is None else journal.look()

    def __repr__(self) -> str:
        return f"LabQueue({self.max_sessions})"
