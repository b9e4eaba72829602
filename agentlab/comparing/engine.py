"""The one loop behind comparisons and sweeps: what is missing is run, recorded as it comes, and told to whoever watches."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from agentlab.comparing.conditions import Plan
from agentlab.comparing.progress import Meter, watch_of
from agentlab.comparing.recording import Recording
from agentlab.comparing.running import Done, Runner, run_jobs

MOST_UNRECORDED = 200
"""Runs that may be over and not yet in the log."""


def conduct(
    plan: Plan,
    runner: Runner,
    lab: Any,
    *,
    name: str | None = None,
    executor: Executor | None = None,
    progress: Any = True,
) -> Recording:
    """Run what the plan's session in ``lab`` does not hold yet; the session holds every run afterwards.

    An interrupt leaves the session paused with what was over by then; so does an executor that breaks. The same call
    goes on from there.

    Raises:
        UserError, SessionBusy: as :class:`agentlab.comparing.recording.Recording`.
    """
    recording = Recording(lab, plan, name)
    if recording.ended:
        return recording
    recording.open()
    missing = [(c, seed) for c, seed in plan.jobs() if (c.name, seed) not in recording.done]
    meter = Meter(recording.session_id, len(plan), len(recording.done), watch_of(progress))
    waiting: list[Done] = []
    try:
        for done in run_jobs(runner, missing, executor, tick=_ticking(recording, waiting, meter)):
            waiting.append(done)
            meter.count(done.error)
            if len(waiting) >= MOST_UNRECORDED:
                _flush(recording, waiting)
        _flush(recording, waiting)
    except BaseException as error:
        _flush(recording, waiting)
        recording.pause("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)
        raise
    recording.finish(sum(1 for done in recording.results() if done.error))
    meter.tick(last=True)
    return recording


def _ticking(recording: Recording, waiting: list[Done], meter: Meter) -> Callable[[], None]:
    def tick() -> None:
        _flush(recording, waiting)
        meter.tick()

    return tick


def _flush(recording: Recording, waiting: list[Done]) -> None:
    if waiting:
        fresh, waiting[:] = list(waiting), []
        recording.record(fresh)
