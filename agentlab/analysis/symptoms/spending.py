"""Calls without a limit, budgets that trip, estimates that are off."""

from __future__ import annotations

from agentlab.analysis.diagnose import Evidence, Symptom, symptom, unknown
from agentlab.analysis.sources import Analysed, Frame

TOO_LOW, TOO_HIGH = 1.5, 1 / 3
"""Actual over estimated tokens, in the median, from which estimates are called off: too low trips in the middle of a
step, too high stops too early, which is the smaller harm."""
MANY_CALLS = 20
"""Tool calls without any limit that are worth a word beside limited tokens."""
_TOKENS = ("input_tokens", "output_tokens", "cache_tokens", "tokens")
_TRIPS = """
SELECT session_id, seq, type, coalesce(_text(payload, '$.dimension'), _text(payload, '$.detail')) AS dimension
FROM events WHERE type = 'budget_alert' OR (type = 'session_paused' AND _text(payload, '$.reason') = 'budget')
ORDER BY session_id, seq
"""
_RATIOS = """
SELECT session_id, t.seq, (t.input_tokens + coalesce(t.cache_read_tokens, 0) + coalesce(t.cache_write_tokens, 0))
    / greatest(1, coalesce(_int(e.payload, '$.estimate.input_tokens'), t.tokens_estimate)) AS ratio
FROM turns t JOIN (FROM events WHERE type = 'model_request') e USING (session_id, seq)
WHERE t.input_tokens IS NOT NULL AND t.tokens_estimate IS NOT NULL ORDER BY session_id, t.seq
"""


def unlimited_calls(found: Analysed) -> Symptom:
    """Tokens are fine while calls outside are over budget, or have none."""
    spent = found.frame("budget")
    limits = spent.dropna(subset=["limit"])
    sessions = found.frame("sessions")
    sessions = sessions[sessions.tool_calls > 0]
    if sessions.empty:
        return unknown("unlimited_calls", "no tool was called in these sessions")
    limited = {session_id: set(group.dimension) for session_id, group in limits.groupby("session_id")}
    if not any(set(_TOKENS) & known for known in limited.values()):
        return unknown("unlimited_calls", "no session limits its tokens, so nothing says that they are fine")
    evidence = []
    for row in sessions.itertuples():
        known = limited.get(row.session_id, set())
        mine = limits[limits.session_id == row.session_id]
        over = mine[mine.used > mine["limit"]]
        if not set(_TOKENS) & known or set(_TOKENS) & set(over.dimension):
            continue
        calls = [name for name in known if name == "tool_calls" or name.startswith("tool:")]
        for dimension, group in over[over.dimension.isin(calls)].groupby("dimension"):
            what = f"{dimension} went over its limit here while tokens stayed under theirs"
            evidence.append(Evidence(row.session_id, (int(group.seq.iloc[0]),), what))
        if not calls:
            evidence += _without(found, row.session_id, int(row.tool_calls))
    return symptom("unlimited_calls", evidence)


def _without(found: Analysed, session_id: str, count: int) -> list[Evidence]:
    """Calls that no limit counts, where they are many or cost more than the model."""
    calls, turns = found.frame("calls"), found.frame("turns")
    priced = calls[(calls.session_id == session_id) & (calls.cost_usd > 0)]
    tools, model = float(priced.cost_usd.sum()), float(turns[turns.session_id == session_id].cost_usd.sum())
    if tools > model:
        what = f"tools cost {tools:.4f} USD, the model {model:.4f}; no limit counts tool calls"
        return [Evidence(session_id, tuple(priced.result_seq), what)]
    if count >= MANY_CALLS:
        mine = calls[calls.session_id == session_id]
        return [Evidence(session_id, tuple(mine.requested_seq), f"{count} tool calls, none of them limited")]
    return []


def estimates_off(found: Analysed) -> Symptom:
    """The estimate of a request, before the learned safety factor, does not fit what the model really read."""
    turns = found.sql(_RATIOS).dropna(subset=["ratio"])
    if turns.empty:
        return unknown("estimates_off", "no model call has both an estimate and a usage")
    evidence = []
    for session_id, group in turns.groupby("session_id"):
        middle = group.ratio.median()
        if not TOO_HIGH <= middle <= TOO_LOW:
            worst = group.sort_values("ratio", ascending=middle < 1).head(5)
            what = f"the model read {middle:.2f} times the estimate in the median"
            evidence.append(Evidence(session_id, tuple(worst.seq), what))
    return symptom("estimates_off", evidence)


def budget_trips(found: Analysed) -> Symptom:
    """The budget trips: alerts, pauses for want of budget, limits passed."""
    rows = found.sql(_TRIPS).fillna({"dimension": "the budget"})
    spent = found.frame("budget").dropna(subset=["limit"])
    if rows.empty and spent.empty:
        return unknown("budget_trips", "nothing is limited in these sessions")
    ratios = found.sql(_RATIOS).dropna(subset=["ratio"]).groupby("session_id").ratio.median()
    evidence = []
    for (session_id, dimension), group in rows.groupby(["session_id", "dimension"]):
        times = "once" if len(group) == 1 else f"{len(group)} times"
        what = f"{dimension} tripped {times}{_beside(ratios, session_id)}"
        evidence.append(Evidence(session_id, tuple(group.seq), what))
    for (session_id, dimension), group in spent[spent.used > spent["limit"]].groupby(["session_id", "dimension"]):
        share = group.used.iloc[-1] / max(float(group["limit"].iloc[-1]), 1e-9)
        what = f"{dimension} went over its limit here, to {share:.0%} in the end"
        evidence.append(Evidence(session_id, (group.seq.iloc[0],), what))
    return symptom("budget_trips", evidence)


def _beside(ratios: Frame, session_id: str) -> str:
    ratio = ratios.get(session_id)
    return "" if ratio is None else f"; the model read {ratio:.2f} times the estimate in the median"
