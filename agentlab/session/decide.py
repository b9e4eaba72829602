"""``decide(state, run) -> Command``: what to do next, as one pure function of the folded state.

Every end is looked at before anything is done: ended or paused, a pause that was asked for, a recovery that is
not finished, a checkpoint that is due, calls without a result, validators, limits. Only then the model is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from agentlab import budget
from agentlab.context import due as compaction_due
from agentlab.context import plan_cut
from agentlab.definition import Definition, ToolSpec
from agentlab.policies import Facts
from agentlab.session import commands as c
from agentlab.session import spending
from agentlab.session.recovery import decide_recovery, decide_sandbox
from agentlab.session.schemes import scheme_named
from agentlab.session.state import Call, State

MAX_LOSSES_OF_A_CALL = 3
"""Sandbox losses in a row after which the call that was running is answered as failed: it may be what kills it."""
MAX_LOSSES = 5
"""Losses in a row after which the session pauses: no call is left to blame (a validator, a command run again)."""


_LOOK = "look at it, then wake with --tools current (tools='current')"


@dataclass(frozen=True, slots=True)
class Run:
    """What stays the same while a session runs: its definition, with tools looked up by name."""

    definition: Definition
    tools: dict[str, ToolSpec]
    needs_sandbox: bool

    @classmethod
    def of(cls, definition: Definition) -> Run:
        return cls(definition, {tool.name: tool for tool in definition.tools}, definition.needs_sandbox())


def decide(state: State, run: Run) -> c.Command:
    """The next command. Pure: the same state and definition give the same command."""
    control = state.control
    if control.status in ("ended", "paused", "waiting"):
        return c.Rest(control.status)
    if control.mode == "step" and state.seq > control.resumed_at:
        return c.Pause("step")
    if control.restore is not None:
        return c.Restore(control.restore[1], control.restore[0])
    if control.pause_id:
        return _checkpoint(state, run, pausing=True) or c.Pause("requested", control.pause_reason)
    if control.queued:
        return c.AwaitPlace(control.queued)
    if state.baseline.get("sources_changed"):
        strange = [name for name in state.baseline["sources_changed"] if name not in control.tools_allowed]
        if strange:
            return c.Pause("tools", f"the source of {', '.join(strange)} changed after the task was accepted: {_LOOK}")
    if state.model.gave_up:
        return _pause(state, run, "model", state.model.gave_up)
    if state.loop.verdict:
        return c.RecordVerdict(str(state.loop.verdict["rule"]), str(state.loop.verdict["action"]))
    if state.loop.halt == "pause":
        rounds = state.loop.rule == "rounds"
        return _pause(state, run, "rounds", "hit again") if rounds else _pause(state, run, "loop", state.loop.rule)
    if state.loop.halt == "stop":
        return c.End("failed", f"the guard found a loop: {state.loop.rule}")
    if state.sandbox.losses >= MAX_LOSSES:
        return _pause(
            state, run, "sandbox", f"it was lost {state.sandbox.losses} times in a row; look at what runs in it"
        )
    deaths = run.definition.limits.deaths_per_step
    if deaths is not None and state.recovery.deaths_here > deaths:
        return _pause(state, run, "crashes", f"{state.recovery.deaths_here} deaths of the harness in one step")
    recovering = decide_recovery(state, run.definition)
    if recovering is not None:
        return recovering
    if state.plan.attempt == 0:
        return c.StartAttempt(1)
    return (
        spending.alert(state)
        or _checkpoint(state, run)
        or decide_sandbox(state, run.needs_sandbox)
        or _calls(state, run)
        or _step(state, run)
        or _task(state, run)
        or _limits(state, run)
        or _ask(state, run)
    )


def facts(state: State, *, effect_next: bool = False, pausing: bool = False) -> Facts:
    """What checkpoint triggers may know of a state."""
    since = state.checkpoint.ts or state.started_ts
    step = state.step
    return Facts(
        events=state.seq - state.checkpoint.seq - state.checkpoint.passing,
        steps=state.checkpoint.steps_since,
        seconds=max(0.0, (state.ts - since) / 1e6),
        milestone=state.checkpoint.milestone,
        large_result=state.checkpoint.large_result,
        effect_next=effect_next,
        pausing=pausing,
        step_kind=step.kind if step else "",
        unsnapshotted=len(state.sandbox.since_snapshot),
        unsnapshotted_bytes=state.sandbox.changed_bytes,
        checkpoint_cost_s=state.checkpoint.total_cost_ms / max(1, state.checkpoint.written) / 1000,
        budget_used=budget.share(state.budget) if state.budget.limits else 0.0,
        budget_before=state.checkpoint.budget_used,
        effects=state.effects.completed - state.checkpoint.effects_completed,
        awake_s=max(0.0, (state.ts - state.woken_ts) / 1e6),
        crashes=state.recovery.crashes,
        running_s=max(0.0, (state.ts - state.started_ts) / 1e6),
    )


def _checkpoint(state: State, run: Run, *, effect_next: bool = False, pausing: bool = False) -> c.Command | None:
    requested = state.checkpoint.requested
    if requested is not None:
        return c.WriteCheckpoint("by hand", requested[1], requested[0])
    if state.budget.checkpoint_due:
        return c.WriteCheckpoint(f"budget alert: {state.budget.checkpoint_due}")
    known = facts(state, effect_next=effect_next, pausing=pausing)
    reason = scheme_named(run.definition.scheme).due(run.definition.policy, known)
    return c.WriteCheckpoint(reason) if reason else None


def _pause(state: State, run: Run, reason: str, detail: str = "") -> c.Command:
    return _checkpoint(state, run, pausing=True) or c.Pause(reason, detail)


def _out_of_budget(state: State, run: Run, detail: str) -> c.Command:
    """Whatever the policy says: a checkpoint, then a pause."""
    if state.seq > state.checkpoint.seq + state.checkpoint.passing:
        return c.WriteCheckpoint("budget exhausted")
    return c.Pause("budget", detail)


# --- calls ---------------------------------------------------------------------------------------------------------


def _calls(state: State, run: Run) -> c.Command | None:
    if not state.calls:
        return None
    call = state.calls[0]
    tool = run.tools.get(call.tool)
    if tool is None:
        near = get_close_matches(call.tool, run.tools, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "known: " + ", ".join(sorted(run.tools))
        return c.AnswerCall(call.call_id, call.tool, False, f"there is no tool {call.tool!r}; {hint}", "unknown_tool")
    answer = _answer(call, tool)
    if answer is None and call.effect == "sandboxed" and state.sandbox.losses >= MAX_LOSSES_OF_A_CALL:
        text = f"the sandbox was lost {state.sandbox.losses} times in a row while this ran; it is not run again"
        answer = c.AnswerCall(call.call_id, call.tool, False, text, "sandbox_lost")
    if answer is not None:
        return answer
    if call.status == "pending":
        return c.VerifyEffect(call.call_id, call.tool, call.key)
    if call.status == "in_doubt":
        question = (
            f"Did {call.tool} happen? Nobody can tell. Look outside, then settle {call.key}: done, retry or skip."
        )
        return c.AskPerson(question, "effect", call.call_id, call.key, ("done", "retry", "skip"))
    if tool.needs_approval and not call.approved:
        return c.AskPerson(f"May {call.tool} run?", "approval", call.call_id, options=("approve", "deny"))
    if tool.builtin == "ask_user":
        options = call.input.get("options")
        return c.AskPerson(
            str(call.input.get("question", "")), "question", call.call_id, options=tuple(map(str, options or ()))
        )
    if tool.effect == "external":
        checkpoint = _checkpoint(state, run, effect_next=True)
        if checkpoint is not None:
            return checkpoint
    if tool.builtin is None:
        tired = _tired(state, run, call, tool)
        if tired:
            return _pause(state, run, "retries", tired)
        amounts = spending.call_estimate(state, tool)
        empty = spending.forbidden(state, amounts)
        if empty:
            return _out_of_budget(state, run, empty)
        drawing = spending.draw(state, amounts)
        if drawing is not None:
            return drawing
    return c.RunCall(call.call_id, call.tool, call.effect, call.tries, spending.call_not_before(state, call))


def _tired(state: State, run: Run, call: Call, tool: ToolSpec) -> str:
    """Why a tool that failed before is not tried again in this step without a person; empty when it may be."""
    failed = state.plan.failures.get(tool.name, 0)
    if not failed or call.status != "requested" or call.tries:
        return ""
    step = state.step
    kind = "downstream" if tool.effect == "external" else tool.kind
    if kind == "work" and step is not None:
        kind = step.kind
    retries = tool.retries if tool.retries is not None else run.definition.limits.retries_of(kind)
    if failed <= retries:
        return ""
    return f"{tool.name} failed {failed} times; after a first failure its kind ({kind}) is tried {retries} times again"


def _answer(call: Call, tool: ToolSpec) -> c.AnswerCall | None:
    if call.status == "answered":
        return c.AnswerCall(call.call_id, call.tool, True, call.last_error)
    if call.status == "denied":
        return c.AnswerCall(call.call_id, call.tool, False, "a person denied this call", "denied")
    if call.status == "settled_done":
        return c.AnswerCall(call.call_id, call.tool, True, "a person confirmed that this has happened", "settled")
    if call.status == "settled_skip":
        return c.AnswerCall(call.call_id, call.tool, False, "a person decided to leave this undone", "skipped")
    if call.status == "lost" and not tool.repeatable:
        text = "the sandbox was lost while this ran; it is not run again: check where it stands and decide"
        return c.AnswerCall(call.call_id, call.tool, False, text, "sandbox_lost")
    return None


# --- steps and the whole task --------------------------------------------------------------------------------------


def _step(state: State, run: Run) -> c.Command | None:
    plan = state.plan
    if not plan.steps or plan.finished:
        return None
    if not plan.started:
        empty = spending.step_forbidden(state)
        if empty:
            return _out_of_budget(state, run, empty)
        drawing = spending.draw(state, {"steps": 1}) if "steps" in state.budget.allotted else None
        if drawing is not None:
            return drawing
        following = plan.steps[plan.current]
        return c.StartStep(plan.current + 1, following.id, following.kind, following.title)
    step = plan.steps[plan.current - 1]
    if step.validator is not None:
        if plan.to_validate or plan.claimed or state.responses_unread:
            return c.ValidateStep(plan.current, step.id)
        return None
    if plan.claimed:
        return c.CompleteStep(plan.current, step.id, plan.claimed)
    if state.responses_unread:
        if step.tool is None:
            return c.CompleteStep(plan.current, step.id, plan.answer or "done")
        return c.Remind(plan.current, step.id, f"Step {step.id} ends when {step.tool} has succeeded.")
    return None


def _task(state: State, run: Run) -> c.Command | None:
    plan = state.plan
    if not (plan.finished or (not plan.steps and state.responses_unread)):
        return None
    if run.definition.validator is None or plan.verdict == "satisfied":
        return c.End("completed")
    if plan.verdict == "":
        return c.ValidateTask(plan.attempt)
    if plan.attempt < run.definition.limits.attempts:
        return c.StartAttempt(plan.attempt + 1, plan.reasons)
    return c.End("failed", "; ".join(plan.reasons) or "the validator was not satisfied")


# --- ends that limits set ------------------------------------------------------------------------------------------


def _limits(state: State, run: Run) -> c.Command | None:
    limits = run.definition.limits
    if limits.errors_in_a_row is not None and state.errors_in_a_row >= limits.errors_in_a_row:
        return _pause(state, run, "errors", f"{state.errors_in_a_row} errors in a row")
    if limits.max_turns is not None and state.turns - state.control.resumed_turns >= limits.max_turns:
        return _pause(state, run, "max_turns", f"{state.turns} turns")
    capped = _round_cap(state, run)
    if capped is not None:
        return capped
    return None


def _round_cap(state: State, run: Run) -> c.Command | None:
    """The cap of rounds in a plan step; work without a plan is bounded by turns."""
    cap, plan, step = run.definition.limits.rounds_per_step, state.plan, state.step
    if cap is None or step is None or not plan.started or plan.rounds < cap:
        return None
    if not state.loop.policy.enabled:
        return _pause(state, run, "rounds", f"{plan.rounds} rounds in one step")
    again = state.loop.capped == f"{plan.attempt}:{step.id}"
    return c.BreakRounds(step.id, plan.rounds, cap, state.loop.policy.final if again else "recover")


def _ask(state: State, run: Run) -> c.Command:
    base = spending.request_base(state, run.definition)
    keeping = _keep_context(state, run, base["input_tokens"])
    if keeping is not None and not isinstance(keeping, c.AskModel):
        return keeping
    estimate = spending.request_estimate(state, run.definition)
    empty = spending.request_forbidden(state, run.definition, estimate)
    if empty:
        return _out_of_budget(state, run, empty)
    drawing = spending.draw(state, spending.request_bound(state, run.definition))
    if drawing is not None:
        return drawing
    return keeping or c.AskModel("act", spending.request_not_before(state), estimate["input_tokens"])


def _keep_context(state: State, run: Run, estimated: int) -> c.Command | None:
    """What keeps the context small and on course before the next round: compaction, a judge's look, or a pause."""
    context, spec = state.context, state.context.spec
    if context.over:
        window = run.definition.limits.context_tokens
        detail = (
            f"a request of about {context.over} tokens is over the window of {window}, and nothing is left to compact"
        )
        return _pause(state, run, "context", detail)
    if context.full == "now":
        return _pause(state, run, "anchors", f"{spec.anchors} facts are pinned, and one more was found")
    room = max(0, run.definition.limits.context_tokens - (estimated - context.tokens))
    cut = plan_cut(context, room) if compaction_due(context, room) else None
    if cut is not None:
        if cut.dropped and "model" in spec.parts and not context.told and not context.model_failed:
            return c.AskModel("summary", spending.request_not_before(state))
        return c.Compact(room, cut.strategy, cut.tokens_before, cut.tokens_after)
    if spec.judge and context.round - context.judged_round >= spec.judge_every:
        return c.AskModel("judge", spending.request_not_before(state))
    return None


def compaction_room(state: State, definition: Definition) -> int:
    """Tokens that the window leaves for scratch beside the other layers."""
    beside = spending.request_base(state, definition)["input_tokens"] - state.context.tokens
    return max(0, definition.limits.context_tokens - beside)
