"""Checkpoints that cost more than they save."""

from __future__ import annotations

from agentlab.analysis.diagnose import Evidence, Symptom, symptom, unknown
from agentlab.analysis.sources import Analysed
from agentlab.interval import recommend

LEAST = 3
"""Checkpoints that a session must have before their frequency says anything."""
COST_SHARE = 0.05
"""Share of a session's busy time that checkpoints may take."""
NEAR_FACTOR = 2.0
"""How much longer than the real one Daly's interval must be."""


def frequent_checkpoints(found: Analysed) -> Symptom:
    """Checkpoints are written more often than what a crash would lose is worth.

    The time between deaths is the session's busy time over its deaths plus one: a session without a death is taken to
    have had one at its end, the least favourable that its log allows.
    """
    checkpoints = found.frame("checkpoints").dropna(subset=["duration_s"])
    busy = _busy(found)
    evidence, judged = [], 0
    deaths = found.frame("recoveries").groupby("session_id").size()
    for session_id, group in checkpoints.groupby("session_id"):
        work, cost = busy.get(session_id, 0.0), float(group.duration_s.sum())
        if len(group) < LEAST or work <= 0 or cost <= 0:
            continue
        judged += 1
        died = int(deaths.get(session_id, 0))
        every, each, apart = work / len(group), cost / len(group), (work + cost) / (died + 1)
        wanted = recommend(each, apart, work=work).tau
        if cost > COST_SHARE * (work + cost) and wanted > every * NEAR_FACTOR:
            shown = "none at all" if wanted == float("inf") else f"one every {wanted:.2g} s"
            what = (
                f"{len(group)} checkpoints took {cost / (work + cost):.0%} of the busy time, {each:.2g} s each, one every"
                f" {every:.2g} s of work; for {died} death{'s' if died != 1 else ''} Daly's interval says {shown}"
            )
            evidence.append(Evidence(session_id, tuple(group.seq), what))
    if not judged:
        missing = f"no session has {LEAST} checkpoints with a duration, and work beside them"
        return unknown("frequent_checkpoints", missing)
    return symptom("frequent_checkpoints", evidence)


def _busy(found: Analysed) -> dict[str, float]:
    """Seconds in which models and tools were at work, by session."""
    calls, turns = found.frame("calls"), found.frame("turns")
    total = calls.groupby("session_id").latency_s.sum().add(turns.groupby("session_id").latency_s.sum(), fill_value=0.0)
    return {str(name): float(value) for name, value in total.items()}
