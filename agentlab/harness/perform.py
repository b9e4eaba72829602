"""``perform(command)``: the only place with input and output. It answers with events.

Anything that a performer stages or returns becomes durable before the world outside is touched again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentlab.events import Draft
from agentlab.harness import (
    asking,
    breaking,
    checkpointing,
    compacting,
    effects,
    ending,
    planning,
    pooling,
    queueing,
    recovering,
    restoring,
    sandboxing,
    toolcalls,
)
from agentlab.harness.anchoring import with_anchors
from agentlab.harness.rig import Rig
from agentlab.session import commands as c
from agentlab.session.commands import Command
from agentlab.session.spending import wall_ms


def _verdict(command: c.RecordVerdict, rig: Rig) -> list[Draft]:
    return [Draft("guard_verdict", dict(rig.state.loop.verdict), step=rig.state.plan.current or None)]


def _alert(command: c.RaiseAlert, rig: Rig) -> list[Draft]:
    state = rig.state
    used = wall_ms(state) if command.dimension == "wall_ms" else state.budget.committed(command.dimension)
    payload = {
        "dimension": command.dimension,
        "used": used,
        "limit": state.budget.limits[command.dimension],
        "threshold": command.threshold,
    }
    return [Draft("budget_alert", payload, step=state.plan.current or None)]


PERFORMERS: dict[type[Command], Callable[[Any, Rig], list[Draft]]] = {
    c.AskModel: asking.perform_ask,
    c.RunCall: toolcalls.perform_call,
    c.AnswerCall: toolcalls.perform_answer,
    c.VerifyEffect: effects.perform_verify,
    c.ProvisionSandbox: sandboxing.perform_provision,
    c.AttachSandbox: sandboxing.perform_attach,
    c.FillWorkspace: sandboxing.perform_fill,
    c.WriteCheckpoint: checkpointing.perform_checkpoint,
    c.Compact: compacting.perform_compact,
    c.RecordVerdict: _verdict,
    c.BreakRounds: breaking.perform_break,
    c.StartAttempt: planning.perform_start_attempt,
    c.StartStep: planning.perform_start_step,
    c.ValidateStep: planning.perform_validate_step,
    c.CompleteStep: planning.perform_complete_step,
    c.Remind: planning.perform_remind,
    c.ValidateTask: planning.perform_validate_task,
    c.StartRecovery: recovering.perform_start_recovery,
    c.RebuildContext: recovering.perform_rebuild,
    c.FinishVerification: recovering.perform_finish_verification,
    c.CheckStatement: recovering.perform_check_statement,
    c.CompleteRecovery: recovering.perform_complete_recovery,
    c.Restore: restoring.perform_restore,
    c.AwaitPlace: queueing.perform_await_place,
    c.RaiseAlert: _alert,
    c.DrawBudget: pooling.perform_draw,
    c.Pause: ending.perform_pause,
    c.AskPerson: ending.perform_ask_person,
    c.End: ending.perform_end,
}


_CALLS = (c.RunCall, c.VerifyEffect)


def perform(command: Command, rig: Rig) -> list[Draft]:
    """Carry out ``command``; the events returned are still to be staged.

    Raises:
        Redecide: an input landed before the write-ahead; nothing was done.
        Fenced: a newer incarnation owns the session.
    """
    drafts = PERFORMERS[type(command)](command, rig)
    return with_anchors(drafts, rig) if type(command) in _CALLS else drafts
