"""``al.sweep``: any function, or any task, over a grid of conditions; recorded as a session, resumable, watched."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlab.comparing.conditions import Condition, Plan, seeds_of
from agentlab.comparing.engine import conduct
from agentlab.comparing.fitting import require_arguments, require_task_fields
from agentlab.comparing.frames import shown
from agentlab.comparing.histories import RUNS
from agentlab.comparing.measuring import measure
from agentlab.comparing.recording import source_digest
from agentlab.comparing.running import Done
from agentlab.errors import BadDefinition
from agentlab.events import canonical, plain
from agentlab.experiments.columns import RUN_COLUMNS
from agentlab.lab import Lab, Session
from agentlab.lab.accepting import accepting_for

if TYPE_CHECKING:
    import pandas as pd

    from agentlab.authoring import Task

Grid = Mapping[str, Any] | Iterable[Mapping[str, Any]]
LONGEST_NAME = 60
LIMIT_S = 600.0


@dataclass(frozen=True, repr=False)
class Swept:
    """What a sweep gave. ``frame`` has one row per run: condition, the grid's values, seed, ok, error, duration_s, and
    whatever the function returned; ``session_id`` is the sweep's own session."""

    session_id: str
    frame: pd.DataFrame
    failed: int

    def text(self) -> str:
        """The sweep in a sentence, and its frame."""
        return f"{self.session_id}: {len(self.frame)} runs, {self.failed} failed\n{self.frame.to_string(max_rows=20)}"

    __repr__ = text

    def _repr_html_(self) -> str:
        head = f"<div style='font-weight:600'>{escape(self.session_id)}: {len(self.frame)} runs, {self.failed} failed</div>"
        return head + str(self.frame.to_html(max_rows=20, border=0, notebook=False))

    def to_json(self) -> dict[str, Any]:
        """Rows as plain data; what is missing is null."""
        rows = self.frame.astype(object).where(self.frame.notna(), None).to_dict("records")
        return {"session": self.session_id, "failed": self.failed, "rows": rows}


def sweep(
    grid: Grid,
    fn: Callable[..., Any] | str | Task,
    seeds: Iterable[int] | int | None = None,
    *,
    lab: Lab | None = None,
    name: str | None = None,
    executor: Executor | None = None,
    progress: Any = True,
    limit_s: float = LIMIT_S,
) -> Swept:
    """Call ``fn`` once for every condition of the grid (and every seed); a failed run is a row with its error.

    The sweep is a session in ``lab``: its plan is on record before the first run, each run as it is over. When the
    process is killed the same call goes on with the runs that are missing; a changed grid, function or seed is another
    sweep.

    Args:
        grid: names to lists of values, of which every combination is a condition (models, prompts, limits, guard
            thresholds, context strategies, sandbox kinds, …); or the conditions one by one, as mappings. Values are plain
            JSON; for others give a mapping of names to objects instead of a list: the names are recorded.
        fn: called with a condition's values as keyword arguments, and ``seed`` if there are seeds. It returns a mapping of
            columns, a session (measured like a run of a comparison) or one value. A task or its name instead of a function
            runs the task for real, with the values as its fields (``model``, ``policy``, ``limits``, ``guard`` …).
        seeds: seeds, or how many; none by default.
        lab: where the sweep is recorded; ``al.Lab()`` without it.
        name: the session's name; by default an unfinished sweep of the same plan, or a new one.
        executor: any :class:`concurrent.futures.Executor`; processes of this machine without one.
        progress: True, False, or a callable that gets a :class:`agentlab.comparing.progress.Progress`.
        limit_s: seconds after which a task's run is ended and counts as failed.

    Raises:
        UserError: a grid that can not be recorded, a field that the task or the function does not have, or a name of another
            experiment.
        SessionBusy: another process drives this very sweep.
    """
    if not (callable(fn) or isinstance(fn, str) or hasattr(fn, "define")):
        raise BadDefinition(f"a sweep calls a function or runs a task (or its name), not {fn!r}")
    home = lab if lab is not None else Lab()
    conditions, objects = grid_conditions(grid)
    numbers: tuple[int | None, ...] = (None,) if seeds is None else seeds_of(seeds)
    if seeds is not None and any("seed" in condition.values for condition in conditions):
        raise BadDefinition("grid: seed is a field of it, and there are seeds= as well: give them in one place")
    runner: Any
    if callable(fn) and not hasattr(fn, "define"):
        require_arguments(conditions, fn, seeded=seeds is not None)
        runner, subject = FunctionRunner(fn, objects), str(getattr(fn, "__name__", "function"))
        about = {"function": source_digest(fn)}
    else:
        from agentlab import authoring

        task: Any = authoring.task(fn) if isinstance(fn, str) else fn
        require_task_fields(conditions, seeded=seeds is not None)
        runner, subject = TaskRunner(task, objects, home.path / RUNS, limit_s), str(task.name)
        about = {"task": subject}
    subject = "".join(c if c.isalnum() or c in "_-" else "-" for c in subject) or "function"
    plan = Plan("sweep", subject, conditions, numbers, about)
    recording = conduct(plan, runner, home, name=name, executor=executor, progress=progress)
    frame = sweep_frame(recording.results(), plan)
    return Swept(recording.session_id, frame, int((~frame["ok"]).sum()))


