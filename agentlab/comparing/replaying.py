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
from agentlab.experiments.costs import Costs
from agentlab.experiments.recorded import costs_of, spans_of
from agentlab.experiments.track import Track
from agentlab.experiments.whatif import WhatIf
from agentlab.failures import Times

CHECKPOINT_S, RESTART_S = 0.01, 0.3
"""Assumed where the session wrote no checkpoint, or saw no crash."""


class ReplayRunner:
    """Replays of one recorded session. A recovery's question to the model is counted, its price is not known."""

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
        started = events[0].payload["definition"]
        self.asks = int(started.get("strategy") == "statement")
        """Model calls of a recovery itself: the model is asked where it stands."""
        self.bytes = size / count if count else 0.0
        self._made: dict[tuple[str, str], WhatIf] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}

    def to_json(self) -> dict[str, Any]:
        """What is charged."""
        return {"checkpoint_s": self.checkpoint_s, "restart_s": self.restart_s, "bytes": self.bytes}

    def run(self, condition: Condition, seed: int | None) -> dict[str, Any]:
        """The columns of one replay."""
        scheme = condition.values["scheme"]
        key = (str(condition.values["policy"]), scheme)
        whatif = self._made.get(key)
        if whatif is None:
            whatif = self._made[key] = WhatIf(self.track, spec_of(condition), self.costs(scheme))
        replay = whatif.run(self.crashes.process or Times(()), int(seed or 0))
        # Under the snapshot scheme what came after the checkpoint is superseded: lost, and the second time it is work.
        again = 0.0 if scheme == "snapshot" else min(replay.redone_s, replay.lost_s)
        overhead = replay.checkpoints * self.checkpoint_s
        lost, redone, recovery = replay.lost_s - again, again + replay.rerun_s, replay.down_s - replay.rerun_s
        finished = replay.completed
        return {
            "completed": finished, "outcome": "completed" if finished else "gave_up",
            "total_s": replay.work_s + overhead + lost + redone + recovery if finished else None,
            "work_s": replay.work_s, "overhead_s": overhead, "lost_s": lost, "redone_s": redone, "recovery_s": recovery,
            "faults": replay.crashes, "checkpoints": replay.checkpoints,
            "checkpoint_s": self.checkpoint_s if replay.checkpoints else None,
            "restart_s": recovery / replay.crashes if replay.crashes else None,
            "interval_s": replay.work_s / (replay.checkpoints + 1),
            "model_calls": self.track.calls[-1] + replay.calls + self.asks * replay.crashes,
            "model_calls_repeated": replay.calls + self.asks * replay.crashes,
            "cost_usd": self.track.cost_usd[-1] + replay.cost_usd, "cost_repeated_usd": replay.cost_usd,
            "bytes_written": round(replay.checkpoints * self.bytes),
        }  # fmt: skip

    def costs(self, scheme: str) -> Costs:
        """What a scheme charges for work that a crash left behind: all of it, its sandbox commands, or those of all time."""
        again = 0.0 if self.crashes.target == "harness" else self.track.sandboxed_share
        if scheme == "snapshot":
            return Costs(self.checkpoint_s, self.restart_s)
        if scheme == "events":
            return Costs(self.checkpoint_s, self.restart_s, redo=0.0, rerun=again, from_log=True)
        return Costs(self.checkpoint_s, self.restart_s, redo=again, from_log=True)
