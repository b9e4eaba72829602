"""Sealing of a whole lab: every session that has ended and still lies in many small files."""

from __future__ import annotations

from agentlab.errors import AgentlabError
from agentlab.log.store import ParquetStore
from agentlab.ports import Log

LOOK_BACK = 50
"""Events before the newest in which the end is looked for; inputs may come after it."""


def seal_sessions(store: ParquetStore) -> int:
    """Merge the commits of all sessions of ``store`` that have ended; returns how many files were merged."""
    merged = 0
    for session_id in store.sessions():
        try:
            log = store.open(session_id)
            if log.loose() and _ended(log):
                merged += log.seal()
        except AgentlabError:  # one that is damaged hides no other
            continue
    return merged


def _ended(log: Log) -> bool:
    newest = log.replay(max(1, log.head().seq - LOOK_BACK))
    return any(event.type == "session_ended" for event in newest)
