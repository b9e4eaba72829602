"""Words of an ``%agent`` line that depend on the other words in it: parameters of its task, event numbers of its session.

Models too: policies of cells, recordings of the lab, and the kinds of names there are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentlab.authoring import Task, Tool, task_names
from agentlab.lab import Session
from agentlab.lab.lines import QUIET
from agentlab.lab.parameters import parameters_of
from agentlab.notebook.place import current, task_named, tasks_in

Words = Sequence[str]
"""The words between the verb and the one that is being completed."""
NUMBERS = 400
"""How many of the newest events are offered by number."""


def _parameters(namespace: Mapping[str, Any], words: Words) -> list[str]:
    known = {*tasks_in(namespace), *task_names()}
    named = next((word for word in words if word in known), None)
    return [f"{name}=" for name in parameters_of(task_named(named, namespace))] if named else []


def _models(namespace: Mapping[str, Any], words: Words) -> list[str]:
    recorded = [f"recorded:{session}" for session in current().lab.store.sessions()]
    mine = [name for name, value in namespace.items() if not name.startswith("_") and _is_model(value)]
    return [*mine, *recorded, "claude-", "anthropic:", "scripted:"]


def _is_model(value: Any) -> bool:
    """Whether a name of a cell can be meant: an object with ``complete``, or a function of one argument that is no tool."""
    if isinstance(value, type | Tool | Task):
        return False
    if hasattr(value, "complete"):
        return True
    code = getattr(value, "__code__", None)
    return inspect.isfunction(value) and code is not None and code.co_argcount == 1


def _numbers(namespace: Mapping[str, Any], words: Words) -> list[str]:
    session = _session(words)
    head = session.state.seq
    return [str(event.seq) for event in session.replay(max(1, head - NUMBERS)) if event.type not in QUIET]


def _session(words: Words) -> Session:
    place = current()
    known = place.lab.store.sessions()
    named = next((word for word in words if word in known), None)
    return place.lab.session(named) if named else place.session()


BY_WORDS: dict[str, Callable[[Mapping[str, Any], Words], Iterable[str]]] = {
    "param": _parameters,
    "model": _models,
    "from_seq": _numbers,
    "to_seq": _numbers,
    "at": _numbers,
    "seq": _numbers,
}
"""Where the values of an argument come from when the other words count, by its ``dest``."""