OWN_COLUMNS = ("condition", "ok", "error", "duration_s")
"""Columns of the frame beside the grid's fields, ``seed`` and what the function gives (those get a ``_`` where they meet)."""


def grid_conditions(grid: Grid) -> tuple[tuple[Condition, ...], dict[str, dict[str, Any]]]:
    """The conditions of a grid, and by field the objects that its recorded names stand for.

    Raises:
        BadDefinition: a value that is no plain JSON and has no name, a field named like an own column, or nothing to choose from.
    """
    objects: dict[str, dict[str, Any]] = {}
    if not isinstance(grid, Mapping):
        given: Any = grid
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise BadDefinition(f"grid: names to lists of values, or a list of conditions, not {given!r}")
        several = list(given)
        for row in several:
            if not isinstance(row, Mapping):
                raise BadDefinition(f"grid: a condition is a mapping of names to values, not {row!r}")
        rows = [dict(row) for row in several]
    else:
        axes: dict[str, Sequence[Any]] = {}
        for field, values in grid.items():
            if isinstance(values, Mapping):
                objects[field] = dict(values)
                axes[field] = list(values)
            elif isinstance(values, (list, tuple, range, set, frozenset)):
                axes[field] = sorted(values, key=repr) if isinstance(values, (set, frozenset)) else list(values)
            else:
                axes[field] = [values]
            if not axes[field]:
                raise BadDefinition(f"grid: {field} has no values")
        rows = [dict(zip(axes, combination, strict=True)) for combination in itertools.product(*axes.values())]
    for field in (field for row in rows for field in row):
        if not isinstance(field, str):
            raise BadDefinition(f"grid: a field is a name, not {field!r}")
        if field in OWN_COLUMNS:
            raise BadDefinition(f"grid: {field} is a column of every sweep's frame: give the field another name")
    return tuple(Condition(_name(row), _plain(row)) for row in rows), objects


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    for field, value in row.items():
        try:
            canonical(value)
        except Exception:
            raise BadDefinition(
                f"grid: a value of {field} is a {type(value).__name__}, which can not be recorded; give the values names:"
                f" {field}={{'a name': value, …}}"
            ) from None
    found: dict[str, Any] = plain(dict(row))
    return found


def _name(row: Mapping[str, Any]) -> str:
    parts = []
    for field, value in row.items():
        text = value if isinstance(value, str) else repr(value)
        parts.append(f"{field}={text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + '…'}")
    return ", ".join(parts) or "all"


