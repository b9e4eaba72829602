"""What power loss may leave of a session that was not synced at every append, and how to go on from there."""

from __future__ import annotations

import os

from agentlab.errors import LogCorrupt, UserError
from agentlab.log.commits import CommitFolder
from agentlab.log.files import sync_folder
from agentlab.log.parquet import COMMITS, SEGMENTS, ParquetLog
from agentlab.log.segments import Segments

TORN = "torn"


def set_aside_torn_tail(log: ParquetLog) -> list[int]:
    """Move the first commit that does not verify, and all after it, to the session's folder ``torn``.

    For a person to ask for after power loss, while nothing else uses the session. Only commits that durability
    ``group`` or ``process`` never promised to keep can be torn; in a ``disk`` session damage is damage and stays
    where it is. Open the session anew afterwards. Returns the seqs at which the moved commits begin.

    Raises:
        UserError: the session's durability is ``disk``.
        LogCorrupt: a segment is damaged; segments are always synced, so this is no torn tail.
    """
    if log.durability == "disk":
        raise UserError(
            f"session {log.session_id!r} is synced at every append: what does not verify there was damaged later;"
            " restore it from a copy"
        )
    segments = Segments(os.path.join(log.folder, SEGMENTS), log.session_id, log.disk, log.base.seq)
    commits = CommitFolder(os.path.join(log.folder, COMMITS), log.session_id)
    segments.refresh()
    seq = segments.end + 1
    previous = segments.load(segments.end)[-1].hash if segments.end > log.base.seq else None
    try:
        while events := commits.load(seq, previous):
            seq, previous = events[-1].seq + 1, events[-1].hash
    except LogCorrupt:
        pass
    torn = [start for start in commits.starts() if start >= seq]
    if torn:
        away = os.path.join(log.folder, TORN)
        os.makedirs(away, exist_ok=True)
        for start in reversed(torn):  # the newest first: dying in between leaves no hole
            path = commits.path(start)
            os.replace(path, os.path.join(away, os.path.basename(path)))
        sync_folder(log.disk, commits.folder)
    return torn
