"""Misdeeds in the simulated world: what a model, a tool and a tool in a sandbox do wrong, without waiting and without dying.

They give what the same words give with real processes (:mod:`agentlab.harness.misbehaving`,
:mod:`agentlab.toolhost.misdeeds`); a sample of schedules is run in both worlds and compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from agentlab.errors import ModelError
from agentlab.harness.misbehaving import Misbehaving
from agentlab.harness.simulation import result_line
from agentlab.models.failures import from_status
from agentlab.ports import Execution, Model, ModelReply, ModelRequest, ToolInvocation, ToolOutcome
from agentlab.sandbox.simulated import Outcome, Workspace
from agentlab.toolhost.misdeeds import wrong_value
from agentlab.toolhost.wire import RESULT_PREFIX, to_line

ASKED_FOR = "a fault that was asked for"
Sleep = Callable[[float], None]


class SimulatedMisbehavingModel(Misbehaving):
    """A call that a trouble is due for ends as it would end on the wire."""

    def __init__(self, inner: Model, sleep: Sleep) -> None:
        super().__init__(inner)
        self._sleep = sleep

    def _broken(
        self, request: ModelRequest, on_text: Callable[[str], None] | None, kind: str, value: float
    ) -> ModelReply:
        if kind == "unknown_tool":
            strange = {"type": "tool_use", "id": "toolu_strange", "name": "no_such_tool", "input": {}}
            return replace(self._inner.complete(request), content=[strange], stop_reason="tool_use")
        if kind == "timeout":
            self._sleep(value)
        raise model_error(kind, value)


def model_error(kind: str, value: float) -> ModelError:
    """What a kind of the vocabulary means to whoever asked."""
    if kind.isdigit():
        headers = {"retry-after": f"{value:g}"} if kind == "429" else {}
        types = {"429": "rate_limit_error", "500": "api_error", "529": "overloaded_error"}
        return from_status(int(kind), {"error": {"type": types[kind], "message": ASKED_FOR}}, headers, 0.0)
    named = {"cut": "connection", "refusal": "refused"}.get(kind, kind)
    return ModelError(named, f"{kind}: {ASKED_FOR}")


def called(
    invocation: ToolInvocation, call: Callable[[ToolInvocation], ToolOutcome], sleep: Sleep
) -> tuple[ToolOutcome, bool]:
    """The outcome of a call whose tool misbehaves, and whether the tool did its work."""
    assert invocation.misdeed is not None
    kind, value = invocation.misdeed
    before = _before(kind, value, invocation.timeout_s, sleep)
    if before is not None:
        return before, False
    outcome = call(replace(invocation, misdeed=None))
    return (_after(kind, outcome) if outcome.ok else outcome), True


def executed(
    execution: Execution, workspace: Workspace, run: Callable[[Execution, Workspace], tuple[Outcome, Workspace]]
) -> tuple[Outcome, Workspace]:
    """The same for a command in a sandbox: what it gives, and the workspace after it."""
    request = json.loads(execution.stdin)
    kind, value = request.pop("misdeed")
    before = _before(kind, value, execution.timeout_s, lambda seconds: None)
    if before is not None and before.kind == "timeout":
        return Outcome(status="timeout", exit_code=None, duration_ms=value * 1000), workspace
    if before is not None:
        return Outcome(stdout=result_line(before)), workspace
    clean = replace(execution, stdin=to_line(request).decode("ascii"))
    outcome, after = run(clean, workspace)
    shown, _, record = outcome.stdout.rpartition(RESULT_PREFIX)
    said = ToolOutcome(**json.loads(record))
    if not said.ok:
        return outcome, after
    if kind == "lost_reply":
        return Outcome(stdout=shown, status="killed", exit_code=-9), after
    return outcome._replace(stdout=shown + result_line(_after(kind, said))), after


def asks_for(execution: Execution) -> bool:
    """Whether a command is to misbehave."""
    return '"misdeed":' in execution.stdin


def _before(kind: str, value: float, timeout_s: float | None, sleep: Sleep) -> ToolOutcome | None:
    """The outcome where nothing was done; None where the tool does its work."""
    if kind == "exception":
        return _raised("InjectedError", f"the tool failed before it did anything ({ASKED_FOR})")
    if kind == "http500":
        return _raised("HTTPError", f"HTTP Error 500: {ASKED_FOR}")
    if kind in ("timeout", "slow"):
        sleep(value)
    if kind == "timeout" or (kind == "slow" and timeout_s is not None and value > timeout_s):
        return ToolOutcome(
            False, kind="timeout", error_type="TimeoutError", message=f"it ran for {value:g} s and was killed"
        )
    return None


def _after(kind: str, outcome: ToolOutcome) -> ToolOutcome:
    """What is heard of work that was done."""
    if kind == "lost_reply":
        return ToolOutcome(
            False, kind="died", error_type="ToolHostDied", message=f"the process that ran it ended: {ASKED_FOR}"
        )
    if kind == "false_failure":
        return _raised("InjectedError", f"the tool did its work and says that it failed ({ASKED_FOR})")
    return replace(outcome, value=wrong_value(kind, outcome.value))


def _raised(error_type: str, message: str) -> ToolOutcome:
    return ToolOutcome(False, kind="raised", error_type=error_type, message=message)
