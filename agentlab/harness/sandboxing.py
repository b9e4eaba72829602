"""Getting a sandbox, taking one up again, and filling its workspace: snapshot or files, then recorded commands."""

from __future__ import annotations

from typing import Any

from agentlab.errors import SandboxError, SandboxGone
from agentlab.events import Draft
from agentlab.harness import toolcalls
from agentlab.harness.refilling import put_back
from agentlab.harness.rig import Rig
from agentlab.ports import Completed, ToolInvocation
from agentlab.session.commands import AttachSandbox, FillWorkspace, ProvisionSandbox
from agentlab.toolhost.outcome import result_of


def perform_provision(command: ProvisionSandbox, rig: Rig) -> list[Draft]:
    """A fresh sandbox; its record is durable before anything runs in it."""
    rig.recorder.commit()
    resources = rig.run.definition.resources
    started = rig.clock.monotonic()
    sandbox = rig.sandboxes.provision(rig.state.session_id, rig.recorder.incarnation, resources)
    rig.sandbox = sandbox
    rig.unacknowledged.clear()
    restored_from = rig.state.sandbox.snapshot or None
    payload: dict[str, Any] = {
        "sandbox_id": sandbox.sandbox_id,
        "record": dict(sandbox.record),
        "resources": {"timeout_s": resources.timeout_s, "memory_bytes": resources.memory_bytes},
        "generation": command.generation,
    }
    if restored_from:
        payload["restored_from"] = restored_from
    duration = round((rig.clock.monotonic() - started) * 1000, 3)
    # A sandbox that nobody has on record ends itself; it is told that it is on record after the commit.
    rig.recorder.commit((Draft("sandbox_ready", payload, duration_ms=duration, step=_step(rig)),))
    try:
        sandbox.confirm()
    except SandboxGone as error:
        return [toolcalls.lost_draft(rig, str(error))]
    return []


def perform_attach(command: AttachSandbox, rig: Rig) -> list[Draft]:
    """Take up the sandbox that the log names, with the results that it kept."""
    rig.recorder.commit()
    try:
        rig.sandbox = rig.sandboxes.attach(
            rig.state.sandbox.record, rig.recorder.incarnation, rig.run.definition.resources
        )
        rig.sandbox.confirm()
        finished = list(rig.sandbox.finished())
        open_calls = {call.call_id for call in rig.state.calls}
        rig.sandbox.acknowledge([e for e in finished if e.rpartition(".")[0] not in open_calls])
    except SandboxGone as error:
        return [toolcalls.lost_draft(rig, str(error))]
    return [Draft("sandbox_attached", {"sandbox_id": command.sandbox_id, "finished": finished[:100]}, step=_step(rig))]


def perform_fill(command: FillWorkspace, rig: Rig) -> list[Draft]:
    """Snapshot or files into the workspace, then the recorded commands that came after, compared with the record."""
    rig.recorder.commit()
    started = rig.clock.monotonic()
    assert rig.sandbox is not None
    rerun: list[str] = []
    differs: list[dict[str, Any]] = []
    not_rerun: list[str] = []
    try:
        served, since, size, drafts = put_back(rig, command.snapshot)
        for call_id, seq in since:
            drafts += _rerun(rig, call_id, seq, rerun, differs, not_rerun)
    except SandboxGone as error:
        return [toolcalls.lost_draft(rig, str(error))]
    payload: dict[str, Any] = {
        "sandbox_id": rig.sandbox.sandbox_id,
        "snapshot": served or None,
        "rerun": rerun,
        "differs": differs,
        "not_rerun": not_rerun,
        "bytes": size,
    }
    if served != command.snapshot:
        payload["since"] = [list(item) for item in since]
    duration = round((rig.clock.monotonic() - started) * 1000, 3)
    return [*drafts, Draft("sandbox_restored", payload, duration_ms=duration, step=_step(rig))]


def _rerun(
    rig: Rig, call_id: str, seq: int, rerun: list[str], differs: list[dict[str, Any]], not_rerun: list[str]
) -> list[Draft]:
    recorded = next(iter(rig.log.replay(seq, seq)))
    request = next(iter(rig.log.replay(recorded.parent_seq or seq, recorded.parent_seq or seq)))
    tool = rig.run.tools.get(request.payload["tool"])
    if tool is None or not tool.repeatable:
        not_rerun.append(call_id)
        return []
    arguments = rig.content(dict(request.payload["input"]))
    call = ToolInvocation(
        call_id, tool.ref or {}, arguments, timeout_s=tool.timeout_s, params=rig.run.definition.params
    )
    assert rig.sandbox is not None
    # The incarnation is in the id: a filling that was cut short begins again with commands of its own.
    exec_id = toolcalls.execution_id(call_id, f"again{rig.recorder.incarnation}", rig.state.sandbox.restores)
    try:
        completed = rig.sandbox.execute(exec_id, rig.execution_for(call))
    except SandboxGone:
        raise
    except SandboxError as error:
        completed = Completed(exec_id, "failed_to_start", None, "", str(error), 0.0)
    rig.sandbox.acknowledge([exec_id])
    outcome = result_of(completed)
    was_ok = recorded.type == "tool_result"
    before = rig.content(dict(recorded.payload)).get("output" if was_ok else "message")
    now = outcome.value if outcome.ok else outcome.message
    same = outcome.ok == was_ok and now == before
    rerun.append(call_id)
    payload: dict[str, Any] = {"call_id": call_id, "exec_id": exec_id, "same": same}
    if not same:
        payload.update({"recorded": before, "now": now})
        differs.append(
            {
                "call_id": call_id,
                "tool": tool.name,
                "recorded": toolcalls.summary(before),
                "now": toolcalls.summary(now),
            }
        )
    return [
        Draft(
            "execution_rerun",
            payload,
            tool_name=tool.name,
            call_id=call_id,
            duration_ms=outcome.duration_ms,
            parent_seq=seq,
        )
    ]


def _step(rig: Rig) -> int | None:
    return rig.state.plan.current or None
