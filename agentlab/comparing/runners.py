"""What a worker does for one run of a comparison: simulated, or replayed. Real runs are in :mod:`agentlab.comparing.real`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab.comparing.conditions import Condition, spec_of
from agentlab.comparing.latencies import Latencies
from agentlab.comparing.measuring import measure
from agentlab.comparing.simulating import Crashes, Simulation


class SimulatedRunner:
    """Simulated sessions. What is the same in all runs of a condition is made once per worker."""

    batch = 20

    def __init__(
        self,
        task: Any,
        crashes: Crashes,
        latencies: Latencies,
        model: Any,
        overrides: Mapping[str, Any],
        limit_s: float,
    ) -> None:
        self.task, self.crashes, self.latencies, self.limit_s = task, crashes, latencies, limit_s
        self.model, self.overrides = model, dict(overrides)
        self._made: dict[str, Simulation] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}

    def run(self, condition: Condition, seed: int | None) -> dict[str, Any]:
        """The columns of one run."""
        found = self._made.get(condition.name)
        if found is None:
            found = self._made[condition.name] = Simulation(
                self.task, self.latencies, model=self.model, policy=spec_of(condition), scheme=condition.values["scheme"],
                **self.overrides,
            )  # fmt: skip
        return measure(found.run(self.crashes, int(seed or 0), self.limit_s))
