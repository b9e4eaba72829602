"""The folded state of a session: everything that a harness needs and that a checkpoint stores.

It does not grow with history: plan position, pending calls, pending and in-doubt effects, counters, bounded
windows and references. What must be complete is in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentlab.budget import BudgetState
from agentlab.context import ContextState
from agentlab.definition import StepSpec
from agentlab.evolve import quick
from agentlab.guard import GuardPolicy, GuardState

STATE_SCHEMA_VERSION = 2
RECENT_STEPS = 50


@quick
@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model asked for and that has no result yet.

    ``status``: *requested* (never sent), *started* (may have been sent), *pending* (its effect is registered and
    must be verified before anything else), *in_doubt* (a person decides), *answered*. ``input`` may hold stubs of
    spilled values. ``not_before_us`` is when a retry may begin.
    """

    call_id: str
    tool: str
    input: Mapping[str, Any]
    input_hash: str
    effect: str
    seq: int
    status: str = "requested"
    tries: int = 0
    key: str = ""
    not_before_us: int = 0
    started_in: int = 0
    started_ts: int = 0
    last_error: str = ""
    approved: bool = False
    stateful_read: bool = False
    """A read whose answer changes by itself: no sign of a loop."""
    volatile: tuple[str, ...] = ()
    """Names of arguments that do not tell calls apart."""
    superseded: bool = False
    """The answer that asked for it was superseded while its effect was open: no message shows it or its result."""


LEFT_UNDONE = "left_undone"


@dataclass(frozen=True, slots=True)
class Settled:
    """An external effect that is no longer open: where its first call and its result stand in the log.

    ``outcome`` is *completed*, or *left_undone* when a person decided to go on without knowing whether it happened.
    """

    key: str
    tool: str
    input_hash: str
    first_seq: int
    result_seq: int
    outcome: str
    output: str = ""
    """The digest of its result as a blob, where another session's log holds it; ``result_seq`` is then that of the fork."""


@dataclass(frozen=True, slots=True)
class EffectsState:
    """Registered effects. ``recent`` are settled ones not yet in a chunk; ``chunks`` are blob digests and counts."""

    first_calls: Mapping[str, int] = field(default_factory=dict)
    """Open operations: ``tool input_hash`` to the seq of the first call, which makes the key."""
    recent: tuple[Settled, ...] = ()
    chunks: tuple[tuple[str, int], ...] = ()
    completed: int = 0
    inherited: Mapping[str, str] = field(default_factory=dict)
    """In a fork: operations that are open in a session it comes from, with their keys; verified before they are sent."""


def operation(tool: str, input_hash: str) -> str:
    """The name of an operation: tool and canonical input, whichever call asks for it."""
    return f"{tool} {input_hash}"


@dataclass(frozen=True, slots=True)
class SandboxState:
    """``status``: *none*, *provisioned* (not yet filled), *ready*, *unattached* (after a wake), *lost*.

    ``since_snapshot`` are calls (id, seq) executed after ``snapshot``; a loss runs them again in this order.
    """

    status: str = "none"
    sandbox_id: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0
    filled: bool = False
    """Whether files, snapshot and recorded commands are in place."""
    losses: int = 0
    """Losses in a row with nothing finished in between."""
    snapshot: str = ""
    since_snapshot: tuple[tuple[str, int], ...] = ()
    stale: bool = False
    """The folder holds what a return to a checkpoint superseded: it is emptied before it is filled."""
    changed_bytes: int = 0
    """Bytes of files that no snapshot holds, as measured after the newest command; only where a policy asks for it."""
    restores: int = 0
    """Returns to a checkpoint so far: a command that is run again after one is another execution."""


@dataclass(frozen=True, slots=True)
class StepStats:
    """What one step cost: model calls, tool calls, tokens, milliseconds, retries, errors."""

    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    duration_ms: float = 0.0
    retries: int = 0
    errors: int = 0


@dataclass(frozen=True, slots=True)
class PlanState:
    """Where the plan is. ``steps`` is the plan in force; ``current`` counts from 1, 0 before the first step."""

    steps: tuple[StepSpec, ...] = ()
    source: str = ""
    current: int = 0
    started: bool = False
    rounds: int = 0
    completed: int = 0
    recent: tuple[tuple[str, int, str], ...] = ()
    """The newest completed steps: (id, seq, summary)."""
    stats: Mapping[str, StepStats] = field(default_factory=dict)
    claimed: str = ""
    """The summary with which the model said that the current step is done; empty when it did not."""
    to_validate: bool = False
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failed tries of each tool in the current step since it last succeeded."""
    attempt: int = 0
    answer: str = ""
    """The model's final words of this attempt."""
    finished: bool = False
    """All steps are done (or there are none and the model ended its turn): the task is to be validated."""
    verdict: str = ""
    """What the task's validator said of this attempt: *satisfied*, *unsatisfied*, or empty before it was asked."""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelState:
    """The open model request, and how often it failed."""

    request_id: str = ""
    request_seq: int = 0
    purpose: str = ""
    failures: int = 0
    not_before_us: int = 0
    waited_s: float = 0.0
    gave_up: str = ""
    """Why no further try is made; the session pauses with this reason."""


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The newest checkpoint and what happened since, for the policies."""

    seq: int = 0
    cursor: int = 0
    ts: int = 0
    steps_since: int = 0
    milestone: bool = False
    large_result: bool = False
    requested: tuple[str, str] | None = None
    """An unanswered request by hand: (id, label)."""
    also: tuple[tuple[str, str], ...] = ()
    """Requests with other labels that came before that one was answered; each gets a checkpoint of its own."""
    written: int = 0
    total_cost_ms: float = 0.0
    budget_used: float = 0.0
    """The largest share of any budget that was committed when it was written."""
    effects_completed: int = 0
    passing: int = 0
    """Events since then that are no work (inputs and pauses): single steps must not make a checkpoint due for ever."""


@dataclass(frozen=True, slots=True)
class RecoveryState:
    """The recovery in progress. ``phase``: empty, *needed*, *sandbox*, *rebuild*, *verify*, *statement*, *done*."""

    phase: str = ""
    cause: str = ""
    started_seq: int = 0
    corrections: int = 0
    statement: str = ""
    statement_seq: int = 0
    checkpoint_seq: int = 0
    cursor: int = 0
    replayed: int = 0
    crashes: int = 0
    steps_at_crash: int = 0
    redone: tuple[str, ...] = ()
    went_back: bool = False
    """This recovery has given up what came after the newest checkpoint (scheme *snapshot*)."""
    confirmed: bool = False
    """A person has confirmed that the session may go on."""
    step_ts: int = 0
    """When the newest of the four steps was done, in microseconds: where the next one's duration begins."""
    deaths_here: int = 0
    """Deaths since a plan step was completed or somebody resumed the session."""


