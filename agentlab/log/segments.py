"""Sealed segments: many commits merged into one file, and how that stays safe at every crash point.

A segment begins where the last one ended and is named by its first seq, so ``link`` decides between two
compactors. It is written, synced, linked and its folder synced before any commit it covers is removed. Readers
pass over commits that a segment covers; so does a writer that was stopped in between: it may still win the name
of a commit that was sealed and removed, looks for a segment afterwards, finds it, and has lost.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence

from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import LogCorrupt
from agentlab.events import Event
from agentlab.events.codec import encode, end_seq
from agentlab.log.commits import CommitFolder, read_events, starts
from agentlab.log.files import SEGMENT_POINTS, Disk, discard, publish, sync_folder
from agentlab.log.paths import file_name

MAX_EVENTS = 20_000
MAX_BYTES = 64 << 20
"""Payload characters after which a segment is closed and the next one begins."""


class Segments:
    """The chain of segments of one session, as far as this process has seen it."""

    def __init__(self, folder: str, session_id: str, disk: Disk, base: int = 0) -> None:
        self.folder, self.session_id, self._base = folder, session_id, base
        self._disk = disk
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def end(self) -> int:
        """The last seq that a known segment covers; where the session's own rows begin after when there is none."""
        return self._ends[-1] if self._ends else self._base

    def path(self, start: int) -> str:
        """Where the segment that begins at ``start`` is or would be."""
        return os.path.join(self.folder, file_name(start))

    def refresh(self) -> bool:
        """Look for segments after the last known one: one failing open, no listing. True when there is a new one.

        Raises:
            LogCorrupt: a segment whose footer can not be read.
        """
        found = False
        while True:
            start = self.end + 1
            try:
                end = end_seq(self.path(start))
            except FileNotFoundError:
                return found
            if end < start:
                raise LogCorrupt(f"{self.path(start)}: says it ends at {end}")
            self._starts.append(start)
            self._ends.append(end)
            found = True

    def covers(self, seq: int) -> bool:
        """Whether a known segment holds ``seq``."""
        return self._base < seq <= self.end

    def load(self, seq: int, previous: str | None = None) -> list[Event]:
        """The events from ``seq`` to the end of its segment, which must be known (:meth:`covers`)."""
        index = bisect.bisect_right(self._starts, seq) - 1
        path = self.path(self._starts[index])
        try:
            events = read_events(path, self.session_id, from_seq=seq, previous=previous)
        except FileNotFoundError:
            raise LogCorrupt(f"{path}: the segment is gone") from None
        if not events or events[0].seq != seq or events[-1].seq != self._ends[index]:
            raise LogCorrupt(f"{path}: does not hold events {seq} to {self._ends[index]}")
        return events

    def files(self) -> list[tuple[str, int]]:
        """Path and first seq of every known segment."""
        return [(self.path(start), start) for start in self._starts]

    def beyond(self, seq: int) -> bool:
        """Whether any segment begins after ``seq``. Lists the folder."""
        return any(start > seq for start in starts(self.folder))

    def seal(self, commits: CommitFolder) -> int:
        """Merge the commits after the last segment into new ones; returns how many commits were covered.

        Raises:
            LogCorrupt: a commit that does not verify; nothing is removed.
            StorageFailed: the disk refused; nothing is removed.
            OutcomeUnknown: the new segment may not survive; nothing is removed.
        """
        self.refresh()
        covered = 0
        while batch := _gather(commits, self.end + 1):
            start = self.end + 1
            events = [event for commit in batch for event in commit]
            try:
                data = encode(events, sealed=True)
                tmp = publish(self._disk, self.path(start), data, SEGMENT_POINTS, durable=True, detail=str(start))
            except FileExistsError:  # another compactor was first; its segment counts
                self.refresh()
                continue
            reach(CrashPoint.SEGMENT_UNLINK, "before", str(start))
            discard(self._disk, tmp)
            reach(CrashPoint.SEGMENT_UNLINK, "after", str(start))
            covered += len(batch)
            self.refresh()
        self._clean(commits)
        return covered

    def _clean(self, commits: CommitFolder) -> None:
        covered = [start for start in commits.starts() if start <= self.end]
        if covered:
            # The segment may be another compactor's that died before it synced the folder.
            sync_folder(self._disk, self.folder, CrashPoint.SEGMENT_DIRSYNC)
        for start in covered:
            reach(CrashPoint.SEGMENT_CLEAN, "before", str(start))
            discard(self._disk, commits.path(start))
            reach(CrashPoint.SEGMENT_CLEAN, "after", str(start))


def _gather(commits: CommitFolder, start: int) -> Sequence[list[Event]]:
    batch: list[list[Event]] = []
    count = size = 0
    previous = None
    while count < MAX_EVENTS and size < MAX_BYTES:
        events = commits.load(start, previous)
        if events is None:
            break
        batch.append(events)
        count += len(events)
        size += sum(len(event.payload_text) for event in events)
        start, previous = events[-1].seq + 1, events[-1].hash
    return batch
