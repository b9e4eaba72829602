"""Running an experiment over an executor: a bounded number of runs in flight, each failure a result of its own.

Any :class:`concurrent.futures.Executor` does: processes of this machine (the default), threads, or a cluster's. What a
worker needs travels by value once per batch, tasks and functions of a notebook's cells included.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentlab.comparing.conditions import Condition
from agentlab.errors import AgentlabError

Job = tuple[Condition, int | None]
LONGEST = 2000
"""Characters of an error that are kept."""
PATIENCE_S = 0.25
"""How often a wait for results is interrupted to show the time that is left."""


class Runner(Protocol):
    """Does one run. It is pickled (by cloudpickle) and used in the workers."""

    batch: int
    """Runs that go to a worker together."""

    def run(self, condition: Condition, seed: int | None) -> dict[str, Any]:
        """The columns of one run; whatever it raises becomes the run's error."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """One run that is over: its columns, or why it failed."""

    condition: Condition
    seed: int | None
    row: dict[str, Any] = field(default_factory=dict)
    error: str = ""


class OwnPool(ProcessPoolExecutor):
    """Processes of this machine, as many as it has cores. They start fresh: a fork of a kernel with threads may hang,
    and the owner's script is not run again (:mod:`agentlab.comparing.fresh`).

    They end with the process that started them, however it goes, and with :meth:`end` in the middle of what they do.
    """

    def __init__(self, workers: int | None = None) -> None:
        from agentlab.comparing.fresh import FreshContext

        context = FreshContext()
        self._over = context.Event()
        super().__init__(
            workers or os.cpu_count() or 1, mp_context=context, initializer=_end_with_owner, initargs=(self._over,)
        )

    def end(self) -> None:
        """End the workers now; what they were doing is lost."""
        self._over.set()
        self.shutdown(wait=False, cancel_futures=True)


def default_executor(workers: int | None = None) -> OwnPool:
    """The pool that is used where none is given."""
    return OwnPool(workers)


def _end_with_owner(over: Any) -> None:
    """In a worker: leave when the owner says so or is gone; interrupts are the owner's business."""
    import multiprocessing
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def leave_after(wait_for: Callable[[], object]) -> None:
        wait_for()
        os._exit(1)

    for wait_for in filter(None, (over.wait, parent.join if parent is not None else None)):
        threading.Thread(target=leave_after, args=(wait_for,), name="agentlab-owner", daemon=True).start()


def run_jobs(
    runner: Runner, jobs: Iterable[Job], executor: Executor | None = None, tick: Callable[[], None] = lambda: None
) -> Iterator[Done]:
    """Do the jobs; results as they come, in any order. ``tick`` is called while nothing comes.

    A worker that dies takes the runs along that were in flight with it: the own pool is made anew and they are tried once
    more, alone; what dies again is a failed run.

    Raises:
        AgentlabError: an executor that was handed in is broken; what had come before stands.
    """
    yield from _Pool(runner, executor, tick).run(deque(jobs))


Results = list[tuple[dict[str, Any], str]]


@dataclass(frozen=True, slots=True)
class _Flight:
    """Jobs in a worker. ``alone``: nothing else ran meanwhile, so a dead worker died of them."""

    jobs: list[Job]
    executor: Executor
    alone: bool = False


class _Pool:
    def __init__(self, runner: Runner, executor: Executor | None, tick: Callable[[], None]) -> None:
        import cloudpickle

        self.payload: bytes = cloudpickle.dumps(runner)
        self.batch = max(1, runner.batch)
        self.given, self.tick = executor, tick
        self.own = None if executor is not None else default_executor()
        self.flying: dict[Future[Results], _Flight] = {}
        self.suspects: deque[Job] = deque()

    def run(self, jobs: deque[Job]) -> Iterator[Done]:
        try:
            while jobs or self.suspects or self.flying:
                self._fill(jobs)
                finished, _ = wait(self.flying, PATIENCE_S, FIRST_COMPLETED)
                self.tick()
                for future in finished:
                    yield from self._results(future, self.flying.pop(future))
        finally:
            for future in self.flying:
                future.cancel()
            if self.own is not None:
                if self.flying:
                    self.own.end()
                else:
                    self.own.shutdown(wait=False)

    @property
    def executor(self) -> Executor:
        """The executor in use."""
        found = self.given or self.own
        assert found is not None
        return found

    def _fill(self, jobs: deque[Job]) -> None:
        if self.suspects:  # one at a time, so that it is clear who breaks the pool
            if not self.flying:
                self._submit([self.suspects.popleft()], alone=True)
            return
        most = 2 * int(getattr(self.executor, "_max_workers", 8))
        while jobs and len(self.flying) < most:
            size = max(1, min(self.batch, len(jobs) // most))
            self._submit([jobs.popleft() for _ in range(size)])

    def _submit(self, jobs: list[Job], alone: bool = False) -> None:
        try:
            future = self.executor.submit(_work, self.payload, jobs)
        except BrokenExecutor as error:
            self._renew(self.executor, error)
            future = self.executor.submit(_work, self.payload, jobs)
        self.flying[future] = _Flight(jobs, self.executor, alone)

    def _results(self, future: Future[Results], flight: _Flight) -> Iterator[Done]:
        try:
            found = future.result()
        except BrokenExecutor as error:
            self._renew(flight.executor, error)
            if not flight.alone:
                self.suspects.extend(flight.jobs)
                return
            found = [({}, "WorkerDied: the process that ran it died")] * len(flight.jobs)
        except (Exception, SystemExit) as error:  # what a worker gave can not travel back
            found = [({}, f"{type(error).__name__}: {error}"[:LONGEST])] * len(flight.jobs)
        for (condition, seed), (row, why) in zip(flight.jobs, found, strict=True):
            yield Done(condition, seed, row, why)

    def _renew(self, broken: Executor, error: BaseException) -> None:
        if self.given is not None:
            raise AgentlabError(
                f"the executor that was given is broken ({error}): make a new one and start the same experiment again; it goes"
                " on with the runs that are missing"
            ) from error
        if broken is self.own:
            broken.shutdown(wait=False, cancel_futures=True)
            self.own = default_executor()


_loaded: tuple[str, Any] = ("", None)


def _work(payload: bytes, jobs: list[Job]) -> Results:
    """In a worker: do some jobs; each gives its columns, or its error."""
    import cloudpickle

    global _loaded
    identity = hashlib.sha256(payload).hexdigest()
    known, runner = _loaded
    if known != identity:
        runner = cloudpickle.loads(payload)
        _loaded = identity, runner
    found: Results = []
    for condition, seed in jobs:
        try:
            found.append((runner.run(condition, seed), ""))
        except (Exception, SystemExit) as error:  # a function that calls sys.exit ends its run, not the experiment
            found.append(({}, f"{type(error).__name__}: {error}"[:LONGEST]))
    return found
