"""From SIGKILL of a harness to the first event of the next one: real processes, scripted model."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.errors import AgentlabError
from agentlab.lab import Lab, Session

DEADLINE_S = 60.0


def restart_seconds(folder: Path, runs: int = 9) -> dict[str, Any]:
    """Median over ``runs`` kills of the seconds until the next ``harness_woken`` is durable.

    Raises:
        AgentlabError: a harness did not come back within a minute.
    """
    with Lab(folder) as lab:
        seconds = [_kill_once(_waiting(lab)) for _ in range(runs)]
    return {"restart_seconds": round(statistics.median(seconds), 3), "restart_slowest": round(max(seconds), 3)}


def _waiting(lab: Lab) -> Session:
    """A session whose harness is alive and waits for its next step. Each kill gets its own: a harness that is killed
    again and again without work in between is, rightly, not restarted."""
    session = lab.create("sea_table")
    session.step()
    return session


def _kill_once(session: Session) -> float:
    state = _alive(session, session.state.incarnation)
    started = time.time()
    process.send_signal(dict(state.process))
    woken = _alive(session, state.incarnation + 1)
    for event in session.replay(max(1, woken.seq - 20)):
        if event.type == "harness_woken" and event.incarnation == state.incarnation + 1:
            return max(0.0, event.ts / 1e6 - started)
    raise AgentlabError("the next harness left no opening")


def _alive(session: Session, incarnation: int) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        state = session.state
        if state.incarnation >= incarnation and process.liveness(state.process) == "alive":
            return state
        time.sleep(0.002)
    raise AgentlabError(
        f"no harness of {session.id!r} came back within {DEADLINE_S:g} s; see its output in the lab's run folder"
    )
