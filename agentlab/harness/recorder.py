"""The recorder: the harness's only way to write. It seals, stages and commits events and keeps the folded state.

Answers of a command are *staged*: folded at once, and made durable together with the next write-ahead, always
before the world outside is touched again. So a turn costs two commits, and nothing that was seen is ever acted
upon before it is in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentlab.clock import Clock
from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import Conflict, Fenced, OutcomeUnknown
from agentlab.events import KINDS, Draft, Event, Head, seal, spill
from agentlab.events.spill import ROW_LIMIT
from agentlab.harness.redact import Redactor
from agentlab.ids import Ids
from agentlab.observe import Subscribers
from agentlab.ports import Blobs, Log
from agentlab.session.fold import fold, fold_all
from agentlab.session.state import State

_MAX_RACES = 100
_WHOLE = frozenset({"session_started", "restored_to"})
"""Kinds whose payload the fold needs whole: never spilled. Their size does not grow with the history."""


class Redecide(Exception):
    """An input landed first: what was about to be done has to be decided again. Not an error."""


class Recorder:
    """Writes one incarnation's events. ``state`` includes what is staged; ``committed`` only what is durable."""

    def __init__(
        self, log: Log, blobs: Blobs, state: State, incarnation: int, clock: Clock, ids: Ids, redactor: Redactor
    ) -> None:
        self._log, self._blobs, self._clock, self._ids = log, blobs, clock, ids
        self._redactor = redactor
        self.incarnation = incarnation
        self.committed = state
        self.state = state
        self._staged: list[Draft] = []
        self._events: list[Event] = []
        self.landed: Subscribers[Sequence[Event]] = Subscribers()
        self.commits = 0

    @property
    def staged(self) -> int:
        """How many events wait for the next commit."""
        return len(self._staged)

    def staged_event(self, seq: int) -> Event | None:
        """An event that waits for the next commit, None when there is none of that number."""
        return next((event for event in self._events if event.seq == seq), None)

    def stage(self, drafts: Sequence[Draft]) -> None:
        """Fold ``drafts`` into ``state``; they become durable with the next :meth:`commit`."""
        for draft in drafts:
            event = self._sealed(draft)
            text = event.payload_text
            if self._redactor.active and self._redactor.finds(text + (event.error_text or "")):
                draft = self._redactor.clean(draft)
                event = self._sealed(draft)
                text = event.payload_text
            if len(text) > ROW_LIMIT // 4 and draft.type not in _WHOLE:
                draft = replace(draft, payload=spill(draft.payload, self._blobs.put))
                event = self._sealed(draft)
            self._take(draft, event)

    def _take(self, draft: Draft, event: Event) -> None:
        self._staged.append(draft)
        self._events.append(event)
        self.state = fold(self.state, event)

    def _sealed(self, draft: Draft) -> Event:
        (event,) = seal(
            (draft,),
            Head(self.state.seq, self.state.hash),
            session_id=self._log.session_id,
            incarnation=self.incarnation,
            commit_id=self._commit_id(),
            now_us=self._clock.now_us(),
        )
        return event

    def _commit_id(self) -> str:
        return self._events[0].commit_id if self._events else self._ids.new("k")

    def commit(self, write_ahead: Sequence[Draft] = ()) -> None:
        """Make everything staged durable, and ``write_ahead`` with it. This is also the fence check.

        Raises:
            Fenced: a newer incarnation has opened the session.
            Redecide: an input landed first and an intent has to be decided again; facts are durable all the same.
            StorageFailed: nothing was acknowledged.
        """
        self.stage(write_ahead)
        dropped = False
        for _ in range(_MAX_RACES):
            if not self._events:
                break
            kinds = ",".join(event.type for event in self._events)
            reach(CrashPoint.COMMIT, "before", kinds)
            try:
                self._append()
            except Conflict:
                dropped = self._rebase() or dropped
                continue
            self.committed = self.state
            landed, self._events, self._staged = self._events, [], []
            self.commits += 1
            reach(CrashPoint.COMMIT, "after", kinds)
            self.landed.tell(landed)
            break
        if dropped:
            raise Redecide

    def commit_opening(self) -> None:
        """Append what is staged as the opening of this incarnation, once.

        Raises:
            Conflict: somebody appended meanwhile; load again and decide again.
        """
        kinds = ",".join(event.type for event in self._events)
        reach(CrashPoint.COMMIT, "before", kinds)
        self._append()
        self.committed = self.state
        self._events, self._staged = [], []
        reach(CrashPoint.COMMIT, "after", kinds)

    def _append(self) -> None:
        first = self._events[0].seq
        try:
            self._log.append(self._events, first)
        except OutcomeUnknown:
            # The name may exist. If our own commit stands there, it has landed; else this raises Conflict or fails.
            found = next(iter(self._log.replay(first, first)), None)
            if found is None or found.commit_id != self._events[0].commit_id:
                raise

    def poll(self) -> None:
        """Fold what others appended since the last look (inputs, or an opening that fences this harness).

        Raises:
            Fenced: a newer incarnation has opened the session.
        """
        if self._log.poll(self.committed.seq):
            self._rebase()

    def _rebase(self) -> bool:
        """Fold foreign events, seal staged facts again after them, drop staged intents; whether any was dropped."""
        fresh = list(self._log.replay(self.committed.seq + 1))
        for event in fresh:
            if KINDS[event.type].cls == "opening" and event.incarnation > self.incarnation:
                raise Fenced(
                    f"session {event.session_id!r} was opened by incarnation {event.incarnation} at event {event.seq};"
                    f" incarnation {self.incarnation} stops here{self._refused()}"
                )
        self.committed = fold_all(self.committed, fresh)
        self.state = self.committed
        staged, self._staged, self._events = self._staged, [], []
        kept = [draft for draft in staged if KINDS[draft.type].cls != "intent"]
        for draft in kept:
            self._take(draft, self._sealed(draft))
        return len(kept) < len(staged)

    def _refused(self) -> str:
        kinds = dict.fromkeys(event.type for event in self._events)
        return f"; refused: {', '.join(kinds)}" if kinds else ""

    def forget(self) -> None:
        """Drop what is staged (a command that was interrupted before its write-ahead)."""
        self._staged, self._events, self.state = [], [], self.committed
