"""The SQL of the views; what their columns mean is in :mod:`agentlab.query.views`.

Everything aggregates over one scan of the rows where it can: joining a thousand files with themselves costs their
opening twice, and columns that a query does not ask for are never read.
"""

from __future__ import annotations

from agentlab.query.sqlwork import BUDGET, RECOVERIES, SESSIONS

# Canonical JSON escapes only what UTF-8 can not carry; DuckDB refuses a lone surrogate and with it the whole query.
# RE2 looks at no neighbours: an even run of backslashes before the escape has to be part of the match.
_SURROGATES = r"(^|[^\\])((?:\\\\)*)(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+"

MACROS = (
    rf"CREATE MACRO _clean(p) AS CASE WHEN contains(p, '\ud') THEN regexp_replace(p, '{_SURROGATES}', '\1\2\\ufffd', 'g')"
    " ELSE p END",
    "CREATE MACRO _text(p, path) AS json_extract_string(_clean(p), path)",
    "CREATE MACRO _json(p, path) AS CAST(json_extract(_clean(p), path) AS VARCHAR)",
    "CREATE MACRO _int(p, path) AS TRY_CAST(json_extract_string(_clean(p), path) AS BIGINT)",
    "CREATE MACRO _bool(p, path) AS coalesce(TRY_CAST(json_extract_string(_clean(p), path) AS BOOLEAN), false)",
    "CREATE MACRO _amount(name, value) AS CASE name WHEN 'cost_microusd' THEN {'dimension': 'cost_usd', 'spent': value / 1e6}"
    " WHEN 'active_ms' THEN {'dimension': 'active_s', 'spent': value / 1000}"
    " WHEN 'wall_ms' THEN {'dimension': 'wall_s', 'spent': value / 1000} ELSE {'dimension': name, 'spent': value} END",
    # greatest() passes over what is missing.
    "CREATE MACRO _seconds(a, b) AS CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN greatest(0, epoch_us(b) - epoch_us(a)) / 1e6 END",
)
"""Small helpers: a payload's value as text, JSON, integer or truth; seconds between two times;
an amount of the budget in this package's units."""

_EVENTS = """
SELECT session_id, seq, ts, type, tool_name, input_hash, payload, error, error_type, duration_ms, step, attempt,
    incarnation, call_id, effect_key, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
    cost_usd, parent_seq, commit_id, schema_version, hash,
    EXISTS (SELECT 1 FROM _superseded s WHERE s.session_id = r.session_id AND r.seq BETWEEN s.first AND s.last)
        AS superseded
FROM _rows r
"""

_TURNS = """
WITH one AS (
    SELECT session_id, _text(payload, '$.request_id') AS request_id,
        min(seq) FILTER (type = 'model_request') AS seq,
        min(seq) FILTER (type <> 'model_request') AS answered_seq,
        min(ts) FILTER (type = 'model_request') AS requested_at,
        min(ts) FILTER (type <> 'model_request') AS answered_at,
        arg_min(payload, seq) FILTER (type = 'model_request') AS asked,
        arg_min(payload, seq) FILTER (type <> 'model_request') AS said,
        arg_min(type, seq) FILTER (type <> 'model_request') AS kind,
        arg_min(error_type, seq) FILTER (type <> 'model_request') AS error_type,
        arg_min(duration_ms, seq) FILTER (type <> 'model_request') / 1000 AS latency_s,
        arg_min(model, seq) AS model,
        sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens,
        sum(cache_read_tokens)::BIGINT AS cache_read_tokens, sum(cache_write_tokens)::BIGINT AS cache_write_tokens,
        sum(cost_usd) AS cost_usd,
        arg_min(step, seq) AS step, arg_min(attempt, seq) AS attempt, min(incarnation) AS incarnation,
        bool_or(superseded) FILTER (type = 'model_request') AS superseded
    FROM events WHERE type IN ('model_request', 'model_response', 'model_error')
    GROUP BY ALL HAVING count(*) FILTER (type = 'model_request') > 0
),
wakes AS (SELECT session_id, max(seq) AS woken FROM events WHERE type = 'harness_woken' GROUP BY ALL)
SELECT session_id, seq, answered_seq,
    sum(CASE WHEN kind = 'model_response' AND _text(asked, '$.purpose') = 'act' THEN 1 ELSE 0 END)
        OVER (PARTITION BY session_id ORDER BY seq)::BIGINT AS turn,
    _text(asked, '$.purpose') AS purpose, model, requested_at, answered_at, latency_s,
    CASE WHEN kind IS NULL THEN NULL ELSE kind = 'model_response' END AS ok,
    error_type, _text(said, '$.stop_reason') AS stop_reason,
    CASE WHEN kind = 'model_response' THEN coalesce(json_array_length(_clean(said), '$.tool_calls'), 0)::BIGINT END
        AS tool_calls,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd,
    _int(asked, '$.tokens_estimate') AS tokens_estimate,
    _int(asked, '$.layers.scratch.tokens') AS scratch_tokens,
    _int(asked, '$.layers.scratch.blocks') AS scratch_blocks,
    _int(asked, '$.layers.scratch.dropped') AS dropped_blocks,
    _int(asked, '$.layers.task.anchors') AS anchors,
    CASE WHEN kind IS NULL THEN coalesce(woken > seq, false) ELSE kind = 'model_error' AND _bool(said, '$.at_risk') END
        AS at_risk,
    step, attempt, incarnation, superseded
FROM one LEFT JOIN wakes USING (session_id)
"""

