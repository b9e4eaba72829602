"""One class of error under changing arguments."""

from __future__ import annotations

from collections.abc import Sequence

from agentlab.guard.fingerprint import ERROR, FRESH, SOFT_ERROR, TRANSIENT, WAITING, Fingerprint
from agentlab.guard.policy import GuardPolicy, Patience
from agentlab.guard.rules.suspicion import Suspicion, level

_FILLERS = 4
"""So many calls of other tools may stand between two failures."""


def error_class(stream: Sequence[Fingerprint], policy: GuardPolicy) -> Suspicion | None:
    """Look back for failures of the same tool and class.

    A success of this tool, an error of another class, or a new change in between ends the count: failures that
    differ, and failures after real work, are how work goes on.
    """
    newest = stream[-1]
    if not newest.cls or newest.flags & WAITING:
        return None
    seqs, keys, gap = [newest.seq], {newest.key}, 0
    for f in reversed(stream[:-1]):
        if f.tool != newest.tool:
            gap += 1
            if gap > _FILLERS or f.flags & FRESH:
                break
            continue
        if f.cls != newest.cls or (gap and f.key == newest.key and f.res != newest.res):
            break
        gap = 0
        seqs.append(f.seq)
        keys.add(f.key)
    patience = _patience(newest, len(keys), policy)
    found = level(len(seqs), patience)
    if not found:
        return None
    what = f"{newest.tool} failed {len(seqs)} times with the same kind of error under {len(keys)} different inputs"
    return Suspicion("error_class", found, tuple(reversed(seqs)), what)


def _patience(newest: Fingerprint, inputs: int, policy: GuardPolicy) -> Patience:
    if newest.flags & TRANSIENT:
        return policy.passing
    certain = newest.flags & ERROR and not newest.flags & SOFT_ERROR
    # The same call that fails a little differently each time may be on its way; so may what only reads like an error.
    more = 0 if certain and inputs > 1 else 1
    return Patience(policy.jittered.nudge + more, policy.jittered.final + more)
