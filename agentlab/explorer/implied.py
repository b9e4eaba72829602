"""What the log implies, worked out anew: spending added up from the events, the workspace by its recorded commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentlab.events import Event, resolve
from agentlab.explorer.world import World
from agentlab.ports import ToolInvocation
from agentlab.sandbox.snapshot import decode
from agentlab.session.state import State
from agentlab.toolhost.outcome import execution_for

TOKENS = ("input_tokens", "output_tokens")


def spending(events: Sequence[Event], state: State) -> str:
    """Whether the folded budget counts less than the answers in the log cost; empty when it does not."""
    for dimension in TOKENS:
        spent = sum(getattr(e, dimension) or 0 for e in events if e.type == "model_response")
        used = state.budget.used.get(dimension, 0)
        if used < spent:
            return f"{dimension}: the log's answers cost {spent}, the budget counts {used}"
    calls = sum(e.type in ("tool_result", "tool_error") and _ran(e) for e in events)
    if state.budget.used.get("tool_calls", calls) < calls:
        return f"tool_calls: the log has {calls}, the budget counts {state.budget.used['tool_calls']}"
    return ""


def _ran(event: Event) -> bool:
    return event.type == "tool_result" and not (event.payload.get("not_run") or event.payload.get("reused"))


def workspace(world: World, events: Sequence[Event]) -> str:
    """How the last snapshot differs from the task's files after every recorded command; empty when it does not.

    Commands that failed on the way are no evidence of what they left behind: then nothing is said.
    """
    subject = world.subject
    ended = next((e for e in reversed(events) if e.type == "session_ended"), None)
    digest = ended.payload["result"].get("snapshot") if ended is not None else None
    if not digest or any(e.type in ("tool_error", "retry_scheduled") for e in events):
        return ""
    files: Mapping[str, bytes] = {path: world.store.blobs.get(blob) for path, blob in subject.definition.files.items()}
    requested = {e.payload["call_id"]: e for e in events if e.type == "tool_requested"}
    for event in events:
        tool = subject.tools.get(str(event.tool_name))
        if (
            event.type != "tool_result"
            or tool is None
            or tool.effect != "sandboxed"
            or tool.ref is None
            or not _ran(event)
        ):
            continue
        given: Any = resolve(dict(requested[event.payload["call_id"]].payload["input"]), world.store.blobs.get)
        asked = ToolInvocation(
            event.payload["call_id"], tool.ref, given, params=subject.definition.params, timeout_s=tool.timeout_s
        )
        _, files = subject.runner(execution_for(asked, None), files)
    kept = {e.path: world.store.blobs.get(e.ref) for e in decode(world.store.blobs.get(digest)) if e.kind == "file"}
    implied = {path: data for path, data in files.items() if not path.startswith("@")}
    wrong = sorted(path for path in {*kept, *implied} if kept.get(path) != implied.get(path))
    return f"{wrong[0]} is not what the recorded commands leave" if wrong else ""
