"""Drift, doubled effects, dead loops: what the agent does."""

from __future__ import annotations

from agentlab.analysis.diagnose import Evidence, Symptom, symptom, unknown
from agentlab.analysis.sources import Analysed, Frame

LOOP_TIMES = 3
"""Equal calls within :data:`LOOP_WINDOW` calls that count as going round."""
LOOP_WINDOW = 10
_DRIFT = """
SELECT session_id, seq, type, coalesce(TRY_CAST(_text(payload, '$.distance') AS DOUBLE),
    TRY_CAST(_text(payload, '$.layers.task.drift') AS DOUBLE)) AS distance,
    TRY_CAST(_text(payload, '$.threshold') AS DOUBLE) AS threshold
FROM events WHERE type = 'drift_measured' OR (type = 'model_request' AND contains(payload, '"drift"'))
ORDER BY session_id, seq
"""


def drift(found: Analysed) -> Symptom:
    """Answers move away from the goal over the rounds: distances over the threshold."""
    rows = found.sql(_DRIFT).dropna(subset=["distance"])
    if rows.empty:
        return unknown("drift", "drift was not measured: too few rounds, or none that says what it is about")
    evidence = []
    told = rows[(rows.type == "drift_measured") & (rows.distance > rows.threshold)]
    for session_id, group in told.groupby("session_id"):
        what = f"distance up to {group.distance.max():.2f} over the threshold {group.threshold.iloc[0]:.2f}"
        evidence.append(Evidence(session_id, tuple(group.seq), what))
    return symptom("drift", evidence)


def doubled_effects(found: Analysed) -> Symptom:
    """The same thing was done outside more than once, or nobody can tell."""
    rows = found.frame("effects")
    if rows.empty:
        return unknown("doubled_effects", "no external effect was registered in these sessions")
    evidence = []
    for (session_id, tool, _), group in rows[rows.state == "completed"].groupby(
        ["session_id", "tool_name", "input_hash"]
    ):
        if len(group) > 1:
            what = f"{tool} completed {len(group)} times with equal input"
            evidence.append(Evidence(session_id, tuple(group.completed_seq), what))
    evidence += _blind(found, rows)
    for row in rows[rows.state == "in_doubt"].itertuples():
        evidence.append(Evidence(row.session_id, (row.seq,), f"{row.tool_name} is in doubt: nobody has decided yet"))
    for row in rows[rows.decision == "retry"].itertuples():
        what = f"{row.tool_name} was in doubt and a person let it be done again"
        evidence.append(Evidence(row.session_id, (row.seq,), what))
    return symptom("doubled_effects", evidence)


def _blind(found: Analysed, rows: Frame) -> list[Evidence]:
    """Begun again without a look at the outside: a risk even when the record holds one completion."""
    blind = rows[(rows.tries > 1) & (rows.verified == 0) & rows.decision.isna()]
    if blind.empty:
        return []
    failed = found.sql("SELECT session_id, effect_key FROM events WHERE type = 'effect_failed'")
    evidence = []
    for row in blind.itertuples():
        said = ((failed.session_id == row.session_id) & (failed.effect_key == row.effect_key)).sum()
        if said < row.tries - 1:
            what = f"{row.tool_name} was begun {row.tries} times and never verified"
            evidence.append(Evidence(row.session_id, (row.seq,), what))
    return evidence


def repetition(found: Analysed) -> Symptom:
    """The same action again and again."""
    calls = found.frame("calls")
    evidence = []
    for session_id, group in calls[calls.reused == False].groupby("session_id"):  # noqa: E712
        numbered = group.assign(n=range(len(group)))
        for (tool, _), same in numbered.groupby(["tool_name", "input_hash"]):
            if len(same) >= LOOP_TIMES and (same.n.diff(LOOP_TIMES - 1) <= LOOP_WINDOW).any():
                what = f"{tool} {len(same)} times with equal input"
                evidence.append(Evidence(session_id, tuple(same.requested_seq), what))
    for row in found.frame("guard").itertuples():
        evidence.append(Evidence(row.session_id, (row.seq,), f"the guard found {row.rule} and chose {row.action}"))
    return symptom("repetition", evidence)
