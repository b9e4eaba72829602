"""Tasks by name: registered in this process, built in, or of installed packages (entry points ``agentlab.tasks``)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from agentlab.errors import BadDefinition, UnknownName

if TYPE_CHECKING:
    from agentlab.authoring import Task

BUILTIN: dict[str, str] = {"sales_report": "agentlab.tasks.sales:TASK", "sea_table": "agentlab.tasks.sea:TASK"}
_registered: dict[str, Task] = {}


def register_task(task: Task) -> Task:
    """Let ``task`` be found by its name; the newest registration counts."""
    from agentlab.authoring import Task as TaskClass

    if not isinstance(task, TaskClass):
        raise BadDefinition(f"only a Task can be registered, not {task!r}")
    _registered[task.name] = task
    return task


def _places() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {**{point.name: point.value for point in entry_points(group="agentlab.tasks")}, **BUILTIN}


def task_names() -> list[str]:
    """Names of all tasks that can be had, sorted."""
    return sorted({*_registered, *_places()})


def task(name: str) -> Task:
    """The task of that name; its module is imported now.

    Raises:
        UnknownName: there is none (near matches in the message).
        BadDefinition: its module can not be imported, or there is no task in it.
    """
    from agentlab.authoring import Task

    if name in _registered:
        return _registered[name]
    place = BUILTIN.get(name) or _places().get(name)
    if place is None:
        raise UnknownName("task", name, task_names())
    module, _, attribute = place.partition(":")
    try:
        found = getattr(import_module(module), attribute or "TASK")
    except (ImportError, AttributeError) as error:
        raise BadDefinition(f"task {name!r} is to be found at {place}, which can not be imported: {error}") from error
    if not isinstance(found, Task):
        raise BadDefinition(
            f"task {name!r} is to be found at {place}, but there is a {type(found).__name__}, not a Task"
        )
    return found
