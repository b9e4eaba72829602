"""Anchors: what a call established is pinned by rule, what the model asks for by a tool; at the cap an event says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentlab.context.anchors import NAME_CHARS, VALUE_CHARS, found_in, new_in
from agentlab.events import Draft
from agentlab.harness.rig import Rig


def with_anchors(drafts: list[Draft], rig: Rig) -> list[Draft]:
    """``drafts`` and, after a result, the anchors that its call established."""
    context = rig.state.context
    if not context.spec.extract:
        return drafts
    found: dict[str, str] = {}
    for draft in drafts:
        if draft.type == "tool_result" and not ("reused" in draft.payload or "not_run" in draft.payload):
            call = rig.state.call(draft.payload["call_id"])
            if call is not None and call.effect != "builtin":
                found |= found_in(call.tool, call.input, draft.payload["output"], call.effect == "external")
    if not found:
        return drafts
    fresh = new_in(context.anchors, found, context.spec.anchors)
    out = [*drafts, *(_anchor(rig, name, value, "rule") for name, value in fresh.items())]
    left = [name for name in found if name not in context.anchors and name not in fresh]
    return [*out, *_full(rig, left[0], found[left[0]])] if left else out


def remember(rig: Rig, arguments: Mapping[str, Any]) -> tuple[Sequence[Draft], str, str]:
    """Pin a fact for the model: the events, the words for the model, and what kind of error it is (empty: none)."""
    context = rig.state.context
    given = arguments["value"]
    name = " ".join(str(arguments["name"]).split())[:NAME_CHARS]  # one line: it stands before its value
    value = "" if given is None else str(given)[:VALUE_CHARS]
    if not name:
        return [], "give the fact a name", "bad_input"
    if not value:
        return [_anchor(rig, name, value, "model")], f"{name} is not pinned any more", ""
    if name not in context.anchors and len(context.anchors) >= context.spec.anchors:
        words = f"{context.spec.anchors} facts are pinned, and that is the limit: take one away by pinning it with an empty value"
        return _full(rig, name, value), words, "full"
    return [_anchor(rig, name, value, "model")], f"{name} is pinned", ""


def _anchor(rig: Rig, name: str, value: str, source: str) -> Draft:
    return Draft("anchor_set", {"name": name, "value": value, "source": source}, step=rig.state.plan.current or None)


def _full(rig: Rig, name: str, value: str) -> list[Draft]:
    """Say once that there is no place left; the session pauses, and says it again only after a place was freed."""
    context = rig.state.context
    if context.full:
        return []
    payload = {"name": name, "value": value[:200], "cap": context.spec.anchors}
    return [Draft("anchors_full", payload, step=rig.state.plan.current or None)]
