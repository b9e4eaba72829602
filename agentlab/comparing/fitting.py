"""Whether the fields of a grid fit what is called with them; what does not is refused before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from agentlab.authoring import Task
from agentlab.comparing.conditions import Condition
from agentlab.errors import BadDefinition, UnknownName

OF_RUNS = ("model", "crash", "faults")
"""What :meth:`agentlab.lab.Lab.create` takes besides a task's own fields, and may differ from run to run."""


def require_task_fields(conditions: Sequence[Condition], seeded: bool) -> None:
    """Refuse a field that no task has.

    Raises:
        UnknownName: which one (near matches in the message).
    """
    known = {*(field.name for field in fields(Task)), *OF_RUNS, *(() if seeded else ("seed",))} - {"name"}
    for condition in conditions:
        for field in condition.values:
            if field not in known:
                raise UnknownName("task field", field, known)


def require_arguments(conditions: Sequence[Condition], fn: Callable[..., Any], seeded: bool) -> None:
    """Refuse conditions that ``fn`` can not be called with. What says nothing of its arguments is believed.

    Raises:
        UnknownName: an argument that it does not have (near matches in the message).
        BadDefinition: one that it needs is not given.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return
    taken = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names = [parameter.name for parameter in taken]
    anything = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    called = str(getattr(fn, "__name__", "the function"))
    for condition in conditions:
        given = [*condition.values, *(("seed",) if seeded else ())]
        for name in given:
            if name not in names and not anything:
                raise UnknownName(f"argument of {called}", name, names)
        for parameter in taken:
            if parameter.default is parameter.empty and parameter.name not in given:
                raise BadDefinition(
                    f"grid: {called} needs {parameter.name!r}, which condition {condition.name!r} does not give"
                )
