"""The budget that the sessions of a lab share: each draws in chunks, and what is drawn is set aside for it alone.

A reservation is in the pool's log before it is in the session's, a return in the session's before it is in the pool's:
at every moment the pool has set aside at least what the session believes to have. So whatever dies when, the pool is
never overdrawn. Amounts are absolute, and only the harness of the newest incarnation may change a session's account:
saying something twice, or late, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentlab.budget import is_count
from agentlab.budget.quotas import free_at
from agentlab.clock import Clock, SystemClock
from agentlab.errors import Fenced
from agentlab.events import Draft
from agentlab.ids import Ids
from agentlab.pool.journal import Journal
from agentlab.pool.state import Account, PoolState
from agentlab.ports import Drawn


@dataclass(frozen=True, slots=True)
class Unused:
    """A session that nobody drives: what it has committed per dimension, what calls without a result may have used,
    and whether it has ended for good."""

    committed: Callable[[str], int]
    unknown: Mapping[str, int]
    ended: bool


Judge = Callable[[str], Unused | None]
"""What a session's own log says of it; None when somebody drives it, or nobody can tell."""


class PoolBudget:
    """One session's end of the pool; implements :class:`agentlab.ports.Pool`."""

    def __init__(
        self,
        journal: Callable[[], Journal | None],
        session_id: str,
        ids: Ids,
        judge: Judge,
        clock: Clock | None = None,
    ) -> None:
        self._journal, self._session_id, self._ids, self._judge = journal, session_id, ids, judge
        self._now_us = (clock or SystemClock()).now_us

    def join(self, incarnation: int, committed: Callable[[str], int]) -> Mapping[str, int] | None:
        """See :meth:`agentlab.ports.Pool.join`."""
        journal = self._journal()
        if journal is None:
            return None
        state = journal.change(lambda state: self._joins(state, incarnation, committed))
        account = state.accounts.get(self._session_id)
        return dict(account.allotted) if state.limits and account is not None else None

    def _joins(self, state: PoolState, incarnation: int, committed: Callable[[str], int]) -> Sequence[Draft]:
        if not state.limits:
            return ()
        account = self._mine(state, incarnation)
        allotted, brought = dict(account.allotted), dict(account.brought)
        for dimension in state.limits:
            if dimension not in allotted:
                allotted[dimension] = brought[dimension] = committed(dimension)
        if account.incarnation == incarnation and allotted == account.allotted:
            return ()
        return (self._draft("pool_joined", self._ids.new("p"), incarnation, allotted, brought=brought),)

    def draw(self, reservation: str, incarnation: int, least: Mapping[str, int], wished: Mapping[str, int]) -> Drawn:
        """See :meth:`agentlab.ports.Pool.draw`. Where too little is left, what nobody uses any more is taken back first."""
        drawn = self._draw(reservation, incarnation, least, wished)
        if drawn.refused and self._reclaimed():
            drawn = self._draw(reservation, incarnation, least, wished)
        return drawn

    def _draw(self, reservation: str, incarnation: int, least: Mapping[str, int], wished: Mapping[str, int]) -> Drawn:
        journal = self._journal()
        if journal is None:  # the pool is gone: nothing is shared any more
            return Drawn(dict(wished))
        refused: list[str] = []

        def draws(state: PoolState) -> Sequence[Draft]:
            refused.clear()
            account = self._mine(state, incarnation)
            allotted = dict(account.allotted)
            for dimension, total in least.items():
                grant = _grant(state, dimension, total - account.allotted.get(dimension, 0), wished[dimension] - total)
                if grant is None:
                    refused.append(dimension)
                    return ()
                allotted[dimension] = account.allotted.get(dimension, 0) + grant
            if allotted == account.allotted:
                return ()
            return (self._draft("pool_drawn", reservation, incarnation, allotted),)

        account = journal.change(draws).accounts.get(self._session_id) or Account()
        return Drawn(dict(account.allotted), refused[0] if refused else "")

    def pace(self, names: Sequence[str]) -> int:
        """See :meth:`agentlab.ports.Pool.pace`. Without such quotas nothing is written."""
        journal = self._journal()
        if journal is None:
            return 0
        later = 0

        def sends(state: PoolState) -> Sequence[Draft]:
            nonlocal later
            keys = [name for name in names if name in state.quotas]
            later = max((free_at(state.recent.get(key, ()), state.quotas[key]) for key in keys), default=0)
            if not keys or later > self._now_us():
                return ()
            later = 0
            payload = {"id": self._ids.new("p"), "session": self._session_id, "keys": keys}
            return (Draft("pool_paced", payload),)

        journal.change(sends)
        return later

    def give_back(self, reservation: str, incarnation: int, allotted: Mapping[str, int], *, closed: bool) -> None:
        """See :meth:`agentlab.ports.Pool.give_back`."""
        journal = self._journal()
        if journal is None:
            return

        def returns(state: PoolState) -> Sequence[Draft]:
            if self._session_id not in state.accounts:
                return ()
            account = self._mine(state, incarnation)
            kept = {**account.allotted, **{k: v for k, v in allotted.items() if k in account.allotted}}
            if kept == account.allotted and not closed:
                return ()
            return (self._draft("pool_returned", reservation, incarnation, kept, closed=closed),)

        journal.change(returns)

    def _reclaimed(self) -> bool:
        """Take back what sessions have that ended, or whose owner is gone, beyond what they committed."""
        journal = self._journal()
        if journal is None:
            return False
        before = journal.look().seq
        return journal.change(lambda state: reclaims(state, self._session_id, self._judge, self._ids)).seq > before

    def _mine(self, state: PoolState, incarnation: int) -> Account:
        account = state.accounts.get(self._session_id) or Account()
        if account.incarnation > incarnation:
            raise Fenced(
                f"session {self._session_id!r} draws on the pool as incarnation {account.incarnation};"
                f" incarnation {incarnation} stops here"
            )
        return account

    def _draft(self, kind: str, reservation: str, incarnation: int, allotted: Mapping[str, int], **more: Any) -> Draft:
        payload = {"id": reservation, "session": self._session_id, "incarnation": incarnation, "allotted": allotted}
        return Draft(kind, {**payload, **more})


