"""The checks behind :func:`agentlab.analysis.diagnose`: one function for each known symptom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentlab.analysis.advice import ADVICE
from agentlab.analysis.diagnose import Evidence, Symptom
from agentlab.analysis.sources import Analysed, Frame

LOOP_TIMES = 3
"""Equal calls within :data:`LOOP_WINDOW` calls that count as going round."""
LOOP_WINDOW = 10
OFF_FACTOR = 1.5
"""Actual over estimated tokens, in the median, from which estimates are called off."""
HEAVY_FACTOR = 1.5
"""First request after a recovery over the last before it, from which the history is called pasted back."""
SLOW_FACTOR = 2.0
"""Latency with other sessions at work over latency alone, from which sessions slow each other."""
ENOUGH = 10
"""Calls on each side that a comparison of latencies needs."""


def _symptom(name: str, evidence: Sequence[Evidence]) -> Symptom:
    title, cause, look_at, cure = ADVICE[name]
    if not evidence:
        return Symptom(name, title, "clear")
    return Symptom(name, title, "found", tuple(evidence), cause, look_at, cure)


def _unknown(name: str, missing: str) -> Symptom:
    return Symptom(name, ADVICE[name].title, "unknown", missing=missing)


def drift(found: Analysed) -> Symptom:
    """Answers move away from the goal over the rounds."""
    rows = found.sql(
        "SELECT session_id, seq, TRY_CAST(_text(payload, '$.distance') AS DOUBLE) AS distance,"
        " TRY_CAST(_text(payload, '$.threshold') AS DOUBLE) AS threshold FROM events WHERE type = 'drift_measured'"
        " ORDER BY session_id, seq"
    )
    if rows.empty:
        return _unknown("drift", "no drift was measured: the log has no drift_measured event")
    evidence = []
    for session_id, group in rows[rows.distance > rows.threshold].groupby("session_id"):
        what = f"distance up to {group.distance.max():.2f} over the threshold {group.threshold.iloc[0]:.2f}"
        evidence.append(Evidence(session_id, tuple(group.seq), what))
    return _symptom("drift", evidence)


def doubled_effects(found: Analysed) -> Symptom:
    """The same thing was done outside more than once, or nobody can tell."""
    rows = found.frame("effects")
    if rows.empty:
        return _unknown("doubled_effects", "no external effect was registered in these sessions")
    evidence = []
    for (session_id, tool, _), group in rows[rows.state == "completed"].groupby(
        ["session_id", "tool_name", "input_hash"]
    ):
        if len(group) > 1:
            what = f"{tool} completed {len(group)} times with equal input"
            evidence.append(Evidence(session_id, tuple(group.completed_seq), what))
    # Tried again without looking is a risk even when the record holds one completion.
    blind = rows[(rows.tries > 1) & (rows.verified == 0)]
    failed = (
        found.sql("SELECT session_id, effect_key FROM events WHERE type = 'effect_failed'") if len(blind) else blind
    )
    for row in blind.itertuples():
        said = ((failed.session_id == row.session_id) & (failed.effect_key == row.effect_key)).sum()
        if said < row.tries - 1:
            what = f"{row.tool_name} was begun {row.tries} times and never verified"
            evidence.append(Evidence(row.session_id, (row.seq,), what))
    for row in rows[rows.state == "in_doubt"].itertuples():
        evidence.append(Evidence(row.session_id, (row.seq,), f"{row.tool_name} is in doubt: nobody has decided yet"))
    return _symptom("doubled_effects", evidence)


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
    return _symptom("repetition", evidence)


def unlimited_calls(found: Analysed) -> Symptom:
    """Tokens are limited, but calls are not."""
    limits = found.frame("budget").dropna(subset=["limit"])
    sessions = found.frame("sessions")
    limited = {session_id: set(group.dimension) for session_id, group in limits.groupby("session_id")}
    evidence = []
    for row in sessions[sessions.tool_calls > 0].itertuples():
        known = limited.get(row.session_id, set())
        calls = any(name == "tool_calls" or name.startswith("tool:") for name in known)
        if known & {"input_tokens", "output_tokens"} and not calls:
            evidence.append(Evidence(row.session_id, (), f"{row.tool_calls} tool calls, none of them limited"))
    return _symptom("unlimited_calls", evidence)


def amnesia(found: Analysed) -> Symptom:
    """After loading, the agent does not know where it is."""
    if found.frame("recoveries").empty:
        return _unknown("amnesia", "nothing was recovered in these sessions")
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
    if not evidence and not checked.any():
        missing = "the model was not asked for a statement: the log has no statement_checked event"
        return _unknown("amnesia", missing)
    return _symptom("amnesia", evidence)


def stuffed_history(found: Analysed) -> Symptom:
    """Odd progress after a recovery: the whole history was pasted back."""
    deaths = found.frame("recoveries")
    deaths = deaths[(deaths.target == "harness") & deaths.completed]
    if deaths.empty:
        return _unknown("stuffed_history", "no recovery of a harness was completed in these sessions")
    turns = found.frame("turns")
    turns = turns[turns.purpose == "act"]
    evidence, compared = [], 0
    for row in deaths.itertuples():
        mine = turns[turns.session_id == row.session_id]
        before, after = mine[mine.seq < row.seq].tail(1), mine[mine.seq > row.end_seq].head(1)
        if before.empty or after.empty:
            continue
        compared += 1
        was, now = before.tokens_estimate.iloc[0], after.tokens_estimate.iloc[0]
        if now > was * HEAVY_FACTOR:
            seqs = (int(before.seq.iloc[0]), int(after.seq.iloc[0]))
            what = f"the request grew from {was:,} to {now:,} estimated tokens"
            evidence.append(Evidence(row.session_id, seqs, what))
    if not compared:
        return _unknown("stuffed_history", "no request stands on both sides of a recovery")
    return _symptom("stuffed_history", evidence)


def estimates_off(found: Analysed) -> Symptom:
    """The budget trips often because estimates are off."""
    turns = found.frame("turns").dropna(subset=["tokens_estimate", "input_tokens"])
    if turns.empty:
        return _unknown("estimates_off", "no model call has both an estimate and a usage")
    cached = turns.cache_read_tokens.fillna(0) + turns.cache_write_tokens.fillna(0)
    turns = turns.assign(ratio=((turns.input_tokens + cached) / turns.tokens_estimate.clip(lower=1)).astype(float))
    evidence = []
    for session_id, group in turns.groupby("session_id"):
        middle = group.ratio.median()
        if not 1 / OFF_FACTOR <= middle <= OFF_FACTOR:
            worst = group.sort_values("ratio", ascending=middle < 1).head(5)
            what = f"the model read {middle:.2f} times the estimate in the median"
            evidence.append(Evidence(session_id, tuple(worst.seq), what))
    return _symptom("estimates_off", evidence)


def budget_trips(found: Analysed) -> Symptom:
    """The budget runs out."""
    rows = found.sql(
        "SELECT session_id, seq, type, coalesce(_text(payload, '$.dimension'), _text(payload, '$.detail')) AS dimension"
        " FROM events WHERE type = 'budget_alert' OR (type = 'session_paused' AND _text(payload, '$.reason') = 'budget')"
        " ORDER BY session_id, seq"
    ).fillna({"dimension": "the budget"})
    evidence = []
    for (session_id, dimension), group in rows.groupby(["session_id", "dimension"]):
        times = "once" if len(group) == 1 else f"{len(group)} times"
        evidence.append(Evidence(session_id, tuple(group.seq), f"{dimension} tripped {times}"))
    spent = found.frame("budget").dropna(subset=["limit"])
    for (session_id, dimension), group in spent[spent.used > spent["limit"]].groupby(["session_id", "dimension"]):
        share = group.used.iloc[-1] / max(float(group["limit"].iloc[-1]), 1e-9)
        what = f"{dimension} went over its limit here, to {share:.0%} in the end"
        evidence.append(Evidence(session_id, (group.seq.iloc[0],), what))
    return _symptom("budget_trips", evidence)


def crowding(found: Analysed) -> Symptom:
    """Sessions slow each other."""
    sessions, calls = found.frame("sessions"), found.frame("calls").dropna(subset=["latency_s"])
    if len(sessions) < 2:
        return _unknown("crowding", "one session alone can not tell: pass several or the lab")
    alone, crowded = _by_company(sessions, calls)
    if min(len(alone), len(crowded)) < ENOUGH:
        return _unknown("crowding", f"needs {ENOUGH} tool calls with and without other sessions at work")
    evidence = []
    for tool in sorted(set(alone.tool_name) & set(crowded.tool_name)):
        few, many = alone[alone.tool_name == tool], crowded[crowded.tool_name == tool]
        was, now = few.latency_s.median(), many.latency_s.median()
        if min(len(few), len(many)) >= ENOUGH // 2 and now > was * SLOW_FACTOR:
            worst = many.loc[many.latency_s.idxmax()]
            what = f"{tool} takes {now:.2g} s beside other sessions, {was:.2g} s alone"
            evidence.append(Evidence(worst.session_id, (int(worst.result_seq),), what))
    return _symptom("crowding", evidence)


def _by_company(sessions: Frame, calls: Frame) -> tuple[Frame, Frame]:
    """Calls during which no other session was active, and the others."""
    import numpy as np

    begins = np.sort(sessions.started_at.dt.tz_localize(None).to_numpy())
    ends = np.sort(sessions.last_at.dt.tz_localize(None).to_numpy())
    at = calls.ended_at.dt.tz_localize(None).to_numpy()
    active = np.searchsorted(begins, at, side="right") - np.searchsorted(ends, at, side="left")
    return calls[active <= 1], calls[active > 1]


def failing_tool(found: Analysed) -> Symptom:
    """A tool fails more often than it succeeds."""
    calls = found.frame("calls").dropna(subset=["ok"])
    evidence = []
    for (session_id, tool), group in calls.groupby(["session_id", "tool_name"]):
        bad = group[group.ok == False]  # noqa: E712
        if len(bad) >= 3 and len(bad) > len(group) / 2:
            kind = bad.error_type.fillna("unknown").mode().iloc[0]
            what = f"{tool} failed {len(bad)} of {len(group)} times, mostly {kind}"
            evidence.append(Evidence(session_id, tuple(bad.result_seq), what))
    return _symptom("failing_tool", evidence)


CHECKS: tuple[Callable[[Analysed], Symptom], ...] = (
    drift, doubled_effects, repetition, unlimited_calls, amnesia, stuffed_history, budget_trips, estimates_off, crowding,
    failing_tool,
)  # fmt: skip
"""Every check, in the order of the table of symptoms."""
