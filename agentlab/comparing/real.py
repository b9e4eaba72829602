"""Real runs: child processes, and SIGKILL from outside at the times that a failure process draws."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.comparing.conditions import Condition, spec_of
from agentlab.comparing.measuring import measure
from agentlab.comparing.simulating import Crashes
from agentlab.errors import AgentlabError
from agentlab.events import Draft
from agentlab.failures import CrashLoop
from agentlab.faults.spec import Fault
from agentlab.lab import Lab, Session

ENDLESS = 64
"""Deaths that are armed for a crash loop without an end: the keeper gives up long before."""
SETTLE_S = 60.0


class RealRunner:
    """Sessions in child processes, each in a lab of its own below ``folder``."""

    batch = 1

    def __init__(
        self, task: Any, crashes: Crashes, folder: Path, model: Any, overrides: Mapping[str, Any], limit_s: float
    ) -> None:
        self.task, self.crashes, self.folder, self.limit_s = task, crashes, str(folder), limit_s
        self.model, self.overrides = model, dict(overrides)

    def run(self, condition: Condition, seed: int | None) -> dict[str, Any]:
        """The columns of one run."""
        with own_lab(self.folder) as lab:
            session = lab.create(
                self.task,
                model=self.model,
                policy=spec_of(condition),
                scheme=condition.values["scheme"],
                **self.overrides,
            )
            timed_out = drive(session, self.crashes, int(seed or 0), self.limit_s)
            row = measure(session.events())
        if timed_out:
            row |= {"completed": False, "outcome": "timeout"}
        return {**row, "session_id": f"{lab.path.name}/{session.id}"}


@contextlib.contextmanager
def own_lab(folder: str) -> Iterator[Lab]:
    """A lab for one run: what others wrote is no part of what it writes. Its keeper waits before the task is accepted."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = tempfile.mkdtemp(prefix="run-", dir=folder)
    with Lab(path) as lab:
        lab.supervisor.stop("nothing yet")  # any request starts the keeper
        yield lab


def drive(session: Session, crashes: Crashes, seed: int, limit_s: float) -> bool:
    """Run a session to its rest while crashes strike it; whether it ran into the limit (seconds).

    A crash that falls into a restart kills the process that is starting. Each leaves its mark in the log.
    """
    times = crashes.times(seed)
    session.start(arm=_poison(crashes))
    began = session.state.started_ts / 1e6 - time.time() + time.monotonic()  # crash times count from the acceptance
    struck = next(times, None)
    supervisor = session.lab.supervisor
    while True:
        now = time.monotonic() - began
        until = min(limit_s, struck if struck is not None else limit_s)
        if supervisor.wait_exit(session.id, max(0.0, until - now)) is not None:
            session.wait(SETTLE_S)
            return False
        if struck is None or struck > limit_s:
            supervisor.forget(session.id)
            return True
        strike(session, crashes.target)
        struck = next(times, None)


def strike(session: Session, target: str) -> None:
    """SIGKILL the harness, or harness and sandbox; the keeper starts the next harness. Marked in the log."""
    supervisor = session.lab.supervisor
    record = dict(session.state.sandbox.record) if target in ("both", "sandbox") else {}
    at_us = time.time_ns() // 1000
    hit = False
    if target in ("both", "harness"):
        with contextlib.suppress(AgentlabError):  # none is alive at this very moment: the restart is not hit
            supervisor.kill(session.id, "harness", signal.SIGKILL)
            hit = True
    if record and process.liveness(record) == "alive":
        from agentlab.sandbox.killing import kill_sandbox

        kill_sandbox(record)
        hit = hit or target == "sandbox"
    if hit:
        named = "sandbox" if target == "sandbox" else "harness"
        mark = {"id": session.lab.ids.new("i"), "fault": "drawn", "target": named, "action": "kill", "at_us": at_us}
        session.add_input(Draft("fault_injected", mark))


def _poison(crashes: Crashes) -> list[Fault]:
    loop = crashes.process
    if not isinstance(loop, CrashLoop):
        return []
    kills = loop.kills if loop.kills is not None else ENDLESS
    return [Fault(f"poison-{n}", "harness", seq=loop.at_event) for n in range(1, kills + 1)]
