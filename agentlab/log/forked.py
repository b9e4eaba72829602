"""The log of a fork: its own rows after those it shares with the session it was forked from.

Nothing is copied. The first rows are read where they are, in the logs of the ancestors; the first row of a fork's own
chains to the hash of the last one shared. However deep forks of forks go, every shared row is read from the one log
that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentlab.clock import Clock, SystemClock
from agentlab.errors import LogCorrupt, UnknownName
from agentlab.events import Event, Head
from agentlab.ports import Durability, Log, Pointer


@dataclass(frozen=True, slots=True)
class Shared:
    """Rows ``first`` to ``last`` of an ancestor, which are part of the fork's past."""

    log: Log
    first: int
    last: int


def lineage(base: Head, parent: str, own_log: Callable[[str], tuple[Log, str | None]]) -> tuple[Shared, ...]:
    """What a fork shares, oldest first. ``own_log`` gives a session's own rows and its parent's id (None without).

    Raises:
        LogCorrupt: an ancestor is gone, or the forks go round in a circle.
    """
    found: list[Shared] = []
    limit, name, seen = base.seq, parent, set()
    while name is not None and limit > 0:
        if name in seen:
            raise LogCorrupt(f"session {name!r} is forked from itself")
        seen.add(name)
        try:
            log, above = own_log(name)
        except UnknownName:
            raise LogCorrupt(
                f"a fork shares events up to {limit} with session {name!r}, which is gone: restore it from a copy"
            ) from None
        if limit > log.base.seq:
            found.append(Shared(log, log.base.seq + 1, limit))
            limit = log.base.seq
        if above is None:
            break
        name = above
    return tuple(reversed(found))


class ForkedLog:
    """A fork's log; implements :class:`agentlab.ports.Log`. ``own`` holds its own rows and is what gets written."""

    def __init__(self, own: Log, shared: Sequence[Shared], clock: Clock | None = None) -> None:
        self.own = own
        self.shared = tuple(shared)
        self._clock = clock or SystemClock()

    def __getattr__(self, name: str) -> Any:
        # The folder, the durability and the like are those of its own rows.
        if name == "own":
            raise AttributeError(name)
        return getattr(self.own, name)

    @property
    def session_id(self) -> str:
        return self.own.session_id

    @property
    def durability(self) -> Durability:
        """What its own rows survive."""
        found: Durability = self.own.durability  # type: ignore[attr-defined]
        return found

    @property
    def base(self) -> Head:
        return self.own.base

    def append(self, events: Sequence[Event], expected_seq: int) -> None:
        """See :meth:`agentlab.ports.Log.append`."""
        self.own.append(events, expected_seq)

    def flush(self) -> None:
        """See :meth:`agentlab.ports.Log.flush`."""
        self.own.flush()

    def replay(self, from_seq: int = 1, to_seq: int | None = None) -> Iterator[Event]:
        """See :meth:`agentlab.ports.Log.replay`; shared rows first.

        Raises:
            LogCorrupt: an ancestor does not hold what it shares.
        """
        seq = max(1, from_seq)
        for part in self.shared:
            last = part.last if to_seq is None else min(part.last, to_seq)
            if seq > last:
                continue
            for event in part.log.replay(seq, last):
                seq = event.seq + 1
                yield event
            if seq <= last:
                raise LogCorrupt(
                    f"session {self.session_id!r} shares event {seq} with {part.log.session_id!r}, where it is missing"
                )
        if to_seq is None or seq <= to_seq:
            yield from self.own.replay(max(seq, self.base.seq + 1), to_seq)

    def poll(self, head: int) -> Sequence[Event]:
        """See :meth:`agentlab.ports.Log.poll`."""
        return list(self.replay(head + 1)) if head < self.base.seq else self.own.poll(head)

    def follow(self, from_seq: int, stop: Callable[[], bool], interval_s: float = 0.1) -> Iterator[Event]:
        """See :meth:`agentlab.ports.Log.follow`."""
        if from_seq <= self.base.seq:
            yield from self.replay(from_seq, self.base.seq)
        yield from self.own.follow(max(from_seq, self.base.seq + 1), stop, interval_s)

    def head(self) -> Head:
        """See :meth:`agentlab.ports.Log.head`."""
        return self.own.head()

    def put_pointer(self, pointer: Pointer) -> None:
        """See :meth:`agentlab.ports.Log.put_pointer`."""
        self.own.put_pointer(pointer)

    def pointers(self) -> Sequence[Pointer]:
        """Its own pointers and those of the shared past, newest first."""
        found = list(self.own.pointers())
        for part in reversed(self.shared):
            found += [p for p in part.log.pointers() if part.first <= p.seq <= part.last]
        return found

    def seal(self) -> int:
        """Merge its own commits; shared ones are the ancestors' to merge."""
        return self.own.seal()
