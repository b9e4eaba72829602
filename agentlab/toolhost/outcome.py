"""A call as an execution for a sandbox, and what such an execution ended as. See ``agentlab.toolhost.inside``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from agentlab.ports import Completed, Execution, ToolInvocation, ToolOutcome
from agentlab.toolhost.capture import ending
from agentlab.toolhost.wire import RESULT_PREFIX, SCRATCH_DUMP, to_line

_FIELDS = frozenset({"ok", "value", "kind", "error_type", "message", "traceback", "sent"})
_NEVER_BEGAN = "failed_to_start"


def import_root() -> str:
    """The folder from which agentlab is imported."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def request_of(invocation: ToolInvocation) -> dict[str, Any]:
    """An invocation as JSON for the process that carries it out."""
    return {
        "call_id": invocation.call_id,
        "ref": dict(invocation.ref),
        "arguments": dict(invocation.arguments),
        "key": invocation.key,
        "params": dict(invocation.params),
        **({"misdeed": list(invocation.misdeed)} if invocation.misdeed else {}),
    }


def execution_for(invocation: ToolInvocation, dump_digest: str | None) -> Execution:
    """The command that runs ``invocation`` in a sandbox; ``dump_digest`` is the session's dump of cell-defined code.

    Raises:
        TypeError, ValueError: the arguments are not JSON.
    """
    ref = invocation.ref
    digest = ref.get("blob") or dump_digest
    files = {f"@{SCRATCH_DUMP}": str(digest)} if ref.get("kind") == "dump" and digest else {}
    return Execution(
        # -P: a workspace is written by agents, and its json.py must not become ours.
        argv=[sys.executable, "-P", "-m", "agentlab.toolhost.inside"],
        stdin=to_line(request_of(invocation)).decode("ascii"),
        env={"PYTHONPATH": os.pathsep.join(_import_path(ref))},
        files=files,
        timeout_s=invocation.timeout_s,
    )


def _import_path(ref: Mapping[str, Any]) -> list[str]:
    """Folders that the owner imports from and that the interpreter does not find by itself."""
    own = tuple({os.path.realpath(prefix) + os.sep for prefix in (sys.prefix, sys.base_prefix)})
    found: dict[str, None] = {}
    for path in (import_root(), *map(str, ref.get("sys_path") or ()), *sys.path):
        # Standard library and site-packages come by themselves, and put in front they would shadow each other.
        standard = os.path.realpath(path).startswith(own) and ("site-packages" in path or f"lib{os.sep}python" in path)
        if path and not standard and os.path.isabs(path) and os.path.exists(path):
            found[path] = None
    return list(found)


def result_of(completed: Completed) -> ToolOutcome:
    """What a callable gave in a sandbox.

    A result that was printed counts however the process ended afterwards: the callable had returned. Its line is
    taken out of ``stdout``.
    """
    shown, record = _split(completed.stdout)
    rest: dict[str, Any] = {"stdout": shown, "stderr": completed.stderr, "duration_ms": completed.duration_ms}
    if record is not None:
        return ToolOutcome(**record, **rest)
    kind, error_type, message = _without_result(completed)
    sent = completed.status != _NEVER_BEGAN
    return ToolOutcome(False, kind=kind, error_type=error_type, message=message, sent=sent, **rest)


def _split(stdout: str) -> tuple[str, dict[str, Any] | None]:
    """The output without the result line, and the result; None when it is missing or was cut."""
    at = stdout.rfind(RESULT_PREFIX)
    if at < 0:
        return stdout, None
    line, _, after = stdout[at + len(RESULT_PREFIX) :].partition("\n")
    shown = stdout[:at].removesuffix("\n") + after
    try:
        record = json.loads(line)
    except ValueError:
        return shown, None
    if not isinstance(record, dict) or not isinstance(record.get("ok"), bool) or not record.keys() <= _FIELDS:
        return shown, None
    return shown, record


def _without_result(completed: Completed) -> tuple[str, str, str]:
    """Kind, error type and message of an execution that printed no result."""
    said = ending(completed.stderr)
    if completed.status == "timeout":
        took = completed.duration_ms / 1000
        return (
            "timeout",
            "TimeoutError",
            f"it ran for {took:.1f} s in the sandbox and was killed: raise its timeout{said}",
        )
    if completed.status == "memory":
        return "died", "MemoryError", f"it ran out of the sandbox's memory: raise memory_bytes or use less{said}"
    if completed.status == _NEVER_BEGAN:
        return "died", "ToolHostDied", f"its process could not be started in the sandbox{said}"
    if completed.status == "killed":
        return "died", "ToolHostDied", f"its process was killed in the sandbox (exit code {completed.exit_code}){said}"
    if completed.truncated and RESULT_PREFIX in completed.stdout or (completed.truncated and completed.exit_code == 0):
        message = "its value does not fit into the output that the sandbox keeps: write it to a file, return the path"
        return "garbage", "ValueError", message
    return "died", "ToolHostDied", f"its process ended with exit code {completed.exit_code} and no result{said}"