class FunctionRunner:
    """Calls a function; what it returns becomes columns."""

    batch = 1

    def __init__(self, fn: Callable[..., Any], objects: Mapping[str, Mapping[str, Any]]) -> None:
        self.fn, self.objects = fn, objects

    def run(self, condition: Condition, seed: int | None) -> dict[str, Any]:
        """The columns of one call."""
        given = {} if seed is None else {"seed": seed}
        began = time.perf_counter()
        with accepting_for("sweep"):
            value = self.fn(**chosen(condition, self.objects), **given)
        return {"duration_s": round(time.perf_counter() - began, 6), "value": columns_of(value)}


class TaskRunner:
    """Runs a task for real, once per condition."""

    batch = 1

    def __init__(self, task: Any, objects: Mapping[str, Mapping[str, Any]], folder: Path, limit_s: float) -> None:
        self.task, self.objects, self.folder, self.limit_s = task, objects, str(folder), limit_s

    def run(self, condition: Condition, seed: int | None) -> dict[str, Any]:
        """The measured columns of one run."""
        from agentlab.comparing.real import drive, own_lab
        from agentlab.comparing.simulating import Crashes

        began = time.perf_counter()
        with own_lab(self.folder) as lab:
            session = lab.create(self.task, seed=seed, **chosen(condition, self.objects))
            late = drive(session, Crashes(), 0, self.limit_s)
            row = {**measure(session.events()), "session_id": f"{lab.path.name}/{session.id}"}
        row |= {"completed": False, "outcome": "timeout"} if late else {}
        return {"duration_s": round(time.perf_counter() - began, 6), "value": row}


def chosen(condition: Condition, objects: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The values of a condition, named objects in place of their names."""
    return {field: objects[field][value] if field in objects else value for field, value in condition.values.items()}


def columns_of(value: Any) -> dict[str, Any]:
    """What a function returned, as columns."""
    if isinstance(value, Session):
        return {**measure(value.events()), "session_id": value.id}
    if isinstance(value, Mapping):
        return {str(k): v for k, v in value.items()}
    return {} if value is None else {"value": value}


def sweep_frame(results: Iterator[Done], plan: Plan) -> pd.DataFrame:
    """One row per run, in the order of the plan."""
    import pandas as pd

    place = {job: number for number, job in enumerate((c.name, s) for c in plan.conditions for s in plan.seeds)}
    fields = list(dict.fromkeys(field for condition in plan.conditions for field in condition.values))
    taken = {*OWN_COLUMNS, "seed", *fields}
    rows: list[tuple[int, dict[str, Any]]] = []
    extra: dict[str, None] = {}
    for done in results:
        columns = done.row.get("value") or {}
        extra |= dict.fromkeys(columns)
        rows.append((place[done.condition.name, done.seed], {
            "condition": done.condition.name, "seed": done.seed,
            **{field: _cell(done.condition.values.get(field)) for field in fields},
            "ok": not done.error, "error": done.error, "duration_s": done.row.get("duration_s"),
            **{(k if k not in taken else f"{k}_"): _cell(v) for k, v in columns.items()},
        }))  # fmt: skip
    names = ["condition", *fields, "seed", "ok", "error", "duration_s"]
    names += [k if k not in taken else f"{k}_" for k in extra]
    table = [{shown(k): shown(v) for k, v in row.items()} for _, row in sorted(rows, key=lambda r: r[0])]
    frame = pd.DataFrame(table, columns=list(dict.fromkeys(map(shown, names))))
    kinds = {"condition": "string", "seed": "Int64", "ok": "bool", "error": "string", "duration_s": "float64"}
    measured = {k: kind for k, (kind, _) in RUN_COLUMNS.items() if k in extra and k not in taken}
    return frame.astype({**kinds, **measured}, errors="ignore")


def _cell(value: Any) -> Any:
    """A recorded value as a cell: numbers that JSON has no word for are numbers again, what has parts is JSON text."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        ((mark, told),) = value.items()
        if mark == "$float":
            return float(told)
        if mark == "$int":
            return int(told, 16)
        if mark == "$repr":
            return told
    return canonical(value)
