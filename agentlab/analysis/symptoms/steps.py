"""The slowest step, the step that fails most, tools that fail more often than not."""

from __future__ import annotations

from agentlab.analysis.diagnose import Evidence, Symptom, symptom, told, unknown
from agentlab.analysis.sources import Analysed

FAILS = 3
"""Failures from which a tool or step is called failing, when they are more than half of its calls."""
_STEPS = """
SELECT b.session_id, b.step, _text(b.payload, '$.step_id') AS name, b.seq, e.seq AS end_seq,
    _seconds(b.ts, coalesce(e.ts, s.last_at)) AS seconds, s.wall_s, e.type = 'step_completed' AS completed
FROM (FROM events WHERE type = 'step_started' AND NOT superseded) b
ASOF LEFT JOIN (FROM events WHERE type IN ('step_completed', 'step_started', 'session_ended', 'session_paused')) e
    ON b.session_id = e.session_id AND b.seq < e.seq
JOIN sessions s ON s.session_id = b.session_id ORDER BY b.session_id, b.seq
"""


def slowest_step(found: Analysed) -> Symptom:
    """Which step took the longest, in each session."""
    steps = found.sql(_STEPS)
    if steps.empty:
        return unknown("slowest_step", "no step was begun in these sessions")
    evidence = []
    for session_id, group in steps.groupby("session_id"):
        total = group.groupby("step").seconds.sum()
        number = total.idxmax()
        mine = group[group.step == number]
        seqs = sorted({int(n) for n in [*mine.seq, *mine.end_seq.dropna()]})
        share = total[number] / max(float(group.wall_s.iloc[0]), 1e-9)
        what = f"step {number} ({mine.name.iloc[0]}) took {total[number]:.3g} s, {share:.0%} of the whole"
        evidence.append(Evidence(session_id, tuple(seqs), what))
    return told("slowest_step", evidence)


def failing_step(found: Analysed) -> Symptom:
    """Which step has the most failed calls, in each session; a symptom when most of its calls fail."""
    calls = found.frame("calls").dropna(subset=["ok", "step"])
    if calls.empty:
        return unknown("failing_step", "no call of a step has ended in these sessions")
    names = found.sql(_STEPS).drop_duplicates(["session_id", "step"]).set_index(["session_id", "step"]).name
    bad: list[Evidence] = []
    noted: list[Evidence] = []
    for session_id, group in calls.groupby("session_id"):
        failures = group[group.ok == False].groupby("step").size()  # noqa: E712
        if failures.empty:
            continue
        number = failures.idxmax()
        mine = group[group.step == number]
        failed = mine[mine.ok == False]  # noqa: E712
        name = names.get((session_id, number), "?")
        what = f"step {number} ({name}): {len(failed)} of {len(mine)} calls failed"
        serious = len(failed) >= FAILS and len(failed) > len(mine) / 2
        (bad if serious else noted).append(Evidence(session_id, tuple(failed.result_seq), what))
    if bad or not noted:
        return symptom("failing_step", [*bad, *noted] if bad else [])
    return told("failing_step", noted)


def failing_tool(found: Analysed) -> Symptom:
    """A tool fails more often than it succeeds."""
    calls = found.frame("calls").dropna(subset=["ok"])
    if calls.empty:
        return unknown("failing_tool", "no tool call has ended in these sessions")
    evidence = []
    for (session_id, tool), group in calls.groupby(["session_id", "tool_name"]):
        bad = group[group.ok == False]  # noqa: E712
        if len(bad) >= FAILS and len(bad) > len(group) / 2:
            kind = bad.error_type.fillna("unknown").mode().iloc[0]
            what = f"{tool} failed {len(bad)} of {len(group)} times, mostly {kind}"
            evidence.append(Evidence(session_id, tuple(bad.result_seq), what))
    return symptom("failing_tool", evidence)