@dataclass(frozen=True, slots=True)
class ControlState:
    """What people asked for: pause, step by step, questions."""

    status: str = "new"
    """*new*, *running*, *waiting* (for a person), *paused*, *ended*."""
    reason: str = ""
    rested: bool = False
    """The newest incarnation came to rest by itself: a wake after it is no recovery from a crash."""
    pause_id: str = ""
    pause_reason: str = ""
    pause_detail: str = ""
    mode: str = "run"
    """*run*, or *step*: pause again after one command."""
    resumed_at: int = 0
    resumed_ts: int = 0
    resumed_turns: int = 0
    question_seq: int = 0
    question: Mapping[str, Any] = field(default_factory=dict)
    outcome: str = ""
    seen: tuple[str, ...] = ()
    """Ids of the newest inputs: each counts once."""
    resume_model: str = ""
    tools_allowed: tuple[str, ...] = ()
    """Callables whose source changed after the task was accepted and that somebody allowed as they are now."""
    own_version: int = 0
    """The version of the user's own state after a lift; 0 while it is the one that the task was accepted with."""
    confirm: bool = False
    """Somebody wants to be asked before the next recovery is over."""
    restore: tuple[str, int] | None = None
    """An unanswered request to go back: (id, seq of the checkpoint)."""
    queued: int = 0
    """The place in the lab's queue in which the session waits, as of the newest event that says so; 0 when it does not."""
    queued_seq: int = 0


@dataclass(frozen=True, slots=True)
class LoopState:
    """The guard over the action stream: its policy, what it remembers, and a verdict not yet in the log.

    ``verdict`` is a finding as plain data (rule, action, evidence, message), empty when there is none; ``halt`` is
    the action of a recorded verdict that ends the run (*pause* or *stop*); ``person``: somebody has just spoken,
    which forgives earlier repetition.
    """

    policy: GuardPolicy = field(default_factory=GuardPolicy)
    memory: GuardState = field(default_factory=GuardState)
    verdict: Mapping[str, Any] = field(default_factory=dict)
    halt: str = ""
    rule: str = ""
    person: bool = False
    capped: str = ""
    """Attempt and step (``1:report``) that was recovered at its cap of rounds; hit again, it rests."""


@dataclass(frozen=True, slots=True)
class State:
    """A session as of event ``seq``."""

    session_id: str = ""
    seq: int = 0
    hash: str = ""
    ts: int = 0
    started_ts: int = 0
    woken_ts: int = 0
    incarnation: int = 0
    process: Mapping[str, Any] = field(default_factory=dict)
    baseline: Mapping[str, Any] = field(default_factory=dict)
    control: ControlState = field(default_factory=ControlState)
    plan: PlanState = field(default_factory=PlanState)
    model: ModelState = field(default_factory=ModelState)
    calls: tuple[Call, ...] = ()
    effects: EffectsState = field(default_factory=EffectsState)
    sandbox: SandboxState = field(default_factory=SandboxState)
    context: ContextState = field(default_factory=ContextState)
    budget: BudgetState = field(default_factory=BudgetState)
    checkpoint: CheckpointState = field(default_factory=CheckpointState)
    recovery: RecoveryState = field(default_factory=RecoveryState)
    loop: LoopState = field(default_factory=LoopState)
    faults: tuple[Mapping[str, Any], ...] = ()
    """Armed faults that have not struck yet, as plain data."""
    turns: int = 0
    errors_in_a_row: int = 0
    responses_unread: bool = False
    """The newest answer asked for no tool and waits to be judged (step done, task done or go on)."""

    def call(self, call_id: str) -> Call | None:
        """The pending call of that id, or None."""
        for call in self.calls:
            if call.call_id == call_id:
                return call
        return None

    @property
    def step(self) -> StepSpec | None:
        """The plan step in progress, or None."""
        if 0 < self.plan.current <= len(self.plan.steps):
            return self.plan.steps[self.plan.current - 1]
        return None
