"""What-if runs: a recorded session's timing under another policy, scheme and failure process; no model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from agentlab.comparing.conditions import Condition, spec_of
from agentlab.comparing.measuring import measure
from agentlab.comparing.simulating import Crashes
from agentlab.errors import UserError
from agentlab.events import Event
from agentlab.experiments.recorded import costs_of, spans_of
from agentlab.experiments.track import Track
from agentlab.experiments.whatif import Costs, WhatIf
from agentlab.failures import Times

CHECKPOINT_S, RESTART_S = 0.01, 0.3
"""Assumed where the session wrote no checkpoint, or saw no crash."""


class ReplayRunner:
    """Replays of one recorded session."""

    batch = 500

    def __init__(
        self, events: Sequence[Event], crashes: Crashes, checkpoint_s: float | None, restart_s: float | None
    ) -> None:
        spans = spans_of(events)
        if not spans:
            raise UserError("the session did no work that could be replayed: give one that has run")
        self.track, self.crashes = Track(spans), crashes
        measured = measure(events)
        costs = costs_of(events)
        self.checkpoint_s = checkpoint_s if checkpoint_s is not None else fmean(costs) if costs else CHECKPOINT_S
        self.restart_s = restart_s if restart_s is not None else measured["restart_s"] or RESTART_S
        written = [e for e in events if e.type in ("checkpoint_written", "snapshot_taken")]
        count = measured["checkpoints"]
        size = sum(int(e.payload.get("size_bytes") or 0) + int(e.payload.get("new_bytes") or 0) for e in written)
        self.bytes = size / count if count else 0.0
        self._made: dict[str, WhatIf] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}

    def to_json(self) -> dict[str, Any]:
        """What is charged."""
        return {"checkpoint_s": self.checkpoint_s, "restart_s": self.restart_s, "bytes": self.bytes}

    def run(self, condition: Condition, seed: int | None) -> dict[str, Any]:
        """The columns of one replay; what the recording does not tell (money, model calls) is missing."""
        whatif = self._made.get(condition.name)
        if whatif is None:
            costs = Costs(self.checkpoint_s, self.restart_s)
            whatif = self._made[condition.name] = WhatIf(self.track, spec_of(condition), costs)
        replay = whatif.run(self.crashes.process or Times(()), int(seed or 0))
        overhead = replay.checkpoints * self.checkpoint_s
        total = replay.work_s + overhead + replay.lost_s + replay.down_s if replay.completed else None
        return {
            "completed": replay.completed, "outcome": "completed" if replay.completed else "gave_up", "total_s": total,
            "work_s": replay.work_s, "overhead_s": overhead, "lost_s": replay.lost_s, "redone_s": 0.0,
            "recovery_s": replay.down_s, "faults": replay.crashes, "checkpoints": replay.checkpoints,
            "checkpoint_s": self.checkpoint_s if replay.checkpoints else None,
            "restart_s": replay.down_s / replay.crashes if replay.crashes else None,
            "interval_s": replay.work_s / (replay.checkpoints + 1),
            "bytes_written": round(replay.checkpoints * self.bytes),
        }  # fmt: skip