_CALLS = """
WITH one AS (
    SELECT session_id, call_id,
        min(seq) FILTER (type = 'tool_requested') AS requested_seq,
        min(seq) FILTER (type IN ('tool_result', 'tool_error')) AS result_seq,
        min(ts) FILTER (type = 'tool_requested') AS requested_at,
        min(ts) FILTER (type IN ('tool_result', 'tool_error')) AS ended_at,
        arg_min_null(duration_ms, seq) FILTER (type IN ('tool_result', 'tool_error')) / 1000 AS latency_s,
        arg_min(type, seq) FILTER (type IN ('tool_result', 'tool_error')) AS kind,
        arg_min_null(error_type, seq) FILTER (type IN ('tool_result', 'tool_error')) AS error_type,
        arg_min(payload, seq) FILTER (type = 'tool_requested') AS asked,
        arg_min(payload, seq) FILTER (type IN ('tool_result', 'tool_error')) AS said,
        arg_min(tool_name, seq) AS tool_name, arg_min(step, seq) AS step, arg_min(attempt, seq) AS attempt,
        arg_min(input_hash, seq) FILTER (type = 'tool_requested') AS input_hash,
        arg_max(effect_key, seq) AS effect_key,
        coalesce(arg_min(incarnation, seq) FILTER (type IN ('tool_result', 'tool_error')), min(incarnation))
            AS incarnation,
        sum(cost_usd) AS cost_usd,
        count(*) FILTER (type = 'effect_pending') AS pendings,
        count(*) FILTER (type = 'retry_scheduled') AS retries,
        bool_or(superseded) FILTER (type = 'tool_requested') AS superseded
    FROM events
    WHERE type IN ('tool_requested', 'tool_result', 'tool_error', 'effect_pending', 'retry_scheduled')
        AND call_id IS NOT NULL
    GROUP BY ALL HAVING count(*) FILTER (type = 'tool_requested') > 0
)
SELECT session_id, call_id, tool_name, _text(asked, '$.effect') AS effect, step, attempt, requested_seq, result_seq,
    requested_at, ended_at, latency_s, _seconds(requested_at, ended_at) AS elapsed_s,
    CASE WHEN kind IS NULL THEN NULL ELSE kind = 'tool_result' END AS ok,
    error_type, CASE WHEN kind = 'tool_error' THEN _text(said, '$.message') END AS error_message,
    _bool(said, '$.reused') AS reused, _bool(said, '$.not_run') AS not_run, _bool(said, '$.late') AS late,
    CASE WHEN _bool(said, '$.reused') OR _bool(said, '$.not_run') THEN 0 WHEN pendings > 0 THEN pendings
        ELSE retries + CASE WHEN kind IS NULL THEN 0 ELSE 1 END END AS tries,
    input_hash, effect_key, _int(said, '$.exitCode') AS exit_code, cost_usd, incarnation, superseded
FROM one
"""

