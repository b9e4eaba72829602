"""What a checkpoint trigger may know: one small record, made by ``decide`` from the folded state."""

from __future__ import annotations

from dataclasses import dataclass

from agentlab.evolve import quick


@quick
@dataclass(frozen=True, slots=True)
class Facts:
    """What a trigger may know. Times are seconds of the events' own clock.

    Counts are since the newest checkpoint (or the start); ``pausing`` and ``effect_next`` say what the harness is
    about to do; ``step_kind`` is the kind of the step in progress. ``running_s`` and ``crashes`` are since the start
    of the session, ``awake_s`` since its newest wake. ``budget_used`` is the largest fraction of any limit that is
    used, reserved or at risk; ``budget_before`` is what it was at the newest checkpoint.
    """

    events: int
    steps: int
    seconds: float
    milestone: bool
    large_result: bool
    effect_next: bool
    pausing: bool
    step_kind: str
    budget_alert: bool = False
    unsnapshotted: int = 0
    checkpoint_cost_s: float = 0.0
    crashes: int = 0
    running_s: float = 0.0
    unsnapshotted_bytes: int = 0
    budget_used: float = 0.0
    budget_before: float = 0.0
    effects: int = 0
    """External effects whose outcome became known since the newest checkpoint."""
    awake_s: float = 0.0


def facts_at_start() -> Facts:
    """The facts of a session that has just begun, to try a spec on."""
    return Facts(0, 0, 0.0, False, False, False, False, "")