def _grant(state: PoolState, dimension: str, need: int, more: int) -> int | None:
    """What is set aside beyond what the account has: ``need``, and of ``more`` not above a quarter of what is left.

    None when less than ``need`` is left. A dimension that the pool does not limit any more gives all.
    """
    if need <= 0:
        return 0
    if dimension not in state.limits:
        return need + more
    left = state.left(dimension) - need
    if left < 0 or (left == 0 and not is_count(dimension)):
        return None
    return need + max(0, min(more, left // 4))


def _kept(allotted: int, dimension: str, found: Unused) -> int:
    """What stays set aside: all that is committed, and of what nobody knows as much as was set aside for it."""
    committed = found.committed(dimension)
    return max(committed, min(allotted, committed + found.unknown.get(dimension, 0)))


def reclaims(state: PoolState, but: str, judge: Judge, ids: Ids) -> Sequence[Draft]:
    """What sessions that nobody drives have set aside and did not use, as drafts that give it back."""
    drafts = []
    for session_id, account in state.accounts.items():
        found = judge(session_id) if session_id != but else None
        if found is None:
            continue
        kept = {name: _kept(amount, name, found) for name, amount in account.allotted.items()}
        if kept != account.allotted or found.ended:
            payload = {
                "id": ids.new("p"),
                "session": session_id,
                "incarnation": account.incarnation,
                "allotted": kept,
                "closed": found.ended,
                "reason": "ended" if found.ended else "its owner is gone",
            }
            drafts.append(Draft("pool_returned", payload))
    return drafts
