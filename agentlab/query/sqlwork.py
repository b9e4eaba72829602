"""The SQL of the three long views: recoveries, budget, sessions."""

from __future__ import annotations

RECOVERIES = """
WITH told AS (
    SELECT session_id, seq, ts, type, incarnation, payload, input_tokens, output_tokens, cost_usd FROM events
    WHERE type IN ('harness_woken', 'fault_injected', 'recovery_step', 'recovery_completed', 'sandbox_lost',
        'sandbox_attached', 'sandbox_restored', 'model_response', 'execution_rerun', 'effect_verified')
),
deaths AS (
    SELECT *, CASE type WHEN 'sandbox_lost' THEN 'sandbox' ELSE 'harness' END AS target FROM told
    WHERE type = 'sandbox_lost'
        OR (type = 'harness_woken' AND _text(payload, '$.reason') IN ('crash', 'takeover'))
),
living AS (SELECT session_id, seq, ts FROM events WHERE type NOT IN ('harness_died', 'fault_injected')),
seen AS (SELECT session_id, seq, ts FROM events),
spans AS (
    SELECT d.session_id, d.seq, d.ts, d.target, d.incarnation, d.payload, b.seq AS at_seq, b.ts AS died_at,
        e.seq AS end_seq, CASE WHEN e.type = 'harness_woken' THEN l.ts ELSE e.ts END AS ended_at,
        e.type = 'recovery_completed' AS completed,
        CASE WHEN e.type = 'recovery_completed' THEN _int(e.payload, '$.lost_steps') END AS lost_steps,
        CASE WHEN e.type = 'recovery_completed' THEN e.payload END AS ending
    FROM (FROM deaths WHERE target = 'harness') d
    ASOF LEFT JOIN living b ON d.session_id = b.session_id AND d.seq > b.seq
    ASOF LEFT JOIN (FROM told WHERE type IN ('recovery_completed', 'harness_woken')) e
        ON d.session_id = e.session_id AND d.seq < e.seq
    -- What another death cut has lasted until the last sign of life before: the rest is the other one's.
    ASOF LEFT JOIN living l ON e.session_id = l.session_id AND e.seq > l.seq
    UNION ALL
    SELECT d.session_id, d.seq, d.ts, d.target, d.incarnation, d.payload, b.seq, d.ts, e.seq, e.ts,
        e.type = 'sandbox_restored', 0, CASE WHEN e.type = 'sandbox_restored' THEN e.payload END
    FROM (FROM deaths WHERE target = 'sandbox') d
    ASOF LEFT JOIN seen b ON d.session_id = b.session_id AND d.seq > b.seq
    ASOF LEFT JOIN (FROM told WHERE type IN ('sandbox_restored', 'sandbox_lost')) e
        ON d.session_id = e.session_id AND d.seq < e.seq
),
within AS (
    -- What a harness's recovery spends on a sandbox that died with it is the harness's: nothing counts twice.
    SELECT DISTINCT s.session_id, s.seq FROM spans s JOIN spans h ON s.session_id = h.session_id
        AND s.target = 'sandbox' AND h.target = 'harness' AND h.seq < s.seq AND s.seq <= coalesce(h.end_seq, s.seq)
),
during AS (
    -- A sandbox that was never restored was not needed again: nothing that came later is its price.
    SELECT s.session_id, s.seq,
        count(*) FILTER (t.type = 'execution_rerun') AS commands_again,
        count(*) FILTER (t.type = 'effect_verified') AS effects_verified,
        count(*) FILTER (t.type = 'model_response') AS model_calls,
        coalesce(sum(coalesce(t.input_tokens, 0) + coalesce(t.output_tokens, 0)), 0)::BIGINT AS tokens,
        sum(t.cost_usd) AS cost_usd,
        min(t.ts) FILTER (t.type = 'recovery_step' AND _text(t.payload, '$.step') = 'load') AS loaded,
        max(t.ts) FILTER (t.type IN ('sandbox_attached', 'sandbox_restored')) AS filled,
        min(t.ts) FILTER (t.type = 'recovery_step' AND _text(t.payload, '$.step') = 'rebuild') AS rebuilt,
        min(t.ts) FILTER (t.type = 'recovery_step' AND _text(t.payload, '$.step') = 'verify') AS verified
    FROM spans s JOIN told t
        ON t.session_id = s.session_id AND t.seq >= s.seq
            AND t.seq <= coalesce(s.end_seq, CASE s.target WHEN 'sandbox' THEN s.seq ELSE 9000000000000000000 END)
    ANTI JOIN within w ON w.session_id = s.session_id AND w.seq = s.seq
    GROUP BY ALL
),
faults AS (
    SELECT s.session_id, s.seq,
        CASE s.target WHEN 'harness' THEN arg_min(f.payload, f.seq) ELSE arg_max(f.payload, f.seq) END AS fault
    FROM spans s JOIN told f ON f.session_id = s.session_id AND f.type = 'fault_injected' AND (
        (s.target = 'harness' AND f.seq > s.at_seq AND f.seq <= s.at_seq + 6)
        OR (s.target = 'sandbox' AND f.seq < s.seq AND f.seq >= s.seq - 12
            AND starts_with(_text(f.payload, '$.target'), 'sandbox')))
    GROUP BY s.session_id, s.seq, s.target
)
SELECT session_id, seq, target,
    coalesce(nullif(_text(fault, '$.point'), ''), nullif(_text(fault, '$.fault'), ''), _text(payload, '$.reason'))
        AS cause,
    fault IS NOT NULL AS injected, at_seq, end_seq, coalesce(completed, false) AS completed, died_at,
    _seconds(died_at, ended_at) AS seconds,
    CASE WHEN target = 'harness' THEN _seconds(died_at, ts) END AS detect_s,
    CASE WHEN target = 'harness' THEN _seconds(ts, loaded) END AS load_s,
    CASE WHEN target = 'sandbox' THEN _seconds(ts, ended_at) WHEN filled <= rebuilt THEN _seconds(loaded, filled)
        WHEN rebuilt IS NOT NULL THEN 0 END AS sandbox_s,
    CASE WHEN target = 'harness' THEN _seconds(CASE WHEN filled <= rebuilt THEN filled ELSE loaded END, rebuilt) END
        AS rebuild_s,
    CASE WHEN target = 'harness' THEN _seconds(rebuilt, verified) END AS verify_s,
    CASE WHEN target = 'harness' AND completed THEN _seconds(verified, ended_at) END AS statement_s,
    CASE WHEN target = 'harness' THEN seq - 1 - coalesce(_int(payload, '$.cursor'), 0) END AS replayed,
    coalesce(lost_steps, 0) AS lost_steps, coalesce(commands_again, 0) AS commands_again,
    coalesce(effects_verified, 0) AS effects_verified, coalesce(model_calls, 0) AS model_calls,
    coalesce(tokens, 0) AS tokens, cost_usd, incarnation,
    _int(ending, '$.tax.tokens') AS tax_tokens, _int(ending, '$.tax.at_risk_tokens') AS tax_at_risk_tokens,
    _int(ending, '$.tax.cost_microusd') / 1e6 AS tax_cost_usd, _int(ending, '$.tax.tool_calls') AS tax_tool_calls,
    coalesce(_int(ending, '$.tax.bytes'), CASE WHEN commands_again IS NULL THEN 0 ELSE _int(ending, '$.bytes') END)
        AS tax_bytes,
    _int(ending, '$.tax.events_superseded') AS tax_events
FROM spans LEFT JOIN during USING (session_id, seq) LEFT JOIN faults USING (session_id, seq)
"""

