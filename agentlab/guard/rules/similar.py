"""Like calls without new information: the action vector (tool, arguments, result) hardly moves."""

from __future__ import annotations

from collections.abc import Sequence

from agentlab.guard.fingerprint import (
    BLIND,
    CHANGE,
    FRESH,
    FRUITLESS,
    MUSE,
    SUBSTANTIAL,
    TRANSIENT,
    WAITING,
    Fingerprint,
)
from agentlab.guard.policy import GuardPolicy
from agentlab.guard.rules.suspicion import NOTHING, Suspicion, level

_FILLERS = 3
_LIKE = 0.5
"""Share of words in common from which two texts ask the same thing."""


def similar(stream: Sequence[Fingerprint], policy: GuardPolicy) -> Suspicion | None:
    """Look back for calls of the same tool whose results, but for echoes of the input, are the same.

    Two counts are kept: calls whose arguments are alike, and calls that found nothing whatever their arguments. A
    batch (the same tool over many paths, ids or names, each well answered) is in neither, nor are changes; failures
    that pass by themselves are left to the rules about errors.
    """
    newest = stream[-1]
    if newest.flags & (CHANGE | WAITING | TRANSIENT | BLIND | MUSE):
        return None
    fruitless = bool(newest.flags & FRUITLESS)
    like, empty, keys, gap = [newest.seq], [newest.seq], {newest.key}, 0
    for f in reversed(stream[:-1]):
        if f.tool != newest.tool:
            gap += 1
            if gap > _FILLERS or f.flags & FRESH:
                break
            continue
        if f.gist != newest.gist and not (fruitless and f.flags & FRUITLESS):
            break
        gap = 0
        keys.add(f.key)
        empty.append(f.seq)
        if len(like) == len(empty) - 1 and f.gist == newest.gist and _alike(newest, f):
            like.append(f.seq)
    if len(keys) < 2:
        return None
    by_likeness = level(len(like), policy.similar)
    by_nothing = level(len(empty), policy.fruitless) if fruitless else NOTHING
    if by_nothing > by_likeness:
        what = f"{len(empty)} calls of {newest.tool} with different inputs all found nothing"
        return Suspicion("similar", by_nothing, tuple(reversed(empty)), what)
    if by_likeness:
        what = f"{len(like)} calls of {newest.tool} with nearly the same input all had the same result"
        return Suspicion("similar", by_likeness, tuple(reversed(like)), what)
    return None


def _alike(a: Fingerprint, b: Fingerprint) -> bool:
    same = a.ident == b.ident or (bool(a.flags & SUBSTANTIAL) and a.loose == b.loose)
    if not same:
        return False
    if not a.soft and not b.soft:
        return True
    x, y = set(a.soft), set(b.soft)
    return len(x & y) >= _LIKE * len(x | y)
