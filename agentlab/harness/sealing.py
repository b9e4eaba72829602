"""Sealing: when a session has ended, its many small commits become one segment, or a few.

Nothing depends on it but the speed of readers. The end is in the log and acknowledged before it begins, it is safe
at every crash point (see :mod:`agentlab.log.segments`), and what fails in it is a remark in the harness's output:
:meth:`agentlab.lab.Lab.seal` does it again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agentlab.crashpoints import CrashPoint, reach
from agentlab.log.store import ParquetStore


def seal_ended(lab: Path, session_id: str) -> int:
    """Merge the commits of a session that has ended; returns how many were covered. Never raises an error."""
    reach(CrashPoint.SEAL, "before", session_id)
    try:
        covered = ParquetStore(lab).open(session_id).seal()
    except Exception as error:  # the session has ended well: a full disk or a damaged row must not make it a crash
        print(f"agentlab: session {session_id!r} has ended, but is not sealed: {error}", file=sys.stderr, flush=True)
        return 0
    reach(CrashPoint.SEAL, "after", session_id)
    return covered