BUDGET = """
WITH said AS (
    SELECT session_id, call_id, arg_min(type, seq) AS type, min(seq) AS seq, min(ts) AS ts,
        arg_min(tool_name, seq) AS tool_name, arg_min_null(duration_ms, seq) AS duration_ms,
        arg_min_null(cost_usd, seq) AS cost_usd,
        bool_or(contains(payload, '"reused":true') AND _bool(payload, '$.reused')) AS reused
    FROM events WHERE type IN ('tool_result', 'tool_error') AND call_id IS NOT NULL GROUP BY session_id, call_id
),
asked AS (
    SELECT session_id, call_id, arg_min(_text(payload, '$.effect'), seq) AS effect FROM events
    WHERE type = 'tool_requested' GROUP BY ALL
),
answered AS (
    SELECT *, (NOT reused AND effect <> 'builtin') AS counts FROM said JOIN asked USING (session_id, call_id)
),
lumps AS (
    SELECT session_id, seq, ts, unnest([
        {'dimension': 'input_tokens', 'spent': input_tokens::DOUBLE},
        {'dimension': 'output_tokens', 'spent': output_tokens::DOUBLE},
        {'dimension': 'cache_tokens', 'spent': (coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0))::DOUBLE},
        {'dimension': 'cost_usd', 'spent': cost_usd}, {'dimension': 'model_calls', 'spent': 1.0},
        {'dimension': 'active_s', 'spent': duration_ms / 1000}]) AS part
    FROM events WHERE type = 'model_response'
    UNION ALL
    SELECT session_id, seq, ts, unnest([
        {'dimension': 'tool_calls', 'spent': CASE WHEN counts THEN 1.0 END},
        {'dimension': concat('tool:', tool_name), 'spent': CASE WHEN counts THEN 1.0 END},
        {'dimension': 'cost_usd', 'spent': cost_usd},
        {'dimension': 'active_s', 'spent': duration_ms / 1000}])
    FROM answered
    UNION ALL
    SELECT session_id, seq, ts, {'dimension': 'active_s', 'spent': duration_ms / 1000} FROM events
    WHERE type = 'model_error' OR (type = 'retry_scheduled' AND _text(payload, '$.what') <> 'verify')
    UNION ALL
    SELECT session_id, seq, ts, {'dimension': 'steps', 'spent': 1.0} FROM events WHERE type = 'step_completed'
    UNION ALL
    SELECT session_id, seq, ts, _amount(name, TRY_CAST(_text(payload, concat('$.amounts."', name, '"')) AS DOUBLE))
    FROM (SELECT session_id, seq, ts, payload, unnest(json_keys(_clean(payload), '$.amounts')) AS name FROM events
        WHERE type IN ('budget_settled', 'usage_reported'))
),
derived AS (
    SELECT session_id, seq, ts, {'dimension': 'tokens', 'spent': (coalesce(input_tokens, 0) + coalesce(output_tokens, 0)
        + coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0))::DOUBLE} AS part
    FROM events WHERE type = 'model_response'
    UNION ALL
    SELECT session_id, seq, ts, {'dimension': 'wall_s', 'spent':
        _seconds(lag(ts) OVER (PARTITION BY session_id ORDER BY seq), ts)}
    FROM events WHERE type IN ('session_started', 'harness_woken', 'model_response', 'tool_result', 'tool_error',
        'session_paused', 'session_ended')
),
named AS (
    SELECT session_id, seq, _amount(name, TRY_CAST(_text(payload, concat('$.limits."', name, '"')) AS DOUBLE)) AS part
    FROM (SELECT session_id, seq, payload, unnest(json_keys(_clean(payload), '$.limits')) AS name FROM events
        WHERE type = 'session_started')
    UNION ALL
    SELECT session_id, seq, {'dimension': concat('tool:', name), 'spent':
        TRY_CAST(_text(payload, concat('$.limits.tool_calls_by_tool."', name, '"')) AS DOUBLE)}
    FROM (SELECT session_id, seq, payload, unnest(json_keys(_clean(payload), '$.limits.tool_calls_by_tool')) AS name
        FROM events WHERE type = 'session_started')
    UNION ALL
    SELECT session_id, seq, _amount(_text(payload, '$.dimension'), TRY_CAST(_text(payload, '$.limit') AS DOUBLE))
    FROM events WHERE type = 'budget_extended'
    QUALIFY row_number() OVER (PARTITION BY session_id, _text(payload, '$.dimension'),
        _text(payload, '$.expected_version') ORDER BY seq) = 1
),
limits AS (
    SELECT session_id, seq, part.dimension AS dimension, part.spent AS "limit" FROM named WHERE part.spent IS NOT NULL
),
spends AS (
    SELECT session_id, seq, ts, part.dimension AS dimension, sum(part.spent) AS spent FROM (
        FROM lumps UNION ALL
        FROM derived d SEMI JOIN limits l ON d.session_id = l.session_id AND d.part.dimension = l.dimension)
    WHERE part.spent <> 0 GROUP BY ALL
)
SELECT s.session_id, s.seq, s.ts, s.dimension, s.spent,
    sum(s.spent) OVER (PARTITION BY s.session_id, s.dimension ORDER BY s.seq) AS used, l."limit"
FROM spends s ASOF LEFT JOIN limits l
    ON s.session_id = l.session_id AND s.dimension = l.dimension AND s.seq >= l.seq
"""

