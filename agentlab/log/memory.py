"""The log in memory: the same contract at a few microseconds, for simulations and as the oracle of tests.

A whole :class:`MemoryStore` is copied in microseconds, so an explorer can branch worlds: copies share rows until
one of them appends. Power loss is modelled by :meth:`MemoryStore.forget_unsynced`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from agentlab.clock import Clock, SystemClock
from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import Conflict, LogCorrupt, UnknownName, UserError
from agentlab.events import GENESIS, Event, Head
from agentlab.log.batch import commit_id_of, hole, known_durability
from agentlab.log.forked import ForkedLog, lineage
from agentlab.log.paths import folder_name
from agentlab.ports import Durability, Parent, Pointer


class MemoryLog:
    """One session in memory; implements :class:`agentlab.ports.Log`."""

    def __init__(
        self,
        session_id: str,
        durability: Durability = "disk",
        clock: Clock | None = None,
        base: Head = Head(0, GENESIS),  # noqa: B008
    ) -> None:
        self._session_id = session_id
        self.base = base
        self.durability: Durability = durability
        self._clock = clock or SystemClock()
        self._rows: list[Event] = []  # shared with copies; only the first _length rows are ours
        self._length = 0
        self._synced = 0
        self._sealed = 0
        self._pointers: dict[int, Pointer] = {}
        self.torn = False
        """A temporary file stands that no name refers to: whoever dies now leaves it behind, and readers pass over it."""

    @property
    def session_id(self) -> str:
        return self._session_id

    def append(self, events: Sequence[Event], expected_seq: int) -> None:
        """See :meth:`agentlab.ports.Log.append`. A crash before ``log.link`` leaves nothing but a torn file, after it everything."""
        commit_id = commit_id_of(events, expected_seq, self._session_id)
        detail, durable = str(expected_seq), self.durability == "disk"
        reach(CrashPoint.LOG_WRITE, "before", detail)
        self.torn = True
        reach(CrashPoint.LOG_WRITE, "after", detail)
        if durable:
            reach(CrashPoint.LOG_FSYNC, "before", detail)
            reach(CrashPoint.LOG_FSYNC, "after", detail)
        reach(CrashPoint.LOG_LINK, "before", detail)
        self.torn = False
        place = expected_seq - self.base.seq
        if place > self._length + 1:
            raise hole(self._session_id, expected_seq, self.base.seq + self._length)
        if place <= self._length:
            if place < 1 or self._rows[place - 1].commit_id != commit_id:
                raise Conflict(self._session_id, expected_seq)
            return
        if len(self._rows) != self._length:  # a copy went on from here, or power was lost
            self._rows = self._rows[: self._length]
        self._rows.extend(events)
        self._length += len(events)
        reach(CrashPoint.LOG_LINK, "after", detail)
        if durable:
            reach(CrashPoint.LOG_DIRSYNC, "before", detail)
            self._synced = self._length
            reach(CrashPoint.LOG_DIRSYNC, "after", detail)
        reach(CrashPoint.LOG_UNLINK, "before", detail)
        reach(CrashPoint.LOG_UNLINK, "after", detail)

    def flush(self) -> None:
        """Everything so far survives a modelled power loss."""
        self._synced = self._length

    def forget_unsynced(self) -> int:
        """Model a power loss: drop what was not synced; returns how many events are gone."""
        lost = self._length - self._synced
        self._length = self._synced
        self._sealed = min(self._sealed, self._length)
        return lost

    def replay(self, from_seq: int = 1, to_seq: int | None = None) -> Iterator[Event]:
        """See :meth:`agentlab.ports.Log.replay`; rows that land while it runs are seen."""
        before = self.base.seq
        seq = max(before + 1, from_seq)
        while seq <= before + self._length and (to_seq is None or seq <= to_seq):
            yield self._rows[seq - before - 1]
            seq += 1

    def poll(self, head: int) -> Sequence[Event]:
        """See :meth:`agentlab.ports.Log.poll`."""
        known = head - self.base.seq
        return self._rows[max(0, known) : self._length] if known < self._length else ()

    def follow(self, from_seq: int, stop: Callable[[], bool], interval_s: float = 0.1) -> Iterator[Event]:
        """See :meth:`agentlab.ports.Log.follow`."""
        seq = max(1, from_seq)
        while True:
            for event in self.replay(seq):
                seq = event.seq + 1
                yield event
            if stop():
                return
            self._clock.sleep(interval_s)

    def head(self) -> Head:
        """See :meth:`agentlab.ports.Log.head`."""
        if not self._length:
            return self.base
        return Head(self.base.seq + self._length, self._rows[self._length - 1].hash)

    def put_pointer(self, pointer: Pointer) -> None:
        """See :meth:`agentlab.ports.Log.put_pointer`."""
        reach(CrashPoint.POINTER_WRITE, "before", str(pointer.seq))
        self._pointers[pointer.seq] = pointer
        reach(CrashPoint.POINTER_WRITE, "after", str(pointer.seq))

    def pointers(self) -> Sequence[Pointer]:
        """See :meth:`agentlab.ports.Log.pointers`."""
        return [self._pointers[seq] for seq in sorted(self._pointers, reverse=True)]

    def seal(self) -> int:
        """Nothing to merge here; returns how many commits came since the last call, as a store on disk would."""
        ids = [row.commit_id for row in self._rows[self._sealed : self._length]]
        self._sealed = self._length
        return sum(1 for index, commit_id in enumerate(ids) if index == 0 or commit_id != ids[index - 1])

    def copy(self) -> MemoryLog:
        """An independent log with the same rows, in constant time."""
        other = MemoryLog(self._session_id, self.durability, self._clock, self.base)
        other._rows, other._length, other._synced, other._sealed = self._rows, self._length, self._synced, self._sealed
        other._pointers = dict(self._pointers)
        return other


LARGE = 4096
MOST_DIGESTS = 256


class MemoryBlobs:
    """Blobs in a dict; implements :class:`agentlab.ports.Blobs`."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}
        self._digests: dict[
            bytes, str
        ] = {}  # of large blobs, which simulations put again and again; shared with copies

    def put(self, data: bytes) -> str:
        """See :meth:`agentlab.ports.Blobs.put`."""
        digest = self.digest(data)
        reach(CrashPoint.BLOB_LINK, "before", digest)
        self._data[digest] = bytes(data)
        reach(CrashPoint.BLOB_LINK, "after", digest)
        return digest

    def get(self, digest: str) -> bytes:
        """See :meth:`agentlab.ports.Blobs.get`."""
        try:
            return self._data[digest]
        except KeyError:
            raise LogCorrupt(f"blob {digest[:80]!r} is missing") from None

    def digest(self, data: bytes) -> str:
        """What :meth:`put` would return."""
        if len(data) < LARGE or not isinstance(data, bytes):
            return hashlib.sha256(data).hexdigest()
        found = self._digests.get(data)
        if found is None:
            if len(self._digests) >= MOST_DIGESTS:
                self._digests.clear()
            found = self._digests[data] = hashlib.sha256(data).hexdigest()
        return found

    def has(self, digest: str) -> bool:
        return digest in self._data

    def copy(self) -> MemoryBlobs:
        """An independent set with the same blobs."""
        other = MemoryBlobs()
        other._data, other._digests = dict(self._data), self._digests
        return other


