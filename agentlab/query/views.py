"""The views, column by column: the one table that says what a query can ask for.

Types: ``text``; ``json`` (text that holds JSON; spilled values appear as their stubs); ``int``; ``float``; ``bool``;
``time`` (UTC, microseconds). Units are in the names: ``_s`` seconds, ``_ms`` milliseconds, ``_usd`` US dollars,
``_bytes`` bytes. ``superseded`` is true for what a later ``restored_to`` set aside; the log keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Type = Literal["text", "json", "int", "float", "bool", "time"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view."""

    name: str
    type: Type
    meaning: str


@dataclass(frozen=True, slots=True)
class View:
    """A view: what one row is, its columns in order, and the order of its rows."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    order: str

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]


_TABLE = """
events: one event of a log, as written
    session_id text the session
    seq int the event's number, from 1 without gaps
    ts time when it was recorded
    type text kind of event, see agentlab.events.kinds
    tool_name text tool it speaks of
    input_hash text digest of tool and canonical input (sha256:…)
    payload json what the kind requires, see agentlab.events.kinds
    error json type and message of what failed
    error_type text type of what failed
    duration_ms float how long it took
    step int number of the plan step, from 1
    attempt int pass of the outer loop, from 1
    incarnation int which harness wrote it, from 1
    call_id text tool call it belongs to
    effect_key text idempotency key of the effect it belongs to
    model text model that was asked
    input_tokens int tokens read by the model, without cached ones
    output_tokens int tokens written by the model
    cache_read_tokens int tokens read from the provider's cache
    cache_write_tokens int tokens written to the provider's cache
    cost_usd float price
    parent_seq int event that it answers
    commit_id text events of one commit landed together
    schema_version int version of the row
    hash text SHA-256 that chains it to the event before
    superseded bool set aside by a later restored_to

turns: one request to the model, with its answer or error
    session_id text the session
    seq int event of the request
    answered_seq int event of the answer or error; missing when there is none
    turn int how many answers with purpose act there were up to this one
    purpose text act or statement (where the model says it is after a recovery)
    model text model that was asked
    requested_at time when it was asked
    answered_at time when the answer or error was recorded
    latency_s float time of the call as the harness measured it
    ok bool true answer, false error; missing without either
    error_type text kind of error
    stop_reason text why the model stopped
    tool_calls int calls that the answer asks for
    input_tokens int tokens read, without cached ones
    output_tokens int tokens written
    cache_read_tokens int tokens read from the cache
    cache_write_tokens int tokens written to the cache
    cost_usd float price of the call
    tokens_estimate int input tokens as estimated before the call
    scratch_tokens int estimated tokens of the scratch layer
    scratch_blocks int blocks in the scratch layer
    dropped_blocks int blocks that compactions had dropped by then
    anchors int pinned facts in the task layer
    at_risk bool its cost is unknown: cut by a crash, or failed after sending
    step int plan step
    attempt int pass of the outer loop
    incarnation int harness that asked
    superseded bool set aside by a later restored_to

calls: one tool call, from the request to its one result
    session_id text the session
    call_id text the call
    tool_name text the tool
    effect text pure, sandboxed, external or builtin
    step int plan step
    attempt int pass of the outer loop
    requested_seq int event that asked for it
    result_seq int event of its result or error; missing when there is none
    requested_at time when it was asked for
    ended_at time when result or error was recorded
    latency_s float time that the tool took, of the last try; missing when it did not run for this result
    elapsed_s float from asked to answered: waits, retries and recoveries included
    ok bool true result, false error; missing without either
    error_type text type of the error
    error_message text what the model was told of the error
    reused bool the recorded result of an earlier equal call was given
    not_run bool answered without running (denied, unknown, settled by a person)
    late bool the result was found while verifying an effect
    tries int how often it was begun
    input_hash text digest of tool and canonical input: equal calls have equal hashes
    effect_key text key of its external effect
    exit_code int exit code of a command
    cost_usd float price of the call
    incarnation int harness that recorded the result, or asked when there is none
    superseded bool set aside by a later restored_to

effects: one external effect by its key
    session_id text the session
    effect_key text idempotency key of the operation
    tool_name text the tool
    call_id text call that first asked for it
    input_hash text digest of tool and canonical input
    seq int event of its first registration
    state text pending, completed, failed (surely not done), in_doubt, or settled by a person
    tries int how often it was begun
    verified int how often the outside was asked whether it happened
    verified_as text what the outside said last: completed, not_done or unknown
    in_doubt bool it was put before a person at some time
    decision text what the person decided: done, retry or skip
    reused int later equal calls that were given its result
    completed_seq int event that completed it
    started_at time first registration
    completed_at time completion
    elapsed_s float from first registration to completion
    step int plan step

