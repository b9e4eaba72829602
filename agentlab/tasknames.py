"""Tasks by name: registered in this process, built in, of installed packages (entry points ``agentlab.tasks``), or of a module
that is named itself (``package.module`` or ``module:NAME``)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
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


def names_module(name: str) -> bool:
    """Whether a task's name says in which module it is, as ``package.module`` or ``module:NAME``."""
    return "." in name or ":" in name


def task(name: str) -> Task:
    """The task of that name; its module is imported now.

    One that nobody registered is looked for where its name says: ``package.module`` holds it as ``TASK``, ``module:NAME``
    as ``NAME``.

    Raises:
        UnknownName: there is no such task, module or name (near matches in the message).
        BadDefinition: its module can not be imported, or there is no task in it.
    """
    from agentlab.authoring import Task

    if name in _registered:
        return _registered[name]
    place = BUILTIN.get(name) or _places().get(name)
    if place is None and names_module(name):
        return _in_module(name)
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


def _in_module(name: str) -> Task:
    from agentlab.authoring import Task

    module_name, _, attribute = name.partition(":")
    attribute = attribute or "TASK"
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise UnknownName("task", name, task_names())
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise BadDefinition(f"module {module_name} can not be imported: {error}") from error
        here = (path.stem for path in Path.cwd().glob("*.py"))
        raise UnknownName("module", module_name, [*here, "agentlab.examples"]) from None
    except Exception as error:  # whatever the module does while it is imported
        raise BadDefinition(f"module {module_name} can not be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, attribute, None)
    if found is None:
        tasks = [known for known, value in vars(module).items() if isinstance(value, Task)]
        raise UnknownName(f"task in {module_name}", attribute, tasks)
    if not isinstance(found, Task):
        raise BadDefinition(f"{module_name}:{attribute} is of type {type(found).__name__}, not a Task")
    return found
