"""Inputs: what people and owners append to a session at any time, each with an id, each counted once."""

from __future__ import annotations

from agentlab.clock import Clock
from agentlab.errors import Conflict, OutcomeUnknown
from agentlab.events import GENESIS, KINDS, Draft, Event, Head, seal
from agentlab.ids import Ids
from agentlab.ports import Log

_RACES = 1000


def append_input(log: Log, drafts: tuple[Draft, ...], clock: Clock, ids: Ids) -> tuple[Event, ...]:
    """Append input events at the head of a log; a lost race is tried again at the next seq.

    Raises:
        StorageFailed: the log could not be written.
    """
    assert all(KINDS[draft.type].cls == "input" for draft in drafts)
    commit_id = ids.new("k")
    head = log.head()
    for _ in range(_RACES):
        newest = next(iter(log.replay(head.seq, head.seq)), None)
        incarnation = newest.incarnation if newest is not None else 0
        events = seal(
            drafts,
            head,
            session_id=log.session_id,
            incarnation=incarnation,
            commit_id=commit_id,
            now_us=clock.now_us(),
        )
        try:
            log.append(events, head.seq + 1)
            return events
        except (Conflict, OutcomeUnknown):
            found = next(iter(log.replay(head.seq + 1, head.seq + 1)), None)
            if found is not None and found.commit_id == commit_id:
                return events
            head = _advance(log, head)
    raise Conflict(log.session_id, head.seq + 1)


def _advance(log: Log, head: Head) -> Head:
    newer = log.poll(head.seq)
    return Head(newer[-1].seq, newer[-1].hash) if newer else log.head() or Head(0, GENESIS)
