"""The checks behind :func:`agentlab.analysis.diagnose`: one function for each known symptom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentlab.analysis.diagnose import Evidence, Symptom
from agentlab.analysis.sources import Analysed

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


def _symptom(name: str, title: str, evidence: Sequence[Evidence], advice: tuple[str, str, str]) -> Symptom:
    if not evidence:
        return Symptom(name, title, "clear")
    return Symptom(name, title, "found", tuple(evidence), *advice)


def _unknown(name: str, title: str, missing: str) -> Symptom:
    return Symptom(name, title, "unknown", missing=missing)


def drift(found: Analysed) -> Symptom:
    """Answers move away from the goal over the rounds."""
    name, title = "drift", "Answers drift away from the goal"
    rows = found.sql(
        "SELECT session_id, seq, TRY_CAST(_text(payload, '$.distance') AS DOUBLE) AS distance,"
        " TRY_CAST(_text(payload, '$.threshold') AS DOUBLE) AS threshold FROM events WHERE type = 'drift_measured'"
        " ORDER BY session_id, seq"
    )
    if rows.empty:
        return _unknown(name, title, "no drift was measured: the log has no drift_measured event")
    over = rows[rows.distance > rows.threshold]
    evidence = [
        Evidence(str(s), tuple(g.seq), f"distance up to {g.distance.max():.2f} over the threshold {g.threshold.iloc[0]:.2f}")
        for s, g in over.groupby("session_id")
    ]  # fmt: skip
    advice = ("the goal is out of sight after many rounds", "the goal against recent answers", "restate the task in every round")
    return _symptom(name, title, evidence, advice)


def doubled_effects(found: Analysed) -> Symptom:
    """The same thing was done outside more than once, or nobody can tell."""
    rows = found.frame("effects")
    title = "An external effect may have happened twice"
    if rows.empty:
        return Symptom("doubled_effects", title, "clear")
    evidence = []
    done = rows[rows.state == "completed"]
    for (session_id, tool, _), group in done.groupby(["session_id", "tool_name", "input_hash"]):
        if len(group) > 1:
            evidence.append(Evidence(session_id, tuple(group.completed_seq), f"{tool} completed {len(group)} times with equal input"))  # fmt: skip
    # Tried again without looking is a risk even when the record holds one completion.
    blind = rows[(rows.tries > 1) & (rows.verified == 0)]
    for row in blind.itertuples():
        failed = found.sql("SELECT session_id, effect_key FROM events WHERE type = 'effect_failed'")
        said = ((failed.session_id == row.session_id) & (failed.effect_key == row.effect_key)).sum()
        if said < row.tries - 1:
            evidence.append(Evidence(row.session_id, (row.seq,), f"{row.tool_name} was begun {row.tries} times and never verified"))  # fmt: skip
    for row in rows[rows.state == "in_doubt"].itertuples():
        evidence.append(Evidence(row.session_id, (row.seq,), f"{row.tool_name} is in doubt: nobody has decided yet"))
    advice = ("the registry of effects was not in force, or the outside can not be asked", "analysis.effects(...) and the outside's own record", "register before the call, verify after a recovery; give the tool a verify function")  # fmt: skip
    return _symptom("doubled_effects", title, evidence, advice)


def repetition(found: Analysed) -> Symptom:
    """The same action again and again."""
    calls = found.frame("calls")
    evidence = []
    for session_id, group in calls[calls.reused == False].groupby("session_id"):  # noqa: E712
        numbered = group.assign(n=range(len(group)))
        for (tool, _), same in numbered.groupby(["tool_name", "input_hash"]):
            if len(same) >= LOOP_TIMES:
                near = same.n.diff(LOOP_TIMES - 1) <= LOOP_WINDOW
                if near.any():
                    evidence.append(Evidence(str(session_id), tuple(same.requested_seq), f"{tool} {len(same)} times with equal input"))  # fmt: skip
    for row in found.frame("guard").itertuples():
        evidence.append(Evidence(row.session_id, (row.seq,), f"the guard found {row.rule} and chose {row.action}"))
    advice = ("a dead loop", "plots.loops(...), the decisions around these events", "let the guard pause, cap the rounds per step, tell the model what failed")  # fmt: skip
    return _symptom("repetition", "The same action again and again", evidence, advice)


def unlimited_cost(found: Analysed) -> Symptom:
    """Tokens are fine, but calls are not limited."""
    name, title = "unlimited_calls", "Tool calls have no limit while tokens have one"
    limits = found.frame("budget").dropna(subset=["limit"])
    sessions = found.frame("sessions")
    limited = {str(s): set(g.dimension) for s, g in limits.groupby("session_id")}
    evidence = []
    for row in sessions[sessions.tool_calls > 0].itertuples():
        known = limited.get(row.session_id, set())
        calls = any(d == "tool_calls" or d.startswith("tool:") for d in known)
        if known & {"input_tokens", "output_tokens"} and not calls:
            evidence.append(Evidence(row.session_id, (), f"{row.tool_calls} tool calls, none of them limited"))
    over = limits[(limits.used > limits["limit"]) & ((limits.dimension == "tool_calls") | limits.dimension.str.startswith("tool:"))]  # fmt: skip
    for (session_id, dimension), group in over.groupby(["session_id", "dimension"]):
        evidence.append(Evidence(session_id, tuple(group.seq), f"{dimension} went over its limit"))
    advice = ("outside calls cost money that no limit counts", "analysis.calls(...) by tool, plots.burn(...)", "limit tool_calls and tool_calls_by_tool")  # fmt: skip
    return _symptom(name, title, evidence, advice)


def amnesia(found: Analysed) -> Symptom:
    """After loading, the agent does not know where it is."""
    name, title = "amnesia", "Amnesia after a recovery"
    if found.frame("recoveries").empty:
        return _unknown(name, title, "nothing was recovered in these sessions")
    rows = found.sql(
        "SELECT session_id, seq, type, _bool(payload, '$.passed') AS passed FROM events"
        " WHERE type IN ('statement_checked', 'checkpoint_skipped') ORDER BY session_id, seq"
    )
    wrong = rows[(rows.type == "statement_checked") & ~rows.passed.fillna(False).astype(bool)]
    evidence = [Evidence(r.session_id, (r.seq,), "the model's account did not agree with the log") for r in wrong.itertuples()]
    skipped = rows[rows.type == "checkpoint_skipped"]
    evidence += [Evidence(r.session_id, (r.seq,), "a checkpoint did not verify and was passed over") for r in skipped.itertuples()]  # fmt: skip
    if not evidence and not (rows.type == "statement_checked").any():
        return _unknown(name, title, "the model was not asked for a statement: the log has no statement_checked event")
    advice = ("goal or plan were not in what was loaded", "the task layer and the checkpoint's state", "keep the task layer in every request; ask for a statement after each recovery")  # fmt: skip
    return _symptom(name, title, evidence, advice)


def stuffed_history(found: Analysed) -> Symptom:
    """Odd progress after a recovery: the whole history was pasted back."""
    name, title = "stuffed_history", "The whole history is pasted back after a recovery"
    deaths = found.frame("recoveries")
    deaths = deaths[(deaths.target == "harness") & deaths.completed]
    if deaths.empty:
        return _unknown(name, title, "no recovery of a harness was completed in these sessions")
    turns = found.frame("turns")
    turns = turns[turns.purpose == "act"]
    evidence, compared = [], 0
    for row in deaths.itertuples():
        mine = turns[turns.session_id == row.session_id]
        before, after = mine[mine.seq < row.seq].tail(1), mine[mine.seq > row.end_seq].head(1)
        if len(before) and len(after):
            compared += 1
            was, now = before.tokens_estimate.iloc[0], after.tokens_estimate.iloc[0]
            if now > was * HEAVY_FACTOR:
                evidence.append(Evidence(row.session_id, (int(before.seq.iloc[0]), int(after.seq.iloc[0])), f"the request grew from {was:,} to {now:,} estimated tokens"))  # fmt: skip
    if not compared:
        return _unknown(name, title, "no request stands on both sides of a recovery")
    advice = ("old messages were loaded in full instead of a summary", "the first request after the recovery", "goal, confirmed facts and next action; nothing else")  # fmt: skip
    return _symptom(name, title, evidence, advice)


def estimates(found: Analysed) -> Symptom:
    """The budget trips often because estimates are off."""
    name, title = "estimates_off", "Estimates of tokens are off"
    turns = found.frame("turns").dropna(subset=["tokens_estimate", "input_tokens"])
    if turns.empty:
        return _unknown(name, title, "no model call has both an estimate and a usage")
    cached = turns.cache_read_tokens.fillna(0) + turns.cache_write_tokens.fillna(0)
    turns = turns.assign(ratio=((turns.input_tokens + cached) / turns.tokens_estimate.clip(lower=1)).astype(float))
    evidence = []
    for session_id, group in turns.groupby("session_id"):
        middle = group.ratio.median()
        if not 1 / OFF_FACTOR <= middle <= OFF_FACTOR:
            worst = group.sort_values("ratio", ascending=middle < 1).head(5)
            evidence.append(Evidence(str(session_id), tuple(worst.seq), f"the model read {middle:.2f} times the estimate in the median"))  # fmt: skip
    advice = ("the estimate of a request does not fit this model", "tokens_estimate against input_tokens in analysis.turns(...)", "raise (or lower) the safety factor of the estimate")  # fmt: skip
    return _symptom(name, title, evidence, advice)


def tripping(found: Analysed) -> Symptom:
    """The budget runs out."""
    rows = found.sql(
        "SELECT session_id, seq, type, coalesce(_text(payload, '$.dimension'), _text(payload, '$.detail')) AS dimension"
        " FROM events WHERE type = 'budget_alert' OR (type = 'session_paused' AND _text(payload, '$.reason') = 'budget')"
        " ORDER BY session_id, seq"
    )
    evidence = [
        Evidence(str(s), tuple(g.seq), f"{dimension or 'the budget'} tripped {len(g)} times")
        for (s, dimension), g in rows.groupby(["session_id", "dimension"], dropna=False)
    ]
    advice = ("limits are tight or estimates are off", "plots.burn(...)", "extend the dimension, or correct the estimates first")
    return _symptom("budget_trips", "The budget trips", evidence, advice)


def crowding(found: Analysed) -> Symptom:
    """Sessions slow each other."""
    name, title = "crowding", "Sessions slow each other"
    sessions, calls = found.frame("sessions"), found.frame("calls").dropna(subset=["latency_s"])
    if len(sessions) < 2:
        return _unknown(name, title, "one session alone can not tell: pass several or the lab")
    alone, crowded = _by_company(sessions, calls)
    if min(len(alone), len(crowded)) < ENOUGH:
        return _unknown(name, title, f"needs {ENOUGH} tool calls with and without other sessions at work")
    shared = sorted(set(alone.tool_name) & set(crowded.tool_name))
    evidence = []
    for tool in shared:
        a, b = alone[alone.tool_name == tool], crowded[crowded.tool_name == tool]
        was, now = a.latency_s.median(), b.latency_s.median()
        if min(len(a), len(b)) >= ENOUGH // 2 and now > was * SLOW_FACTOR:
            worst = b.loc[b.latency_s.idxmax()]
            evidence.append(Evidence(worst.session_id, (int(worst.result_seq),), f"{tool} takes {now:.2g} s beside other sessions, {was:.2g} s alone"))  # fmt: skip
    advice = ("too many sessions at once", "how many were active at these times", "limit how many sessions run at once")
    return _symptom(name, title, evidence, advice)


def _by_company(sessions: Any, calls: Any) -> tuple[Any, Any]:
    """Calls during which no other session was active, and the others."""
    import numpy as np

    begins = np.sort(sessions.started_at.to_numpy(dtype="datetime64[us]"))
    ends = np.sort(sessions.last_at.to_numpy(dtype="datetime64[us]"))
    at = calls.ended_at.to_numpy(dtype="datetime64[us]")
    active = np.searchsorted(begins, at, side="right") - np.searchsorted(ends, at, side="left")
    return calls[active <= 1], calls[active > 1]


def failing(found: Analysed) -> Symptom:
    """A tool fails more often than it succeeds."""
    calls = found.frame("calls").dropna(subset=["ok"])
    evidence = []
    for (session_id, tool), group in calls.groupby(["session_id", "tool_name"]):
        bad = group[~group.ok.astype(bool)]
        if len(bad) >= 3 and len(bad) > len(group) / 2:
            kind = bad.error_type.mode()
            evidence.append(Evidence(session_id, tuple(bad.result_seq), f"{tool} failed {len(bad)} of {len(group)} times, mostly {kind.iloc[0] if len(kind) else 'unknown'}"))  # fmt: skip
    advice = ("the tool or its input is broken", "error_type and error_message in analysis.calls(...)", "mend the tool, or tell the model how to call it")  # fmt: skip
    return _symptom("failing_tool", "A tool fails more often than not", evidence, advice)


CHECKS: tuple[Callable[[Analysed], Symptom], ...] = (
    drift, doubled_effects, repetition, unlimited_cost, amnesia, stuffed_history, tripping, estimates, crowding, failing,
)  # fmt: skip
"""Every check, in the order of the table of symptoms."""
