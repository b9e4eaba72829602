"""The vocabulary: every kind of event, who may append it, and the fields of its payload.

Each kind belongs to exactly one class:

* *opening*: begins a session or an incarnation of its harness;
* *fact*: something that happened; after a lost race for a seq it is appended again with the next one;
* *intent*: something the harness is about to do; after a lost race it is decided again;
* *input*: comes from anyone at any time, carries an ``id`` and counts once.

A fact or intent is valid only if its incarnation equals that of the newest opening before it. Later versions
add kinds and optional fields; they never rename. Fields marked with ``?`` are optional.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Class = Literal["opening", "fact", "intent", "input"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event. ``fields`` lists payload fields; those ending in ``?`` may be absent."""

    name: str
    cls: Class
    meaning: str
    fields: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the payload fields that must be present."""
        return _REQUIRED[self.name]


_TABLE: tuple[tuple[Class, str, str, str], ...] = (
    # class, name, payload fields, meaning
    ("opening", "session_started", "definition baseline input steps? limits? guard? context? budget? parent? labels? effects? note?",
     "a task is accepted; the definition says everything that a harness needs to run it; parent (session, seq, hash) makes it a fork"),
    ("opening", "harness_woken", "process baseline reason cursor checkpoint_seq? previous? changed? death?",
     "a harness opens a new incarnation; process is host, boot_id, pid, start_time"),
    ("fact", "baseline_changed", "fields before after",
     "this incarnation runs under another version, model, tool source or limit than the one before"),
    # plan and steps
    ("fact", "plan_set", "steps source", "the steps of the plan (id, kind, title, parameters?, expected?)"),
    ("fact", "step_started", "step_id kind title?", "work on a plan step begins"),
    ("fact", "step_completed", "step_id summary evidence?", "a step's validator is satisfied, or it has none and was declared done"),
    ("fact", "step_validated", "step_id satisfied reasons", "a step's validator was asked"),
    ("fact", "attempt_started", "attempt reasons?", "a pass of the outer loop begins"),
    ("fact", "task_validated", "satisfied reasons", "the whole task's validator was asked"),
    # model
    ("intent", "model_request", "request_id purpose layers tokens_estimate estimate? reserved? digest blocks? notes?",
     "the model is about to be asked; layers gives block references and sizes, never the whole conversation"),
    ("fact", "model_response", "request_id purpose content stop_reason text? tool_calls? usage? served_by?", "the model's answer, once"),
    ("fact", "model_error", "request_id kind message status? retry_after_s? will_retry delay_s? at_risk?",
     "a model call failed"),
    ("fact", "decision", "action why last_result? alternatives?", "what was chosen, why, and what the last result said"),
    # tools and effects
    ("fact", "tool_requested", "call_id tool input effect model_call_id? batch? stateful_read? volatile?",
     "the model asked for a tool: not sent yet"),
    ("intent", "tool_started", "call_id tool exec_id?", "a call that is not repeatable is about to be sent"),
    ("fact", "tool_result", "call_id tool output summary? stdout? stderr? exitCode? reused? effect_of? effect_of_session?"
     " late? changed_bytes? truncated? not_run?",
     "the one result of a call"),
    ("fact", "tool_error", "call_id tool message kind? output? stdout? stderr? exitCode? tries? retryable? not_run? traceback?",
     "a call failed; the model sees it and chooses"),
    ("fact", "retry_scheduled", "what reason attempt delay_s ref?", "a failed model or tool call will be tried again"),
    ("intent", "effect_pending", "key call_id tool input_hash deadline? try", "an external effect is about to be executed with this key"),
    ("fact", "effect_completed", "key call_id tool input_hash? result? verified?", "the outside confirmed the effect"),
    ("fact", "effect_failed", "key call_id tool reason", "the effect surely did not happen"),
    ("fact", "effect_verified", "key call_id tool outcome evidence? next",
     "a pending effect was checked at recovery: completed, not_done or unknown"),
    ("fact", "effect_in_doubt", "key call_id tool reason", "nobody can tell whether the effect happened; a person decides"),
    ("input", "effect_settled", "id key decision by? note?", "a person decided on an effect in doubt: done, retry or skip"),
    # sandbox
    ("fact", "sandbox_ready", "sandbox_id record resources restored_from? generation", "a sandbox is provisioned and attached"),
    ("fact", "sandbox_attached", "sandbox_id finished", "a living sandbox is taken up again by this incarnation"),
    ("fact", "sandbox_lost", "sandbox_id reason last_snapshot? unsaved", "the sandbox is dead or its folder gone"),
    ("fact", "sandbox_restored", "sandbox_id snapshot rerun differs not_rerun? bytes? since? duration_ms?",
     "the workspace is back: snapshot restored and recorded commands run again"),
    ("fact", "execution_rerun", "call_id exec_id same recorded? now?", "a recorded command was run again after a loss"),
    ("fact", "snapshot_taken", "digest files bytes new_bytes last_exec_id duration_ms?", "the workspace was packed to a reference"),
    ("fact", "snapshot_skipped", "digest reason", "a snapshot can not be restored; one before it serves, and commands run again"),
    ("fact", "sandbox_destroyed", "sandbox_id", "the sandbox was given back"),
    # checkpoints
    ("fact", "checkpoint_written", "checkpoint_id schema_version cursor cursor_hash state reason size_bytes"
     " label? snapshot? request_id? effect_chunks? scheme?",
     "a folded state and the seq it stands for"),
    ("fact", "checkpoint_skipped", "checkpoint_seq reason", "a checkpoint did not verify at load; the one before it serves"),
    ("input", "checkpoint_requested", "id label?", "somebody asked for a checkpoint by hand"),
    ("input", "own_state_lifted", "id from_version to_version facts steps by?",
     "a user's own state (pinned facts, parameters of pending steps) was lifted to a newer version of it"),
    ("fact", "restored_to", "checkpoint_seq cursor superseded_from superseded_to reason state? schema_version? request_id?"
     " label? note? purified?",
     "what came after the checkpoint is superseded; state is the one to go on from"),
    ("input", "restore_requested", "id checkpoint_seq by?", "somebody asked to go back to a checkpoint"),
    ("fact", "restore_refused", "id checkpoint_seq reason", "a checkpoint can not be gone back to; the session goes on"),
    # recovery
    ("fact", "recovery_started", "cause plan lost?", "the four steps of a recovery begin"),
    ("fact", "recovery_step", "step outcome detail? duration_ms?", "one of load, rebuild, verify, statement is done"),
    ("fact", "statement_checked", "passed corrections statement? expected? by?",
     "the model's account of where it is, checked against the log"),
    ("fact", "recovery_completed", "lost_steps redone tax? strategy? scheme? duration_ms?", "the session goes on"),
    # budget
    ("intent", "budget_reserved", "reservation amounts", "cost set aside before it is spent"),
    ("fact", "budget_settled", "reservation amounts returned?", "the actual cost of a reservation"),
    ("fact", "budget_alert", "dimension used limit threshold", "a threshold was passed"),
    ("input", "budget_extended", "id dimension limit expected_version by?", "an absolute new limit against an expected version"),
    ("fact", "budget_allotted", "pool allotted reason reservation? before?",
     "what the lab's pool has set aside for this session, in all; reservation is the pool's id for it"),
    ("fact", "budget_refused", "pool dimension needed", "the lab's pool has not enough left"),
    ("input", "usage_reported", "id reservation amounts by?", "what a cut call really cost has become known"),
    # context
    ("fact", "anchor_set", "name value source", "a fact that stays visible whatever is dropped; an empty value takes it away"),
    ("fact", "anchors_full", "name value cap", "a fact found no place among those that stay visible; the session pauses once"),
    ("fact", "context_compacted", "dropped kept tokens_before tokens_after strategy shortened? summary? window? over?",
     "scratch was made smaller; the log keeps all"),
    ("fact", "drift_measured", "distance threshold restated by? why? rounds?",
     "the distance between the task and the last rounds passed the threshold, or a model judged it"),
    # loop control
    ("fact", "guard_verdict", "rule evidence action message? checkpoint_seq?", "a repetition was found"),
    ("input", "user_reply", "id question_seq text by?", "a person answered a question"),
    ("input", "approval_given", "id question_seq by? note?", "a person approved"),
    ("input", "approval_denied", "id question_seq by? note?", "a person denied"),
    ("input", "pause_requested", "id reason mode by? detail?", "pause at the next safe point, or now"),
    ("input", "resume_requested", "id by? mode? model? confirm? tools?", "go on after a pause"),
    ("intent", "question_asked", "question kind options? call_id? key?", "a person is needed; the session waits"),
    ("intent", "session_queued", "pool place?", "the lab runs as many sessions as it may; this one waits"),
    ("fact", "session_admitted", "pool place? waited_s?", "a place is free: the session that waited in the queue goes on"),
    ("intent", "session_paused", "reason detail? next?", "the session rests and can be resumed"),
    ("intent", "session_ended", "outcome result totals steps", "the task is finished, failed or cancelled"),
    # faults and deaths
    ("input", "fault_armed", "id schedule seed?", "a schedule of faults is in force"),
    ("input", "fault_injected", "id fault target action point? at_us? ref?", "an injected fault struck, to be told from real ones"),
    ("input", "harness_died", "id incarnation pid signal? exit_code? detail?", "a harness was found dead"),
    # experiments
    ("fact", "run_recorded", "condition values row seed? number? error?", "one run of a sweep is over, with what was measured"),
    ("input", "note_added", "id text by?", "a remark for readers of the log"),
    # a lab's pool (in a log of its own)
    ("input", "pool_limited", "id max_sessions by?", "how many sessions the lab runs at once; none for no limit"),
    ("input", "pool_extended", "id dimension limit expected_version by?",
     "an absolute new limit for all sessions of the lab together, against an expected version; none takes it away"),
    ("input", "pool_joined", "id session incarnation allotted brought",
     "a harness draws on the pool from now on; brought is what its session spent before, which is not the pool's"),
    ("input", "pool_drawn", "id session incarnation allotted", "more was set aside for a session: what it has now, in all"),
    ("input", "pool_returned", "id session incarnation allotted closed reason?",
     "what a session does not need any more was given back; closed sessions draw no more"),
    ("input", "pool_quota", "id key per_minute by?",
     "sends per minute of a tool, a service or model requests, for all sessions of the lab together"),
    ("input", "pool_paced", "id session keys", "a session is about to send; it counts towards these quotas"),
    ("input", "pool_summed", "id cursor cursor_hash state", "the pool's whole state as of the event before, for quick reading"),
    ("input", "place_asked", "id session process keeper?",
     "a session wants a place to run in; the first time draws its ticket, later ones renew who stands behind it"),
    ("input", "place_taken", "id session", "a session has a place and runs"),
    ("input", "place_left", "id session reason by?", "a session gave its place or its ticket back, or its owner is gone"),
)  # fmt: skip

KINDS: dict[str, Kind] = {
    name: Kind(name, cls, meaning, tuple(fields.split())) for cls, name, fields, meaning in _TABLE
}
"""Every kind by name."""

_REQUIRED: dict[str, tuple[str, ...]] = {
    name: tuple(f for f in kind.fields if not f.endswith("?")) for name, kind in KINDS.items()
}