checkpoints: one checkpoint
    session_id text the session
    seq int its event
    ts time when it was written
    checkpoint_id text its name
    reason text what made it due
    label text the name a person gave it
    by_hand bool a person asked for it
    cursor int last event that its state includes
    events_since int events since the checkpoint before, or the session's start
    duration_s float time to write it, snapshot included
    size_bytes int size of the state
    snapshot text digest of the workspace snapshot it refers to
    snapshot_taken bool a snapshot was packed for it
    snapshot_new_bytes int bytes that this snapshot added to the store
    snapshot_s float time to pack the snapshot
    loads int how often a harness started from it
    scheme text snapshot or hybrid
    schema_version int version of the state
    step int plan step
    superseded bool set aside by a later restored_to

recoveries: one death of a harness or sandbox, and what it cost
    session_id text the session
    seq int event that tells of it (harness_woken or sandbox_lost)
    target text harness or sandbox
    cause text fault point when injected, else the recorded reason
    injected bool a fault was injected for it
    at_seq int last event before it
    end_seq int event that ends the recovery; missing while it lasts, or when a lost sandbox was not needed again
    completed bool the recovery came to its end; false when another death cut it or a lost sandbox was not needed again
    died_at time last sign of life
    seconds float from the last sign of life (sandbox: from its loss) to the end, or to the last one before another death
    detect_s float until a new harness was awake
    load_s float reading the log and the newest checkpoint
    sandbox_s float taking up or restoring the sandbox
    rebuild_s float rebuilding the context
    verify_s float verifying pending effects
    statement_s float the model's statement, checked
    replayed int events read after the checkpoint
    lost_steps int plan steps to be done again
    commands_again int recorded commands run again; of a sandbox that died with its harness they count there, as all it spent
    effects_verified int effects that were verified
    model_calls int model calls of the recovery itself
    tokens int tokens of the recovery itself, in and out
    cost_usd float price of the recovery itself
    incarnation int harness that recovers
    tax_tokens int tokens spent again because of it: the recovery's own, and of answers that were given up
    tax_at_risk_tokens int tokens reserved for a model call that the death cut
    tax_cost_usd float price of what was spent again
    tax_tool_calls int tool calls whose results were given up (scheme snapshot)
    tax_bytes int bytes put back into a workspace
    tax_events int events that count no more (scheme snapshot)

budget: one event that spent something, per dimension, with the running sum; never reset by a recovery
    session_id text the session
    seq int the event
    ts time when
    dimension text tokens by kind, cost_usd, model_calls, tool_calls, active_s, steps, tool:<name>; if limited tokens, wall_s
    spent float spent by this event
    used float spent up to and with this event
    limit float limit in force; missing when there is none

decisions: one decision
    session_id text the session
    seq int its event
    ts time when
    action text what was chosen
    why text why
    last_result text what the last result said
    alternatives json what else was considered
    model text model that decided
    step int plan step
    attempt int pass of the outer loop
    superseded bool set aside by a later restored_to

guard: one verdict of the loop guard
    session_id text the session
    seq int its event
    ts time when
    rule text rule that found a repetition
    action text what followed: nudge, pause or stop
    evidence json event numbers it rests on
    message text what the model was told
    step int plan step
    superseded bool set aside by a later restored_to

sessions: one session
    session_id text the session
    task text name of the task
    model text model of the definition
    status text new, running, queued, paused, waiting or ended; SQL sees no processes: a crashed session reads as running
    outcome text completed, failed or cancelled; missing before the end
    reason text why it is paused or what it waits for
    events int events up to the newest commit
    started_at time when the task was accepted
    last_at time newest event
    ended_at time end; missing before
    wall_s float from start to the newest event
    turns int answers of the model with purpose act
    model_calls int answers of the model
    tool_calls int tool calls with a result
    tool_errors int tool calls that ended in an error
    steps_done int plan steps completed
    attempts int passes of the outer loop
    input_tokens int tokens read by the model
    output_tokens int tokens written by the model
    tokens int both
    cost_usd float price of model and tools; missing when nothing is priced
    crashes int deaths of a harness
    sandbox_losses int deaths of a sandbox
    incarnations int harnesses that worked on it
    checkpoints int checkpoints written
    effects int effects completed
    faults int faults injected
    superseded bool any of its events was set aside by a restored_to
    forked_from text session that it was forked from; missing when it is no fork. Counts and sums are of its own events
    forked_at int last event that it shares with that session
"""

_ORDERS = {"calls": "session_id, requested_seq", "sessions": "session_id", "budget": "session_id, seq, dimension"}


def _parse(table: str) -> dict[str, View]:
    views: dict[str, View] = {}
    for block in table.strip().split("\n\n"):
        head, *lines = block.splitlines()
        name, meaning = head.split(": ", 1)
        columns = []
        for line in lines:
            column, kind, words = line.split(None, 2)
            columns.append(Column(column, kind, words))  # type: ignore[arg-type]
        views[name] = View(name, meaning, tuple(columns), _ORDERS.get(name, "session_id, seq"))
    return views


VIEWS: dict[str, View] = _parse(_TABLE)
"""Every view by name."""
