"""What a replay charges for checkpoints, restarts and work done again."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentlab.errors import BadDefinition


@dataclass(frozen=True, slots=True)
class Costs:
    """What a replay charges, seconds.

    ``redo`` is the fraction of its first time that work after the checkpoint takes when it is done again: 1 when it
    really runs again, near 0 when results come from the log. ``rerun`` is the fraction that all work done so far takes
    after each crash, checkpoint or not: commands of a sandbox that no snapshot holds. ``from_log``: answers of the model
    come from the log and are asked for once. ``final_checkpoint`` writes one at
    the end too, as the formulas assume. After ``give_up_after`` crashes in a row without a new checkpoint the run counts as unfinished.
    """

    checkpoint_s: float
    restart_s: float = 0.0
    redo: float = 1.0
    final_checkpoint: bool = False
    give_up_after: int = 1000
    rerun: float = 0.0
    from_log: bool = False

    def __post_init__(self) -> None:
        for name, value in (("checkpoint_s", self.checkpoint_s), ("restart_s", self.restart_s)):
            if not 0 <= value < math.inf:
                raise BadDefinition(f"{name} is a finite number of seconds of at least 0, not {value!r}")
        for name, value in (("redo", self.redo), ("rerun", self.rerun)):
            if not 0 <= value <= 1:
                raise BadDefinition(f"{name} is a fraction between 0 and 1, not {value!r}")
        if self.give_up_after < 1:
            raise BadDefinition("give_up_after is at least 1")
