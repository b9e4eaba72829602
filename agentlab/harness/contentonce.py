"""Effects that happen once per content, whichever session asks: found by key, answered from the log that has them.

Before such an effect is registered its key is claimed for this session. Who finds claims of other sessions looks into
their logs: completed → the recorded result; not done → the claim passes over; still open → wait, and if it stays open,
an error that says who has it. An effect that a dead session left open is taken over and verified before anything is
sent.

Two sessions never both send, however they are delayed: who has taken a claim looks into the other logs again after
that, and who has registered the effect looks at the claims again after that (:func:`overtaken`). Each writes before it
looks, so at least one of them sees the other; the one with the newer claim goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentlab.crashpoints import CrashPoint, reach
from agentlab.events import Draft, Event, resolve
from agentlab.harness import toolcalls
from agentlab.harness.rig import Rig
from agentlab.ports import Claim, Log
from agentlab.session.state import Call

PREFIX = "content:"
WAIT_S = 10.0
"""How long a session waits for another one that has the same effect under way."""
_RESTS = frozenset({"session_paused", "session_ended", "question_asked"})


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What has become of an effect in another session.

    *completed*, *open* (registered), *left undone* (a person went on without knowing whether it happened), *done with*
    (it surely did not happen) or *nothing*.
    """

    state: str
    result: Event | None
    idle: bool
    """No harness of that session is at work."""


def answered_elsewhere(rig: Rig, call: Call, key: str) -> tuple[list[Draft] | None, bool]:
    """Drafts that answer the call without executing it, or None; and whether an open effect was taken over.

    After ``(None, False)`` the claim is this session's: the effect may be registered and, unless :func:`overtaken`, executed.
    """
    if rig.claims is None or rig.store is None:
        return None, False
    if not rig.claims.built():
        rig.claims.build(claims_of(rig))
    deadline = rig.clock.now_us() + round(WAIT_S * 1e6)
    own = rig.state.session_id
    while True:
        held = rig.claims.held(key)
        mine = bool(held) and held[-1].session_id == own
        found, holder = _furthest(rig, held, key, mine)
        if found.state == "completed":
            return [_reused(rig, call, key, found.result, holder)], False
        free = found.state == "done with" or (found.state == "nothing" and (found.idle or mine))
        if free or found.idle or found.state == "left undone":
            if mine:  # what was open elsewhere is verified here once: after that this session has tried
                return None, not free and not call.tries
            reach(CrashPoint.EFFECT_CLAIM, "before", key)
            if rig.claims.take(key, Claim(own, call.seq, held[-1].number + 1 if held else 1)):
                reach(CrashPoint.EFFECT_CLAIM, "after", key)
            continue  # what the others did until the claim was there shows only now
        if rig.clock.now_us() >= deadline or rig.state.control.pause_id:
            return [_busy(rig, call, key, holder)], False
        rig.wait_until(min(deadline, rig.clock.now_us() + 100_000))


def overtaken(rig: Rig, key: str) -> str | None:
    """The session that has claimed the effect while this one registered it; None: this one may send."""
    held = rig.claims.held(key) if rig.claims is not None else ()
    return held[-1].session_id if held and held[-1].session_id != rig.state.session_id else None


def claims_of(rig: Rig) -> dict[str, list[Claim]]:
    """The index as the logs of all sessions give it."""
    found: dict[str, dict[str, int]] = {}
    assert rig.store is not None
    for session_id in rig.store.sessions():
        for event in rig.store.open(session_id).replay(1):
            key = str(event.payload.get("key"))
            if event.type == "effect_pending" and key.startswith(PREFIX):
                found.setdefault(key, {})[session_id] = event.parent_seq or event.seq
    return {
        key: [Claim(session_id, seq, number) for number, (session_id, seq) in enumerate(seqs.items(), 1)]
        for key, seqs in found.items()
    }


def _furthest(rig: Rig, held: Sequence[Claim], key: str, mine: bool) -> tuple[Elsewhere, str]:
    """Of the other sessions that claimed the effect the one that decides: who has done it, else who is at it, else who
    left most behind; with its id. Who lives and has nothing registered gives way to the newest claim (``mine``)."""
    assert rig.store is not None
    others = {claim.session_id: None for claim in reversed(held) if claim.session_id != rig.state.session_id}
    found = [(_look(rig, rig.store.open(session_id), key), session_id) for session_id in others]
    return min(found, key=lambda each: _weight(each[0], mine), default=(Elsewhere("nothing", None, True), ""))


def _weight(found: Elsewhere, mine: bool) -> int:
    if found.state == "completed":
        return 0
    if not found.idle and (found.state == "open" or (found.state == "nothing" and not mine)):
        return 1
    return 2 + ("open", "left undone", "done with", "nothing").index(found.state)


def _look(rig: Rig, log: Log, key: str) -> Elsewhere:
    """What the log of another session says of the effect.

    A harness records its effect and leaves at once. So a log whose harness is found dead is read again after that: what
    nobody works at is only what it still says then.
    """
    found, read = _told(rig, log, key)
    while found.idle:
        before = read
        found, read = _told(rig, log, key)
        if read == before:
            break
    return found


def _told(rig: Rig, log: Log, key: str) -> tuple[Elsewhere, int]:
    """What a log says of the effect, and the number of its newest event."""
    state, result, process, resting, seq = "nothing", None, {}, True, 0
    for event in log.replay(1):
        seq = event.seq
        if event.type == "harness_woken":
            process, resting = dict(event.payload["process"]), False
        elif event.type in _RESTS:
            resting = True
        if (event.payload.get("key") or event.effect_key) != key:
            continue
        if event.type in ("effect_pending", "effect_in_doubt"):
            state = "open"
        elif event.type == "effect_completed":
            state = "completed"
        elif event.type == "effect_settled" and event.payload["decision"] == "skip":
            state = "left undone"
        elif event.type == "effect_settled" and event.payload["decision"] == "retry":
            state = "nothing"  # a person says that it may be sent: whoever comes to it first does so
        elif event.type == "effect_failed":
            state = "done with"
        elif event.type == "tool_result" and not event.payload.get("reused"):
            result = event
    idle = not process or (rig.known_dead(process) if not resting else True)
    return Elsewhere(state, result, idle and not (state == "open" and resting and process)), seq


def _reused(rig: Rig, call: Call, key: str, result: Event | None, holder: str) -> Draft:
    payload: Mapping[str, Any] = resolve(dict(result.payload), rig.blobs.get) if result is not None else {}
    where: dict[str, Any] = {"reused": True, "effect_of_session": holder}
    if result is not None:
        where["effect_of"] = result.seq
    return toolcalls.result_draft(rig, call, payload.get("output"), **where)


def _busy(rig: Rig, call: Call, key: str, holder: str) -> Draft:
    text = (
        f"session {holder!r} has this effect under way ({key}) and its outcome is not known yet; nothing was sent"
        " from here: try again later, or settle it there"
    )
    return toolcalls.error_draft(rig, call, text, kind="busy_elsewhere", not_run=True)
