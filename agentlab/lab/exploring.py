"""Exploring for real: a lab and an outside of its own for a while, child processes, SIGKILL."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlab.lab.lab import Lab

if TYPE_CHECKING:
    from agentlab.explorer.realrun import RealReport


def explore_real(
    task: Any, *, seed: int = 0, count: int = 40, pairs: bool = False, budget_s: float | None = None
) -> RealReport:
    """Run ``count`` schedules drawn by ``seed`` with real processes in a temporary lab, and compare each with the simulation.

    A receiver of notifications (parameter ``receiver_url``) and an outbox (``outbox``) count what happens outside. After
    ``budget_s`` seconds no further schedule is begun.

    Raises:
        UserError: the task can not be defined.
    """
    from agentlab.effects.receiver import ReceiverProcess
    from agentlab.explorer.api import subject_of
    from agentlab.explorer.realrun import Difference
    from agentlab.explorer.realrun import explore_real as run
    from agentlab.supervisor.ps import owned

    subject_of(task)  # what is wrong with the task is said before anything is started
    with tempfile.TemporaryDirectory(prefix="agentlab-explore-") as made:
        with ReceiverProcess(Path(made) / "receiver") as receiver, Lab(Path(made) / "lab") as lab:

            def executed(session_id: str) -> int:
                return sum(str(line.get("key", "")).startswith(f"{session_id}#") for line in receiver.ledger())

            report = run(
                lab, task, seed=seed, count=count, pairs=pairs, executed=executed,
                budget_s=float("inf") if budget_s is None else budget_s, params={"receiver_url": receiver.url},
            )  # fmt: skip
        left = [one for one in owned(Path(made) / "lab") if one.alive == "alive"]
        report.violations += [Difference("afterwards", f"{one.kind} {one.pid} is left over") for one in left]
        return report
