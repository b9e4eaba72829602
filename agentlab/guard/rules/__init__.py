"""The rules: each looks back from the newest call over the stream of fingerprints and says what repeats.

The stream is the window without pure sleeps and without the siblings of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentlab.guard.fingerprint import Fingerprint
from agentlab.guard.policy import GuardPolicy
from agentlab.guard.rules.cycle import cycle
from agentlab.guard.rules.errors import error_class
from agentlab.guard.rules.repeat import repeat, sleeping
from agentlab.guard.rules.similar import similar
from agentlab.guard.rules.suspicion import FINAL, NOTHING, NUDGE, Suspicion

Rule = Callable[[Sequence[Fingerprint], GuardPolicy], Suspicion | None]

ALL: dict[str, Rule] = {"repeat": repeat, "cycle": cycle, "error_class": error_class, "similar": similar}
"""Every rule by the name that a policy uses."""

__all__ = [
    "ALL",
    "FINAL",
    "NOTHING",
    "NUDGE",
    "Rule",
    "Suspicion",
    "cycle",
    "error_class",
    "repeat",
    "similar",
    "sleeping",
]
