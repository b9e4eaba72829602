"""A pool's log, kept folded: look at it, and change it so that of two who change it at once each sees the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentlab.clock import Clock
from agentlab.errors import Conflict, LogError, OutcomeUnknown
from agentlab.events import Draft, Event, Head, seal, verify_chain
from agentlab.ids import Ids
from agentlab.observe import log
from agentlab.pool.state import PoolState, fold
from agentlab.pool.summary import newest, point_at, summary
from agentlab.ports import Log

SUM_EVERY = 256
"""Events after which a pool's state is written down whole and its commits are merged into a segment."""
_RACES = 1000


class Journal:
    """The folded state of a pool's log. Holds nothing that the log does not."""

    def __init__(self, log: Log, clock: Clock, ids: Ids) -> None:
        self._log, self._clock, self._ids = log, clock, ids
        self._state = PoolState()

    def look(self) -> PoolState:
        """The state now; a probe or two when nothing is new.

        Raises:
            LogCorrupt: the log does not verify.
        """
        if not self._state.seq:
            self._state = newest(self._log)
            self._take(self._log.replay(self._state.seq + 1))
        else:
            self._take(self._log.poll(self._state.seq))
        return self._state

    def change(self, drafts_of: Callable[[PoolState], Sequence[Draft]]) -> PoolState:
        """Append what ``drafts_of`` makes of the newest state (nothing for no drafts); the state after it.

        When somebody else appends first, ``drafts_of`` is asked again with what is true then.

        Raises:
            StorageFailed: the log could not be written.
            LogCorrupt: it does not verify.
        """
        for _ in range(_RACES):
            state = self.look()
            drafts = drafts_of(state)
            if not drafts:
                return state
            events = self._sealed(drafts)
            if self._append(events):
                self._take(events)
                if self._state.seq // SUM_EVERY > state.seq // SUM_EVERY:
                    self._sum_up()
                return self._state
        raise Conflict(self._log.session_id, self._state.seq + 1)

    def _sum_up(self) -> None:
        """Write down the whole state and merge the commits: nobody has to read what is before it."""
        try:
            events = self._sealed((summary(self._state, self._ids.new("p")),))
            if self._append(events):
                self._take(events)
                point_at(self._log, events[0])
            self._log.seal()
        except LogError:  # what was to be changed is changed, and the log says all of it as it is
            log.warning("the pool %s could not be summed up now", self._log.session_id, exc_info=True)

    def _sealed(self, drafts: Sequence[Draft]) -> tuple[Event, ...]:
        return seal(
            drafts,
            Head(self._state.seq, self._state.hash),
            session_id=self._log.session_id,
            incarnation=0,
            commit_id=self._ids.new("k"),
            now_us=self._clock.now_us(),
        )

    def _append(self, events: Sequence[Event]) -> bool:
        first = events[0].seq
        try:
            self._log.append(events, first)
            return True
        except (Conflict, OutcomeUnknown) as error:
            found = next(iter(self._log.replay(first, first)), None)
            if found is None and isinstance(error, OutcomeUnknown):
                raise
            return found is not None and found.commit_id == events[0].commit_id

    def _take(self, events: Iterable[Event]) -> None:
        fresh = [event for event in events if event.seq > self._state.seq]
        verify_chain(fresh, Head(self._state.seq, self._state.hash))
        for event in fresh:
            self._state = fold(self._state, event)
