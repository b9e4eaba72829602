"""What the guard sees of a tool call: the call, its outcome, and where in the log both stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentlab.events import Json, canonical

_PERSON = frozenset(("user_reply", "approval_given", "approval_denied", "resume_requested"))
Outcome = Literal["ok", "error"]


@dataclass(frozen=True, slots=True)
class Action:
    """One finished tool call.

    ``seq`` is the event that finished it and serves as evidence. ``stateful_read`` declares a read whose result is
    expected to change by itself: any difference counts, times and pids included. ``thought`` (the model's own words)
    never identifies a call, nor do the arguments named in ``volatile``. Calls of one model answer share ``batch``:
    the model saw none of their results before it asked for all of them, so they count as one round.
    ``after_person`` says that somebody spoke to the run since the call before: what was repeated earlier is forgiven.
    """

    tool: str
    input: Json
    outcome: Outcome = "ok"
    result_text: str = ""
    error_type: str | None = None
    error_text: str | None = None
    seq: int = 0
    step: int | None = None
    stateful_read: bool = False
    thought: str = ""
    volatile: tuple[str, ...] = ()
    batch: str | None = None
    after_person: bool = False


def actions_from_events(events: Iterable[Any], tools: Mapping[str, Any] | None = None) -> list[Action]:
    """The finished calls of a log, each ``tool_requested`` paired with the one result of its call id.

    Events are read by attribute (``type``, ``payload``, ``seq``, ``step``, ``error_type``), so rows of a live log and
    of an import serve alike; a result without its request is left out, and so is a request without a result. ``tools``
    maps names to declarations with ``stateful_read`` and ``volatile``.
    """
    asked: dict[Any, tuple[Any, str]] = {}
    found: list[Action] = []
    group, spoken = "", False
    for event in events:
        call_id = event.payload.get("call_id") if event.payload else None
        spoken = spoken or event.type in _PERSON or _forgiven(event)
        if event.type == "tool_requested":
            # Requests with no result between them were made by one answer of the model.
            group = group or str(event.seq)
            asked[call_id] = (event, group)
        elif event.type in ("tool_result", "tool_error"):
            group = ""
            if call_id in asked:
                request, batch = asked.pop(call_id)
                if request.payload.get("effect") == "builtin" or event.payload.get("reused"):
                    continue  # what touches the session alone, or nothing at all, is no action
                declared = (tools or {}).get(request.payload.get("tool", ""))
                found.append(action_of(request, event, declared, batch=batch, after_person=spoken))
                spoken = False
    return found


def _forgiven(event: Any) -> bool:
    """A return to before a repetition: what led there does not count again."""
    recovered = event.type == "guard_verdict" and event.payload.get("action") == "recover"
    return bool(recovered or event.type == "restored_to")


def action_of(
    requested: Any, finished: Any, declared: Any = None, *, batch: str | None = None, after_person: bool = False
) -> Action:
    """One call from its ``tool_requested`` and its ``tool_result`` or ``tool_error`` event.

    ``batch`` is any text that the calls of one model answer have in common, and no others.
    """
    request, result = requested.payload, finished.payload
    failed = finished.type == "tool_error" or result.get("exitCode") not in (None, 0)
    error_type = getattr(finished, "error_type", None) or result.get("kind")
    return Action(
        tool=str(request.get("tool", "")),
        input=request.get("input"),
        outcome="error" if failed else "ok",
        result_text=_text(result),
        error_type=str(error_type) if failed and error_type else None,
        error_text=str(result["message"]) if failed and result.get("message") else None,
        seq=int(finished.seq),
        step=getattr(finished, "step", None),
        stateful_read=bool(getattr(declared, "stateful_read", request.get("stateful_read", False))),
        volatile=tuple(getattr(declared, "volatile", request.get("volatile", ()))),
        batch=batch,
        after_person=after_person,
    )


def _text(payload: Mapping[str, Any]) -> str:
    parts = []
    for name in ("output", "stdout", "stderr"):
        value = payload.get(name)
        if value not in (None, ""):
            parts.append(value if isinstance(value, str) else canonical(value))
    # A tool often reports the same text as output and as stdout; once is enough.
    return "\n".join(dict.fromkeys(parts))
