"""Parameters as a line gives them, and which a task has: those it declares, and those that the code of its tools, validator
and model names.

A parameter that is written on a line and that nothing would ever read is a slip, not a choice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from agentlab.authoring import Task
from agentlab.errors import BadDefinition, UnknownName, UserError

_ASKS = "task_params"
_ASSIGNED = re.compile(r"([A-Za-z_][\w.:-]*)=(.*)", re.DOTALL)


def assigned(items: Iterable[str], option: str) -> Mapping[str, Any]:
    """``NAME=VALUE`` items as a mapping; a value that reads as JSON is taken as such."""
    found = {}
    for item in items:
        match = _ASSIGNED.fullmatch(item)
        if match is None:
            raise BadDefinition(f"{option} {item!r}: write NAME=VALUE")
        try:
            found[match[1]] = json.loads(match[2])
        except ValueError:
            found[match[1]] = match[2]
    return found


def parameters(task: Task, items: Iterable[str]) -> Mapping[str, Any]:
    """The parameters of a task with those that are given in a line.

    Raises:
        UserError: one that the task does not have (near matches in the message).
    """
    given = assigned(items, "--param")
    check_parameters(task, given)
    return {**task.params, **given}


def parameters_of(task: Task) -> list[str]:
    """The parameters that a task declares, and those that its code asks :func:`agentlab.task_params` for; sorted."""
    asked = {name for code in _codes(task) if _ASKS in code.co_names for name in _words(code)}
    return sorted({*task.params, *asked})


def check_parameters(task: Task, given: Iterable[str]) -> None:
    """Refuse a parameter that the task neither declares nor mentions anywhere in its code.

    Raises:
        UserError: it has none at all, or none of that name (near matches in the message).
    """
    unknown = [name for name in given if name not in task.params]
    if not unknown:
        return
    mentioned = {word for code in _codes(task) for word in _words(code)}
    known = parameters_of(task)
    for name in unknown:
        if name not in mentioned:
            if not known:
                raise UserError(
                    f"task {task.name!r} has no parameter {name!r}: it has none at all; declare it with"
                    f" Task(params={{{name!r}: …}}), or ask agentlab.task_params() for it in a tool"
                )
            raise UnknownName(f"parameter of task {task.name!r}", name, known)


def _codes(task: Task) -> Iterator[CodeType]:
    """The code of everything of the task that can ask for a parameter, and of what that calls in its own module."""
    waiting: list[Any] = [*task.tools, task.validator, task.model]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        options = getattr(value, "options", None)  # a tool: its function, and those that look up or verify
        if isinstance(options, Mapping):
            waiting += options.values()
        value = getattr(value, "__wrapped_tool__", value)
        if isinstance(value, type):
            waiting += [v for v in vars(value).values() if isinstance(v, FunctionType)]
        if isinstance(value, FunctionType):
            for code in _nested(value.__code__):
                yield code
                waiting += [v for name in code.co_names if _near(v := value.__globals__.get(name), value.__module__)]


def _near(value: Any, module: str) -> bool:
    value = getattr(value, "__wrapped_tool__", value)
    return isinstance(value, FunctionType | type) and value.__module__ == module


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _nested(value)


def _words(code: CodeType) -> Iterator[str]:
    return (value for value in code.co_consts if isinstance(value, str) and value.isidentifier())
