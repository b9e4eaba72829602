"""Sessions that slow each other, or wait for each other."""

from __future__ import annotations

from agentlab.analysis.diagnose import Evidence, Symptom, symptom, unknown
from agentlab.analysis.sources import Analysed, Frame

SLOW_FACTOR = 2.0
"""Latency with other sessions at work over latency alone, from which sessions slow each other."""
ENOUGH = 10
"""Calls on each side that a comparison of latencies needs."""
WAIT_SHARE = 0.2
"""Share of its time that a session may wait in the lab's queue before it is worth a word."""
_WAITS = """
SELECT q.session_id, q.seq, coalesce(TRY_CAST(_text(a.payload, '$.waited_s') AS DOUBLE), _seconds(q.ts, coalesce(a.ts, s.last_at)))
    AS waited_s, s.wall_s
FROM (FROM events WHERE type = 'session_queued') q
ASOF LEFT JOIN (FROM events WHERE type IN ('session_admitted', 'session_queued', 'session_paused')) a
    ON q.session_id = a.session_id AND q.seq < a.seq
JOIN sessions s ON s.session_id = q.session_id ORDER BY q.session_id, q.seq
"""


def crowding(found: Analysed) -> Symptom:
    """Sessions slow each other: tools take longer beside other sessions, or sessions stand in the queue."""
    sessions, calls = found.frame("sessions"), found.frame("calls").dropna(subset=["latency_s"])
    evidence = _waiting(found)
    if evidence:
        return symptom("crowding", evidence)
    if len(sessions) < 2:
        return unknown("crowding", "one session alone can not tell: pass several or the lab")
    alone, crowded = _by_company(sessions, calls)
    if min(len(alone), len(crowded)) < ENOUGH:
        return unknown("crowding", f"needs {ENOUGH} tool calls with and without other sessions at work")
    for tool in sorted(set(alone.tool_name) & set(crowded.tool_name)):
        few, many = alone[alone.tool_name == tool], crowded[crowded.tool_name == tool]
        was, now = few.latency_s.median(), many.latency_s.median()
        if min(len(few), len(many)) >= ENOUGH // 2 and now > was * SLOW_FACTOR:
            worst = many.loc[many.latency_s.idxmax()]
            what = f"{tool} takes {now:.2g} s beside other sessions, {was:.2g} s alone"
            evidence.append(Evidence(worst.session_id, (int(worst.result_seq),), what))
    return symptom("crowding", evidence)


def _waiting(found: Analysed) -> list[Evidence]:
    waits = found.sql(_WAITS)
    evidence = []
    for session_id, group in waits.groupby("session_id"):
        waited, wall = float(group.waited_s.sum()), float(group.wall_s.iloc[0])
        if waited > wall * WAIT_SHARE:
            what = f"waited {waited:.2g} s of {wall:.2g} s for a place in the lab"
            evidence.append(Evidence(session_id, tuple(group.seq), what))
    return evidence


def _by_company(sessions: Frame, calls: Frame) -> tuple[Frame, Frame]:
    """Calls during which no other session was active, and the others."""
    import numpy as np

    begins = np.sort(sessions.started_at.dt.tz_localize(None).to_numpy())
    ends = np.sort(sessions.last_at.dt.tz_localize(None).to_numpy())
    at = calls.ended_at.dt.tz_localize(None).to_numpy()
    active = np.searchsorted(begins, at, side="right") - np.searchsorted(ends, at, side="left")
    return calls[active <= 1], calls[active > 1]
