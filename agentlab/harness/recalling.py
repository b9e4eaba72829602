"""``recall``: what left the context, fetched back from the log; by number, page by page, or by words. It only reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from agentlab.events import Event, canonical
from agentlab.harness.rig import Rig

MAX_EVENTS = 50
MAX_HITS = 20
PAGE = 8_000
"""Characters of one event that one call gives."""
_AROUND = 150
_SEARCHED = frozenset(
    {"session_started", "model_response", "tool_requested", "tool_result", "tool_error", "user_reply", "step_completed",
     "anchor_set", "context_compacted", "note_added", "recovery_step"}
)  # fmt: skip


def recall(rig: Rig, arguments: Mapping[str, Any]) -> tuple[Any, str]:
    """What was asked for, and an empty text; or nothing, and what is wrong with the question."""
    rig.recorder.commit()  # the log is read as of now, staged answers too
    query = arguments.get("query")
    if isinstance(query, str) and query.strip():
        return search(rig, query), ""
    try:
        first = max(1, int(arguments["from_seq"]))
        last = int(arguments.get("to_seq") or first)
        offset = max(0, int(arguments.get("offset") or 0))
    except KeyError:
        return None, "give from_seq (an event's number) or query (words to look for)"
    except (TypeError, ValueError):
        return None, "from_seq, to_seq and offset are numbers"
    last = min(last, first + MAX_EVENTS - 1, rig.recorder.committed.seq)
    found = list(rig.log.replay(first, last)) if last >= first else []
    if len(found) == 1:
        return _page(rig, found[0], offset), ""
    return [_short(event) for event in found], ""


def search(rig: Rig, query: str) -> list[dict[str, Any]]:
    """The newest events that hold every word of ``query``, oldest first, each with the text around the first word."""
    words = query.casefold().split()
    hits: deque[dict[str, Any]] = deque(maxlen=MAX_HITS)
    for event in rig.log.replay(1, rig.recorder.committed.seq):
        if event.type not in _SEARCHED or event.tool_name == "recall":
            continue
        text = event.payload_text.casefold()
        if all(word in text for word in words):
            at = text.find(words[0])
            excerpt = event.payload_text[max(0, at - _AROUND) : at + _AROUND]
            hits.append({"seq": event.seq, "type": event.type, "tool": event.tool_name or "", "excerpt": excerpt})
    return list(hits)


def _page(rig: Rig, event: Event, offset: int) -> Any:
    payload = rig.content(dict(event.payload))
    text = _text(event, payload)
    if not offset and len(text) <= PAGE:
        return [_short(event, payload)]
    page: dict[str, Any] = {"seq": event.seq, "type": event.type, "text": text[offset : offset + PAGE]}
    page["total_chars"] = len(text)
    if offset + PAGE < len(text):
        page["next_offset"] = offset + PAGE
    return page


def _text(event: Event, payload: Mapping[str, Any]) -> str:
    """An event's content as text, whole."""
    if event.type in ("tool_result", "tool_error"):
        output = payload.get("output") if event.type == "tool_result" else payload.get("message")
        parts = [output if isinstance(output, str) else canonical(output)]
        parts += [f"{name}:\n{payload[name]}" for name in ("stdout", "stderr") if payload.get(name)]
        return "\n".join(parts)
    return canonical(dict(payload))


def _short(event: Event, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
    shown = {"seq": event.seq, "type": event.type, "toolName": event.tool_name, "step": event.step,
             "payload": dict(event.payload if payload is None else payload),
             "error": dict(event.error) if event.error is not None else None}  # fmt: skip
    return {k: v for k, v in shown.items() if v is not None}
