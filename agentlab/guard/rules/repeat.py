"""The same call with the same result, in a row or with other calls in between."""

from __future__ import annotations

from collections.abc import Sequence

from agentlab.guard.fingerprint import (
    BLIND,
    ERROR,
    FRESH,
    LOOK,
    SLEEP,
    SLEPT,
    SOFT_ERROR,
    TRANSIENT,
    WAITING,
    Fingerprint,
)
from agentlab.guard.normalise import counts_up
from agentlab.guard.policy import GuardPolicy, Patience
from agentlab.guard.rules.suspicion import Suspicion, level

_SEEN_CHANGING = 3
"""So many different results make a source one that changes by itself."""


def repeat(stream: Sequence[Fingerprint], policy: GuardPolicy) -> Suspicion | None:
    """Look back for the newest call and its result.

    Another result of the same call is news and ends the count. So does, for a check that succeeds, a change made for
    the first time in between: to check again after a change is sound work, whatever one sees.
    """
    newest = stream[-1]
    seqs, ticks = [newest.seq], [newest.tick]
    gap, filled, reworked, slept = 0, False, False, bool(newest.flags & SLEPT)
    changed = False
    for f in reversed(stream[:-1]):
        if f.key != newest.key:
            gap += 1
            changed = changed or bool(f.flags & FRESH)
            if gap > policy.max_gap:
                break
            continue
        if f.res != newest.res or (changed and not newest.flags & (ERROR | SOFT_ERROR | LOOK)):
            break
        filled, reworked = filled or gap > 0, reworked or changed
        slept = slept or bool(f.flags & SLEPT)
        gap, changed = 0, False
        seqs.append(f.seq)
        ticks.append(f.tick)
    if len(seqs) < 2 or counts_up(ticks[::-1]):
        return None
    found = level(len(seqs), _patience(stream, policy, filled, reworked, slept))
    if not found:
        return None
    between = ", with other calls in between" if filled else " in a row"
    outcome = "failed in the same way" if newest.flags & ERROR else "had the same result"
    what = f"the same call of {newest.tool} was made {len(seqs)} times{between} and each time {outcome}"
    return Suspicion("repeat", found, tuple(reversed(seqs)), what)


def _patience(
    stream: Sequence[Fingerprint], policy: GuardPolicy, filled: bool, reworked: bool, slept: bool
) -> Patience:
    newest = stream[-1]
    failed = bool(newest.flags & ERROR)
    if newest.flags & WAITING:
        return policy.reworked if failed and not newest.flags & TRANSIENT else policy.waiting
    if newest.flags & TRANSIENT:
        return policy.passing
    if slept or newest.flags & BLIND:
        return policy.reworked if failed or newest.flags & SOFT_ERROR else policy.polling
    if reworked:
        return policy.reworked if failed or newest.flags & SOFT_ERROR else policy.recheck
    if not failed and _changes_by_itself(stream):
        return policy.polling
    base = policy.fails if failed else policy.same
    more = policy.filled if filled else 0
    return Patience(base.nudge + more, base.final + more)


def _changes_by_itself(stream: Sequence[Fingerprint]) -> bool:
    seen = set()
    for f in reversed(stream):
        if f.flags & FRESH:
            return False  # what changed before may have changed because of this
        if f.key == stream[-1].key:
            seen.add(f.res)
            if len(seen) >= _SEEN_CHANGING:
                return True
    return False


def sleeping(window: Sequence[Fingerprint], policy: GuardPolicy) -> Suspicion | None:
    """Pure sleeps in a row with nothing between them."""
    seqs = []
    for f in reversed(window):
        if not f.flags & SLEEP:
            break
        seqs.append(f.seq)
    found = level(len(seqs), policy.waiting)
    if not found:
        return None
    return Suspicion("repeat", found, tuple(reversed(seqs)), f"{len(seqs)} waits in a row without a look at anything")
