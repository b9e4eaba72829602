"""Where the runs of a comparison take place: simulated, in real processes, or in the timing of a recorded session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agentlab.comparing.conditions import Condition, spec_of
from agentlab.comparing.histories import RUNS, events_of, measured_latencies, subject_of
from agentlab.comparing.latencies import Latencies
from agentlab.comparing.outside import outside_of
from agentlab.comparing.running import Runner
from agentlab.comparing.simulating import Crashes
from agentlab.errors import BadDefinition, UnknownName
from agentlab.events import canonical, digest, plain
from agentlab.explorer.subject import Subject
from agentlab.lab import Lab, Session

if TYPE_CHECKING:
    from agentlab.authoring import Task

Mode = Literal["simulated", "real", "what-if"]
MODES = ("simulated", "real", "what-if")
LIMIT_S = 600.0
"""Seconds after which a real run is ended and counts as unfinished."""


@dataclass(frozen=True, slots=True)
class World:
    """What does the runs; what they are of; what was measured in the lab for it; words for a reader."""

    runner: Runner
    subject: str
    measured: Mapping[str, Any]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A comparison as it was asked for, conditions and seeds aside; fields as :func:`agentlab.comparing.compare`'s.

    Raises:
        UnknownName: no such mode.
    """

    task: Any
    mode: str
    crashes: Crashes
    model: Any
    overrides: Mapping[str, Any]
    latencies: Latencies | None
    limit_s: float | None
    restart_s: float | None
    checkpoint_s: float | None
    lab: Lab | None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UnknownName("mode", str(self.mode), MODES)

    @property
    def mtbf_s(self) -> float | None:
        """Mean time between failures of the process, or its period; None where it has neither."""
        process = self.crashes.process
        found: float | None = getattr(process, "mtbf", getattr(process, "period_s", None))
        return found

    def identity(self, home: Lab, first: Condition) -> tuple[str, dict[str, Any]]:
        """What the comparison is of, and what else was asked for; ``home`` is the lab that keeps it, ``first`` its first condition.

        Defining the task here finds its mistakes before anything runs.

        Raises:
            UserError: the task can not be run like that.
        """
        process = self.crashes.process
        faults = process.to_json() if process is not None else None
        about: dict[str, Any] = {"mode": self.mode, "faults": faults, "target": self.crashes.target}
        if self.mode == "what-if":
            kind, name = subject_of(self.task, home)
            return name, {**about, "of": kind, "checkpoint_s": self.checkpoint_s, "restart_s": self.restart_s}
        task = self._task()
        subject = Subject(task, self.model, policy=spec_of(first), scheme=first.values["scheme"], **self.overrides)
        data = {k: v for k, v in subject.definition.to_json().items() if k not in ("policy", "scheme")}
        about |= {"definition": digest(canonical(plain(data))), "model": subject.definition.model}
        if self.mode == "simulated" and self.latencies is not None:
            about |= {"latencies": self.latencies.source, "latencies_digest": self.latencies.digest}
        return task.name, about

    @contextmanager
    def world(self, home: Lab, begun: Mapping[str, Any] | None) -> Iterator[World]:
        """The world of the runs; ``begun`` is what an unfinished comparison had measured, which is gone on with.

        Raises:
            UserError: there is nothing to replay.
        """
        if self.mode == "what-if":
            yield self._replayed(home, begun)
            return
        task = self._task()
        if self.mode == "simulated":
            yield self._simulated(task, begun)
            return
        with outside_of(task, self.overrides, home.path) as overrides:
            yield self._real(task, home, overrides)

    def _task(self) -> Task:
        from agentlab import authoring

        if isinstance(self.task, Session):
            raise BadDefinition(
                f"mode {self.mode} runs a task: give its name or the task itself; a recorded session is for what-if"
            )
        named = authoring.task(self.task) if isinstance(self.task, str) else self.task
        if not isinstance(named, authoring.Task):
            raise BadDefinition(f"mode {self.mode} runs a task, or the name of one, not {named!r}")
        return named

    def _simulated(self, task: Task, begun: Mapping[str, Any] | None) -> World:
        from agentlab.comparing.runners import SimulatedRunner

        if self.latencies is not None:
            drawn, measured = self.latencies, {}
        else:
            known = (begun or {}).get("latencies")
            drawn = Latencies.from_json(known) if known is not None else measured_latencies(self.lab, task.name)
            measured = {"latencies": drawn.to_json()}
        runner = SimulatedRunner(task, self.crashes, drawn, self.model, self.overrides, self.limit_s or 1e9)
        return World(runner, task.name, measured, (f"Simulated; latencies {drawn.source}.",))

    def _real(self, task: Task, home: Lab, overrides: Mapping[str, Any]) -> World:
        from agentlab.comparing.real import RealRunner

        limit_s = self.limit_s or LIMIT_S
        runner = RealRunner(task, self.crashes, home.path / RUNS, self.model, overrides, limit_s)
        return World(runner, task.name, {}, ("Real processes, killed with SIGKILL.",))

    def _replayed(self, home: Lab, begun: Mapping[str, Any] | None) -> World:
        from agentlab.comparing.replaying import ReplayRunner

        session_id, events = events_of(self.task, home, begun)
        runner = ReplayRunner(events, self.crashes, self.checkpoint_s, self.restart_s)
        measured = {"session": session_id, "events": len(events), "head": events[-1].hash, "costs": runner.to_json()}
        told = (
            f"Replayed from {session_id}: {runner.track.work_s:.3g} s of work in {runner.track.end} spans,"
            f" {runner.checkpoint_s:.3g} s for a checkpoint, {runner.restart_s:.3g} s for a restart."
        )
        return World(runner, session_id, measured, (told,))