class MemoryStore:
    """All sessions of a lab in memory; implements :class:`agentlab.ports.LogStore`.

    ``open`` returns the one log of a session, which all its users share.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._logs: dict[str, MemoryLog] = {}
        self._parents: dict[str, Parent] = {}
        self._blobs = MemoryBlobs()

    @property
    def blobs(self) -> MemoryBlobs:
        return self._blobs

    def create(
        self, session_id: str, durability: Durability = "disk", parent: Parent | None = None
    ) -> MemoryLog | ForkedLog:
        """See :meth:`agentlab.ports.LogStore.create`."""
        folder_name(session_id)  # what could not be stored on disk is refused here too
        known_durability(durability)
        if session_id in self._logs:
            raise UserError(f"session {session_id!r} exists already: open it, or choose another id")
        base = Head(0, GENESIS) if parent is None else Head(parent.seq, parent.hash)
        self._logs[session_id] = MemoryLog(session_id, durability, self._clock, base)
        if parent is not None:
            self._parents[session_id] = parent
        return self.open(session_id)

    def open(self, session_id: str) -> MemoryLog | ForkedLog:
        """See :meth:`agentlab.ports.LogStore.open`."""
        log, parent = self._own(session_id)
        return log if parent is None else ForkedLog(log, lineage(log.base, parent, self._own), self._clock)

    def _own(self, session_id: str) -> tuple[MemoryLog, str | None]:
        if session_id not in self._logs:
            raise UnknownName("session", session_id, self._logs)
        parent = self._parents.get(session_id)
        return self._logs[session_id], None if parent is None else parent.session

    def sessions(self) -> Sequence[str]:
        """Ids of all sessions, sorted."""
        return sorted(self._logs)

    def forget_unsynced(self) -> int:
        """Model a power loss in every session; returns how many events are gone."""
        return sum(log.forget_unsynced() for log in self._logs.values())

    def copy(self) -> MemoryStore:
        """An independent lab with the same sessions and blobs."""
        other = MemoryStore(self._clock)
        other._logs = {session_id: log.copy() for session_id, log in self._logs.items()}
        other._parents = dict(self._parents)
        other._blobs = self._blobs.copy()
        return other