SESSIONS = """
WITH one AS (
    SELECT session_id, count(*) AS events, min(ts) AS started_at, arg_max(ts, seq) AS last_at,
        min(ts) FILTER (type = 'session_ended') AS ended_at,
        arg_min(payload, seq) FILTER (type = 'session_started') AS began,
        arg_min(payload, seq) FILTER (type = 'session_ended') AS finished,
        arg_max(payload, seq) FILTER (type = 'session_paused') AS rested,
        arg_max(payload, seq) FILTER (type = 'question_asked') AS question,
        max(seq) FILTER (type = 'question_asked') AS asked,
        max(seq) FILTER (type IN ('user_reply', 'approval_given', 'approval_denied', 'effect_settled')) AS replied,
        max(seq) FILTER (type = 'session_paused') AS paused,
        max(seq) FILTER (type = 'resume_requested') AS resumed,
        max(seq) FILTER (type = 'session_queued') AS queued,
        max(seq) FILTER (type IN ('session_admitted', 'harness_woken')) AS admitted,
        arg_min(model, seq) AS asked_model,
        count(*) FILTER (type = 'model_response') AS model_calls,
        count(*) FILTER (type = 'model_response' AND contains(payload, '"purpose":"act"')) AS turns,
        count(*) FILTER (type IN ('tool_result', 'tool_error')) AS tool_calls,
        count(*) FILTER (type = 'tool_error') AS tool_errors,
        count(*) FILTER (type = 'step_completed') AS steps_done,
        coalesce(max(attempt), 0) AS attempts,
        coalesce(sum(input_tokens), 0)::BIGINT AS input_tokens,
        coalesce(sum(output_tokens), 0)::BIGINT AS output_tokens,
        sum(cost_usd) AS cost_usd,
        count(*) FILTER (type = 'harness_woken' AND regexp_matches(payload, '"reason":"(crash|takeover)"')) AS crashes,
        count(*) FILTER (type = 'sandbox_lost') AS sandbox_losses,
        count(*) FILTER (type = 'harness_woken') AS incarnations,
        count(*) FILTER (type = 'checkpoint_written') AS checkpoints,
        count(*) FILTER (type = 'effect_completed') AS effects,
        count(*) FILTER (type = 'fault_injected') AS faults,
        bool_or(superseded) AS superseded
    FROM events GROUP BY session_id
),
judged AS (
    SELECT *, CASE WHEN finished IS NOT NULL THEN 'ended' WHEN asked > coalesce(replied, 0) THEN 'waiting'
        WHEN paused > coalesce(resumed, 0) THEN 'paused' WHEN queued > coalesce(admitted, 0) THEN 'queued'
        WHEN incarnations > 0 THEN 'running' ELSE 'new' END AS status
    FROM one
)
SELECT session_id, coalesce(_text(began, '$.input.task'), _text(began, '$.definition.task')) AS task,
    coalesce(_text(began, '$.definition.model'), asked_model) AS model, status,
    _text(finished, '$.outcome') AS outcome,
    CASE status WHEN 'paused' THEN _text(rested, '$.reason') WHEN 'waiting' THEN _text(question, '$.question')
        WHEN 'ended' THEN nullif(_text(finished, '$.result.reason'), '') END AS reason,
    events, started_at, last_at, ended_at, _seconds(started_at, last_at) AS wall_s, turns, model_calls, tool_calls,
    tool_errors, steps_done, attempts, input_tokens, output_tokens, input_tokens + output_tokens AS tokens, cost_usd,
    crashes, sandbox_losses, incarnations, checkpoints, effects, faults, superseded,
    _text(began, '$.parent.session') AS forked_from, _int(began, '$.parent.seq') AS forked_at
FROM judged
"""
