"""A session's log in a folder of Parquet files.

``link`` is the compare-and-swap: the commit that begins at a seq can be created once. Everything a reader needs
to know is in file names (where a commit or segment begins) and footers (where a segment ends); nothing is
locked, and the write path lists no folder.

What each durability promises:

* ``disk``: the file is synced before it gets its name and the folder after; an append that returned survives
  power loss.
* ``group``: an append that returned survives SIGKILL; after :meth:`ParquetLog.flush`, which also runs by itself at
  every ``group_size``-th append, all before it survives power loss. Acknowledge to others only after a flush.
  Power loss can leave unflushed commits torn; they read as :class:`~agentlab.errors.LogCorrupt` until
  :func:`agentlab.log.repair.set_aside_torn_tail` is asked to move them away.
* ``process``: never synced; survives SIGKILL, and power loss as luck will have it (the same remedy applies).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from agentlab.clock import Clock, SystemClock
from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import Conflict, LogCorrupt, OutcomeUnknown
from agentlab.events import GENESIS, Event, Head
from agentlab.events.codec import encode
from agentlab.log.batch import commit_id_of, hole
from agentlab.log.commits import CommitFolder
from agentlab.log.files import COMMIT_POINTS, DISK, Disk, discard, publish, sweep, sync_folder
from agentlab.log.pointers import PointerFolder
from agentlab.log.segments import Segments
from agentlab.ports import Durability, Pointer

COMMITS, SEGMENTS, CHECKPOINTS = "commits", "segments", "checkpoints"
GROUP_SIZE = 16
"""Appends after which a ``group`` session is flushed by itself."""


class ParquetLog:
    """The log of one session; implements :class:`agentlab.ports.Log`. Made by a :class:`~agentlab.log.ParquetStore`.

    An instance belongs to one thread. It remembers the newest row it has seen, nothing else.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        session_id: str,
        durability: Durability,
        *,
        disk: Disk = DISK,
        clock: Clock | None = None,
        group_size: int = GROUP_SIZE,
        base: Head = Head(0, GENESIS),  # noqa: B008
    ) -> None:
        self.folder = os.fspath(folder)
        self.durability: Durability = durability
        self._session_id = session_id
        self.base = base
        self.disk, self._clock = disk, clock or SystemClock()
        self._commits = CommitFolder(os.path.join(self.folder, COMMITS), session_id)
        self._segments = Segments(os.path.join(self.folder, SEGMENTS), session_id, disk, base.seq)
        self._pointers = PointerFolder(os.path.join(self.folder, CHECKPOINTS), disk, durability != "process")
        self._head: Head | None = None
        self._unsynced: list[str] = []
        self._group_size = group_size
        self._swept = False

    @property
    def session_id(self) -> str:
        return self._session_id

    # --- appending -------------------------------------------------------------------------------------------------

    def append(self, events: Sequence[Event], expected_seq: int) -> None:
        """Make ``events`` durable as one commit at ``expected_seq``; see :meth:`agentlab.ports.Log.append`."""
        commit_id = commit_id_of(events, expected_seq, self._session_id)
        if not self._swept:
            self.orphans()
        if self._taken(expected_seq):
            self._settle(events, commit_id)
            return
        path = self._commits.path(expected_seq)
        detail = str(expected_seq)
        durable = self.durability == "disk"
        try:
            tmp = publish(self.disk, path, encode(events), COMMIT_POINTS, durable=durable, detail=detail)
        except FileExistsError:
            self._settle(events, commit_id)
            return
        self._segments.refresh()
        if self._segments.covers(expected_seq):
            # We slept while this seq was written by another, sealed and removed; readers pass over what we linked.
            discard(self.disk, path)
            discard(self.disk, tmp)
            self._settle(events, commit_id)
            return
        self._head = Head(events[-1].seq, events[-1].hash)
        if self.durability == "group":
            self._unsynced.append(path)
            if len(self._unsynced) >= self._group_size:
                self.flush()
        reach(CrashPoint.LOG_UNLINK, "before", detail)
        discard(self.disk, tmp)
        reach(CrashPoint.LOG_UNLINK, "after", detail)

    def flush(self) -> None:
        """Make every append of this instance survive power loss (``group``; nothing to do for the others).

        Raises:
            OutcomeUnknown: an fsync failed; what was appended since the last flush may not survive. The files are
                not synced again: the log must be read anew.
        """
        if not self._unsynced:
            return
        paths, self._unsynced = self._unsynced, []
        for path in paths:
            try:
                fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            except FileNotFoundError:
                continue  # sealed meanwhile, and segments are always synced
            try:
                reach(CrashPoint.LOG_FSYNC, "before")
                self.disk.fsync(fd)
                reach(CrashPoint.LOG_FSYNC, "after")
            except OSError as error:
                raise OutcomeUnknown(f"{path}: fsync failed ({error.strerror}); it may be lost") from error
            finally:
                os.close(fd)
        sync_folder(self.disk, self._commits.folder, CrashPoint.LOG_DIRSYNC)

    def _taken(self, seq: int) -> bool:
        """Whether ``seq`` is surely taken; ``link`` decides when it is not."""
        if seq == self.base.seq + 1 or (self._head is not None and self._head.seq == seq - 1):
            return False
        head = self.head()
        if seq > head.seq + 1:
            raise hole(self._session_id, seq, head.seq)
        return seq <= head.seq

    def _settle(self, events: Sequence[Event], commit_id: str) -> None:
        """Somebody has this seq: we, in an earlier try whose answer was lost, or another writer."""
        seq = events[0].seq
        found = self._load(seq, inside=True)
        if not found or found[0].commit_id != commit_id:
            raise Conflict(self._session_id, seq)
        if self.durability == "disk":
            sync_folder(self.disk, self._commits.folder, CrashPoint.LOG_DIRSYNC, str(seq))
        elif self.durability == "group":
            self._unsynced.append(self._commits.path(seq))
        if self._head is None or self._head.seq < events[-1].seq:
            self._head = Head(events[-1].seq, events[-1].hash)

    # --- reading ---------------------------------------------------------------------------------------------------

    def replay(self, from_seq: int = 1, to_seq: int | None = None) -> Iterator[Event]:
        """Verified events in order; see :meth:`agentlab.ports.Log.replay`. Lists once, at the end, to find a hole."""
        seq, previous = max(self.base.seq + 1, from_seq), None
        inside = True
        while to_seq is None or seq <= to_seq:
            events = self._load(seq, previous, inside)
            if events is None:
                if not self._beyond(seq):
                    return
                events = self._load(seq, previous, inside)
                if events is None:
                    raise LogCorrupt(f"session {self._session_id!r}: event {seq} is missing, later ones are there")
            for event in events:
                if to_seq is not None and event.seq > to_seq:
                    return
                yield event
            last = events[-1]
            if self._head is None or self._head.seq < last.seq:
                self._head = Head(last.seq, last.hash)
            seq, previous, inside = last.seq + 1, last.hash, False

    def poll(self, head: int) -> Sequence[Event]:
        """Events after ``head``, without a listing; see :meth:`agentlab.ports.Log.poll`."""
        if self._head is None:
            self.head()
        known = self._head
        if known is not None and head < known.seq:
            return list(self.replay(head + 1))
        head = max(head, self.base.seq)
        out: list[Event] = []
        previous = known.hash if known is not None and known.seq == head and head else None
        while events := self._load(head + 1, previous):
            out += events
            head, previous = events[-1].seq, events[-1].hash
        if out:
            self._head = Head(out[-1].seq, out[-1].hash)
        return out

    def follow(self, from_seq: int, stop: Callable[[], bool], interval_s: float = 0.1) -> Iterator[Event]:
        """Events as they land, until ``stop()`` at a quiet moment; see :meth:`agentlab.ports.Log.follow`."""
        seq = max(self.base.seq + 1, from_seq)
        while True:
            fresh = [event for event in self.poll(seq - 1) if event.seq >= seq]
            yield from fresh
            if fresh:
                seq = fresh[-1].seq + 1
            elif stop():
                return
            else:
                self._clock.sleep(interval_s)

    def head(self) -> Head:
        """The newest row. The first call lists the commits once, later ones go on from what they know."""
        if self._head is None:
            self._head = self._find_head()
        self.poll(self._head.seq)
        return self._head

    def commit_files(self) -> list[tuple[str, int]]:
        """The files that make up the session now, as path and first seq, each event in exactly one of them.

        For readers that take a list of files. Sealing may remove a commit before it is opened: ask again then.
        """
        commits = self._commits.starts()  # before the segments: what sealing removed meanwhile is in one of them
        self._segments.refresh()
        loose = [(self._commits.path(start), start) for start in commits if not self._segments.covers(start)]
        return self._segments.files() + loose

    def _load(self, seq: int, previous: str | None = None, inside: bool = False) -> list[Event] | None:
        """Events from ``seq`` to the end of the file that holds it; None when there is none yet.

        Only with ``inside`` a commit that begins before ``seq`` is looked for, which lists the folder.
        """
        if not self._segments.covers(seq):
            events = self._commits.load(seq, previous)
            if events is None and inside and seq > self.base.seq + 1:
                events = self._containing(seq)
            # After reading, not before: a commit counts only while no segment covers it.
            self._segments.refresh()
            if not self._segments.covers(seq):
                return events
        return self._segments.load(seq, previous)

    def _containing(self, seq: int) -> list[Event] | None:
        before = [start for start in self._commits.starts() if start < seq]
        events = self._commits.load(before[-1]) if before else None
        return [event for event in events if event.seq >= seq] or None if events else None

    def _beyond(self, seq: int) -> bool:
        return any(start > seq for start in self._commits.starts()) or self._segments.beyond(seq)

    def _find_head(self) -> Head:
        while True:
            loose = self._commits.starts()
            self._segments.refresh()
            end = self._segments.end
            if loose and loose[-1] > end:
                last = self._commits.load(loose[-1])
                if last is None:
                    continue  # sealed between the listing and the opening
            elif end > self.base.seq:
                last = self._segments.load(end)
            else:
                return self.base
            return Head(last[-1].seq, last[-1].hash)

    # --- pointers, sealing, cleaning -------------------------------------------------------------------------------

    def put_pointer(self, pointer: Pointer) -> None:
        """Store a checkpoint pointer; raises what :meth:`PointerFolder.put` raises."""
        self._pointers.put(pointer)

    def pointers(self) -> Sequence[Pointer]:
        """The newest readable pointers, newest first."""
        return self._pointers.newest()

    def loose(self) -> int:
        """How many files :meth:`seal` would merge or remove. Lists the folder."""
        return len(self._commits.starts())

    def seal(self) -> int:
        """Merge commits into a segment; raises what :meth:`Segments.seal` raises."""
        return self._segments.seal(self._commits)

    def orphans(self) -> int:
        """Remove temporary files of writers that died over an hour ago; returns how many. The first append does it."""
        self._swept = True
        return sum(sweep(os.path.join(self.folder, name)) for name in (COMMITS, SEGMENTS, CHECKPOINTS))
