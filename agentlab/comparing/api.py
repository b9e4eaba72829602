"""``al.compare``: one task under several checkpoint policies and schemes, with numbers one can trust."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlab.comparing.compared import Compared
from agentlab.comparing.conditions import Condition, Plan, policies_of, policy_conditions, seeds_of
from agentlab.comparing.engine import conduct
from agentlab.comparing.frames import run_frame, sorted_runs
from agentlab.comparing.latencies import Latencies
from agentlab.comparing.recording import begun_with
from agentlab.comparing.simulating import Crashes
from agentlab.comparing.summary import summarise
from agentlab.comparing.worlds import Asked, Mode
from agentlab.definition import PolicySpec
from agentlab.errors import BadDefinition, UnknownName
from agentlab.failures import Exponential, Process
from agentlab.lab import Lab, Session

if TYPE_CHECKING:
    from agentlab.authoring import Task


def compare(
    task: str | Task | Session,
    policies: Iterable[str | PolicySpec] | str | PolicySpec = ("default",),
    schemes: Sequence[str] = ("hybrid",),
    faults: Process | float | None = None,
    seeds: Iterable[int] | int = range(20),
    *,
    mode: Mode = "simulated",
    executor: Executor | None = None,
    baseline: str | None = None,
    target: str = "both",
    latencies: Latencies | None = None,
    lab: Lab | None = None,
    name: str | None = None,
    model: Any = None,
    limit_s: float | None = None,
    restart_s: float | None = None,
    checkpoint_s: float | None = None,
    progress: Any = True,
    **overrides: Any,
) -> Compared:
    """Run ``task`` under every policy and scheme, with the same crashes for each by seed, and say what that costs.

    Returns an object with ``frame`` (one row per run, columns :data:`agentlab.experiments.columns.RUN_COLUMNS`) and
    ``summary``; it shows itself with a recommendation and a plot, and unpacks into the two.

    Args:
        task: a task or its name; for *what-if* a session that was recorded.
        policies: in their short forms; ``every=1,5,20`` is three. The first is the baseline unless ``baseline`` names one.
        schemes: what a recovery rests on: ``hybrid``, ``events``, ``snapshot``.
        faults: a failure process (``al.Poisson(mtbf=60)``, ``al.Weibull`` …), a number for a mean time between failures
            in seconds, or None for no crash.
        seeds: seeds, or how many.
        mode: *simulated* runs the same harness over memory and a clock of its own, *real* runs child processes and kills
            them (SIGKILL), *what-if* replays the timing of a recorded session without any model.
        executor: any :class:`concurrent.futures.Executor`; processes of this machine without one.
        target: what a crash kills: ``both`` harness and sandbox (a machine), the ``harness`` or the ``sandbox``.
        latencies: of simulated runs; measured in ``lab`` where that has sessions of the task or real runs of it, else
            assumed.
        lab: keeps the experiment as a session, so that one that was killed goes on where it was, with what it had measured
            in the lab when it began; real runs are kept below its folder. Without it nothing is kept.
        name: the experiment's session; by default an unfinished one of the same plan, or a new one.
        model: another model than the task's.
        limit_s: a run is ended after so long, seconds on its own clock.
        restart_s, checkpoint_s: of what-if replays; measured in the session where it has any.
        progress: True, False, or a callable that gets a :class:`agentlab.comparing.progress.Progress`.
        overrides: other fields of the task (``params``, ``limits``, ``guard`` …).

    Raises:
        UserError: whatever can not be run as asked; nothing was run then.
    """
    asked = Asked(
        task, mode, _crashes_of(faults, target), model, overrides, latencies, limit_s, restart_s, checkpoint_s, lab
    )
    conditions = policy_conditions(
        policies_of(policies), (schemes,) if isinstance(schemes, str) else tuple(schemes), asked.mtbf_s
    )
    numbers = seeds_of(seeds)
    _known(baseline, conditions)
    with _home(lab) as home:
        subject, about = asked.identity(home, conditions[0])
        plan = Plan("compare", subject, conditions, numbers, about)
        with asked.world(home, begun_with(home, plan, name)) as world:
            plan = replace(plan, measured=world.measured)
            recording = conduct(plan, world.runner, home, name=name, executor=executor, progress=progress)
        frame = sorted_runs(run_frame(recording.results(), mode, asked.mtbf_s), [c.name for c in conditions])
    counted = f"{_count(len(conditions), 'condition')}, {_count(len(numbers), 'seed')}"
    title = f"{world.subject}: {counted}, {_told(asked.crashes)} ({mode})"
    session_id = recording.session_id if lab is not None else ""
    return Compared(title, frame, summarise(frame, baseline), session_id, world.remarks)


@contextmanager
def _home(lab: Lab | None) -> Iterator[Lab]:
    """The lab that keeps the experiment; without one a temporary lab that is gone afterwards."""
    if lab is not None:
        yield lab
        return
    folder = tempfile.mkdtemp(prefix="agentlab-compare-")
    try:
        with Lab(Path(folder, "lab")) as made:
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _crashes_of(faults: Process | float | None, target: str) -> Crashes:
    if isinstance(faults, (int, float)):
        return Crashes(Exponential(float(faults)), target)
    if faults is not None and not isinstance(faults, Process):
        raise BadDefinition(
            f"faults is a failure process such as al.Poisson(mtbf=60), a mean time between failures in seconds, or None,"
            f" not {faults!r}"
        )
    return Crashes(faults, target)


def _known(baseline: str | None, conditions: Sequence[Condition]) -> None:
    names = [condition.name for condition in conditions]
    if baseline is not None and baseline not in names:
        raise UnknownName("baseline", baseline, names)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _told(crashes: Crashes) -> str:
    process, target = crashes.process, crashes.target
    if process is None:
        return "no crash"
    numbers = ", ".join(
        f"{k} {v:g}" if isinstance(v, (int, float)) else f"{k} {v}"
        for k, v in process.to_json().items()
        if k not in ("kind", "times_s") and v is not None
    )
    what = {"both": "harness and sandbox", "harness": "harness", "sandbox": "sandbox"}[target]
    return f"{process.kind} crashes of the {what}" + (f" ({numbers})" if numbers else "")
