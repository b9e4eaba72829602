"""Amnesia and history pasted back: how the agent goes on after a recovery."""

from __future__ import annotations

from typing import Any

from agentlab.analysis.diagnose import Evidence, Symptom, symptom, unknown
from agentlab.analysis.sources import Analysed

PASTED_SHARE = 0.7
"""Scratch of the first request after a recovery over that of the last before it, from which it is the whole history."""
LEAST_BLOCKS = 4
"""Blocks of scratch before the death below which there was no history to paste."""
_KEPT = """
SELECT session_id, seq, _text(payload, '$.strategy') AS strategy FROM events WHERE type = 'recovery_completed'
"""


def amnesia(found: Analysed) -> Symptom:
    """After loading, the agent does not know where it is, or repeats what it had done."""
    if found.frame("recoveries").empty:
        return unknown("amnesia", "nothing was recovered in these sessions")
    rows = found.sql(
        "SELECT session_id, seq, type, _bool(payload, '$.passed') AS passed FROM events"
        " WHERE type IN ('statement_checked', 'checkpoint_skipped') ORDER BY session_id, seq"
    )
    checked = rows.type == "statement_checked"
    evidence = []
    for row in rows[checked & (rows.passed == False)].itertuples():  # noqa: E712
        evidence.append(Evidence(row.session_id, (row.seq,), "the model's account did not agree with the log"))
    for row in rows[~checked].itertuples():
        evidence.append(Evidence(row.session_id, (row.seq,), "a checkpoint did not verify and was passed over"))
    evidence += _repeated(found)
    if not evidence and not checked.any():
        missing = "the model was not asked for a statement: the log has no statement_checked event"
        return unknown("amnesia", missing)
    return symptom("amnesia", evidence)


def _repeated(found: Analysed) -> list[Evidence]:
    """Calls that were asked for again right after a recovery although they had succeeded before it."""
    calls = found.frame("calls")
    evidence = []
    for row in _recovered(found):
        mine = calls[(calls.session_id == row.session_id) & (calls.effect != "builtin")]
        done = set(mine[(mine.result_seq < row.seq) & (mine.ok == True)].input_hash)  # noqa: E712
        again = mine[mine.requested_seq > row.end_seq].head(2)
        again = again[again.input_hash.isin(done)]
        if len(again):
            what = f"{', '.join(again.tool_name)} was asked for again right after the recovery, done before"
            evidence.append(Evidence(row.session_id, tuple(again.requested_seq), what))
    return evidence


def stuffed_history(found: Analysed) -> Symptom:
    """Odd progress after a recovery: the whole history was pasted back."""
    if not _recovered(found):
        return unknown("stuffed_history", "no recovery of a harness was completed in these sessions")
    turns = found.frame("turns")
    turns = turns[turns.purpose == "act"]
    told = found.sql(_KEPT).set_index(["session_id", "seq"]).strategy
    evidence, compared = [], 0
    for row in _recovered(found):
        mine = turns[turns.session_id == row.session_id]
        before, after = mine[mine.seq < row.seq].tail(1), mine[mine.seq > row.end_seq].head(1)
        if before.empty or after.empty or before.scratch_blocks.iloc[0] < LEAST_BLOCKS:
            continue
        compared += 1
        was, now = int(before.scratch_tokens.iloc[0]), int(after.scratch_tokens.iloc[0])
        if now > was * PASTED_SHARE:
            strategy = told.get((row.session_id, row.end_seq))
            how = f" (strategy {strategy})" if isinstance(strategy, str) else ""
            what = f"scratch held {was:,} estimated tokens before the death and {now:,} after the recovery{how}"
            evidence.append(Evidence(row.session_id, (int(before.seq.iloc[0]), int(after.seq.iloc[0])), what))
    if not compared:
        missing = "no recovery has a request on both sides of it with a history worth the name before it"
        return unknown("stuffed_history", missing)
    return symptom("stuffed_history", evidence)


def _recovered(found: Analysed) -> list[Any]:
    """Completed recoveries of a harness."""
    deaths = found.frame("recoveries")
    return list(deaths[(deaths.target == "harness") & deaths.completed].itertuples())