_EFFECTS = """
WITH one AS (
    SELECT session_id, coalesce(effect_key, _text(payload, '$.key')) AS effect_key,
        arg_min(tool_name, seq) AS tool_name, arg_min(call_id, seq) AS call_id,
        arg_min(input_hash, seq) AS input_hash, min(seq) AS seq, arg_min(step, seq) AS step,
        arg_max(type, seq) FILTER (type <> 'tool_result' AND type <> 'retry_scheduled') AS newest,
        count(*) FILTER (type = 'effect_pending') AS tries,
        count(*) FILTER (type = 'effect_verified') AS verified,
        arg_max(_text(payload, '$.outcome'), seq) FILTER (type = 'effect_verified') AS verified_as,
        bool_or(type = 'effect_in_doubt') AS in_doubt,
        arg_max(_text(payload, '$.decision'), seq) FILTER (type = 'effect_settled') AS decision,
        min(seq) FILTER (type = 'effect_completed') AS completed_seq,
        min(seq) FILTER (type = 'tool_result') AS result_seq,
        min(ts) AS started_at, min(ts) FILTER (type = 'effect_completed') AS completed_at
    FROM events
    WHERE starts_with(type, 'effect_') OR (type = 'tool_result' AND effect_key IS NOT NULL)
    GROUP BY ALL HAVING count(*) FILTER (type <> 'tool_result') > 0
),
again AS (
    SELECT session_id, _int(payload, '$.effect_of') AS result_seq, count(*) AS reused FROM events
    WHERE type = 'tool_result' AND contains(payload, '"effect_of"') AND _bool(payload, '$.reused') GROUP BY ALL
)
SELECT session_id, effect_key, tool_name, call_id, input_hash, seq,
    CASE WHEN completed_seq IS NOT NULL THEN 'completed'
        WHEN newest = 'effect_failed' THEN 'failed'
        WHEN newest = 'effect_in_doubt' THEN 'in_doubt'
        WHEN newest = 'effect_settled' THEN 'settled'
        WHEN newest = 'effect_verified' AND verified_as = 'not_done' THEN 'failed'
        ELSE 'pending' END AS state,
    tries, verified, verified_as, in_doubt, decision, coalesce(reused, 0) AS reused, completed_seq, started_at,
    completed_at, _seconds(started_at, completed_at) AS elapsed_s, step
FROM one LEFT JOIN again USING (session_id, result_seq)
"""

_CHECKPOINTS = """
WITH loads AS (
    SELECT session_id, _int(payload, '$.checkpoint_seq') AS seq, count(*) AS loads FROM events
    WHERE type = 'harness_woken' GROUP BY ALL
),
snapshots AS (
    SELECT session_id, commit_id, sum(_int(payload, '$.new_bytes'))::BIGINT AS new_bytes, sum(duration_ms) AS ms
    FROM events WHERE type = 'snapshot_taken' GROUP BY ALL
)
SELECT c.session_id, c.seq, ts, _text(payload, '$.checkpoint_id') AS checkpoint_id,
    _text(payload, '$.reason') AS reason, _text(payload, '$.label') AS label,
    _text(payload, '$.request_id') IS NOT NULL AS by_hand, _int(payload, '$.cursor') AS cursor,
    c.seq - coalesce(lag(c.seq) OVER (PARTITION BY c.session_id ORDER BY c.seq), 0) AS events_since,
    duration_ms / 1000 AS duration_s, _int(payload, '$.size_bytes') AS size_bytes,
    _text(payload, '$.snapshot') AS snapshot, ms IS NOT NULL AS snapshot_taken, new_bytes AS snapshot_new_bytes,
    ms / 1000 AS snapshot_s, coalesce(loads, 0) AS loads, _text(payload, '$.scheme') AS scheme,
    _int(payload, '$.schema_version') AS schema_version, step, superseded
FROM events c LEFT JOIN loads USING (session_id, seq) LEFT JOIN snapshots USING (session_id, commit_id)
WHERE type = 'checkpoint_written'
"""

_DECISIONS = """
SELECT session_id, seq, ts, _text(payload, '$.action') AS action, _text(payload, '$.why') AS why,
    _text(payload, '$.last_result') AS last_result, _json(payload, '$.alternatives') AS alternatives, model, step,
    attempt, superseded
FROM events WHERE type = 'decision'
"""

_GUARD = """
SELECT session_id, seq, ts, _text(payload, '$.rule') AS rule, _text(payload, '$.action') AS action,
    _json(payload, '$.evidence') AS evidence, _text(payload, '$.message') AS message, step, superseded
FROM events WHERE type = 'guard_verdict'
"""

VIEW_SQL: dict[str, str] = {
    "events": _EVENTS,
    "turns": _TURNS,
    "calls": _CALLS,
    "effects": _EFFECTS,
    "checkpoints": _CHECKPOINTS,
    "recoveries": RECOVERIES,
    "budget": BUDGET,
    "decisions": _DECISIONS,
    "guard": _GUARD,
    "sessions": SESSIONS,
}
"""The views' SQL by name, in an order in which they can be made."""
