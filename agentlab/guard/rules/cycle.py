"""Two to eight calls that come round again and again with the same results."""

from __future__ import annotations

from collections.abc import Sequence

from agentlab.guard.fingerprint import BLIND, SLEPT, TRANSIENT, WAITING, Fingerprint
from agentlab.guard.policy import GuardPolicy, Patience
from agentlab.guard.rules.suspicion import Suspicion, level


def cycle(stream: Sequence[Fingerprint], policy: GuardPolicy) -> Suspicion | None:
    """The shortest period of two or more under which the newest calls and results equal those before."""
    newest = stream[-1]
    for period in range(2, policy.max_cycle + 1):
        if len(stream) < 2 * period or not _same(newest, stream[-1 - period]):
            continue
        members = stream[-period:]
        if all(_same(newest, f) for f in members):
            continue  # one call in a row: the rule about repeats knows better
        total = _length(stream, period)
        found = level(total, _patience(members, period, policy)) if total >= 2 * period else 0
        if not found:
            continue
        names = " → ".join(f.tool for f in members)
        what = f"the same {period} calls ({names}) came round {total / period:.1f} times with the same results"
        return Suspicion("cycle", found, tuple(f.seq for f in stream[-total:]), what)
    return None


def _same(a: Fingerprint, b: Fingerprint) -> bool:
    return a.key == b.key and a.res == b.res


def _length(stream: Sequence[Fingerprint], period: int) -> int:
    total = period
    while total < len(stream) and _same(stream[-1 - total], stream[-1 - total + period]):
        total += 1
    return total


def _patience(members: Sequence[Fingerprint], period: int, policy: GuardPolicy) -> Patience:
    if any(f.flags & WAITING for f in members):
        return policy.waiting
    # Long cycles seldom come round by chance: two rounds and two calls are telling.
    patience = Patience(6, 8) if period == 2 else Patience(2 * period + 2, max(10, 3 * period))
    if any(f.flags & (SLEPT | TRANSIENT | BLIND) for f in members):
        return Patience(2 * patience.nudge, 2 * patience.final)
    return patience
