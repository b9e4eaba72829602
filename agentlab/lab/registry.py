"""The registry of external effects as a view over the log: what was registered, how it ended, what is in doubt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from agentlab.events import Event

STATES = ("pending", "completed", "not_done", "in_doubt", "done", "retry", "skip", "skipped")
"""*done*, *retry* and *skip* are decisions of a person that the harness has not carried out yet."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One operation with an external effect.

    ``state`` is one of :data:`STATES`; ``tries`` how often it was sent; ``reused`` how often its recorded result
    answered an equal call; ``first_seq`` and ``seq`` the events that registered it and that say its state;
    ``evidence`` what the outside, a person or an error said last.
    """

    session_id: str
    key: str
    tool: str
    state: str
    tries: int
    reused: int
    first_seq: int
    seq: int
    evidence: str

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


_NEWEST = {
    "effect_pending": ("pending", ""),
    "effect_completed": ("completed", "verified"),
    "effect_failed": ("not_done", "reason"),
    "effect_in_doubt": ("in_doubt", "reason"),
}


def effects_of(events: Iterable[Event]) -> list[Effect]:
    """Every registered effect of a session, in the order of registration."""
    found: dict[str, Effect] = {}
    results: dict[int, str] = {}
    for event in events:
        p = event.payload
        key = str(p.get("key") or event.effect_key or results.get(p.get("effect_of") or 0, ""))
        if event.type == "tool_result" and event.effect_key:
            results[event.seq] = event.effect_key
        known = found.get(key)
        if event.type in _NEWEST:
            state, field = _NEWEST[event.type]
            if known is None:
                known = Effect(event.session_id, key, p["tool"], state, 0, 0, event.seq, event.seq, "")
            tries = known.tries + (event.type == "effect_pending")
            said = str(p.get(field) or "") if field else known.evidence
            found[key] = replace(known, state=state, tries=tries, seq=event.seq, evidence=said)
        elif known is None:
            continue
        elif event.type == "effect_verified":
            found[key] = replace(known, seq=event.seq, evidence=str(p.get("evidence") or p["outcome"]))
        elif event.type == "effect_settled" and known.state in ("in_doubt", "pending"):
            by = f"by {p['by']}" if p.get("by") else "by a person"
            found[key] = replace(known, state=p["decision"], seq=event.seq, evidence=by)
        elif event.type == "tool_result" and p.get("reused"):
            found[key] = replace(known, reused=known.reused + 1)
        elif event.type == "tool_error" and p.get("kind") == "skipped":
            found[key] = replace(known, state="skipped", seq=event.seq, evidence=str(p["message"]))
    return list(found.values())


def in_doubt(effects: Iterable[Effect]) -> list[Effect]:
    """Those that only a person can decide about."""
    return [effect for effect in effects if effect.state == "in_doubt"]
