"""Stored states of older versions lifted to the current one, one explicit step per version, when they are read.

**Adding a field to the folded state** takes one line in the table of the version that is not released yet
(:data:`ADDED_IN_2`): the path of the field and the value that a checkpoint written before it stands for, as JSON::

    "recovery.tax": {},                       a field of a part of the state
    "calls[].deadline_us": 0,                 a field of every item of a list
    "plan.stats{}.tokens": 0,                 a field of every value of an object
    "budget.pool": lambda part: ...,          a value that follows from the other fields of the same object

The value must be what a session that never met the new concept has, never a guess. A field that got another name
takes a line in the version's table of renames; one that went away is dropped by the version's step. The museum in
``datasets/museum`` holds checkpoints of every version, and a test reads them all.

Lifting happens after the stored bytes were verified against their digest and never writes anything back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentlab.context import ContextSpec
from agentlab.errors import CheckpointError, CheckpointTooNew

Stored = dict[str, Any]
"""A state as it was stored: plain JSON."""
Migration = Callable[[Stored], Stored]
"""Turns the stored state of one version into that of the next; it may change its argument."""

ADDED_IN_2: Mapping[str, Any] = {
    "budget.alerted": {},
    "budget.allotted": {},
    "budget.checkpoint_due": "",
    "budget.estimate": {},
    "budget.kept": {},
    "budget.learned": {},
    "budget.quotas": {},
    "budget.recent": {},
    "budget.refused": "",
    "budget.services": {},
    "budget.thresholds": [0.8, 0.95],
    "budget.unpriced": 0,
    "calls[].stateful_read": False,
    "calls[].superseded": False,
    "calls[].volatile": [],
    "control.confirm": False,
    "control.own_version": 0,
    "control.queued": 0,
    "control.queued_seq": 0,
    "checkpoint.also": [],
    "context.blocks[].cap": -1,
    "context.course": [],
    "context.full": "",
    "context.judged_round": 0,
    "context.model_failed": False,
    "context.over": 0,
    "context.restate": False,
    "context.restated_round": 0,
    "context.shortened": 0,
    "context.spec": ContextSpec().to_json(),
    "context.summary": "",
    "context.tokens": lambda part: sum(block["tokens"] for block in part["blocks"]),
    "context.told": "",
    "control.restore": None,
    "loop.capped": "",
    "plan.failures": {},
    "control.tools_allowed": [],
    "recovery.confirmed": False,
    "recovery.deaths_here": 0,
    "recovery.step_ts": 0,
    "recovery.went_back": False,
    "effects.inherited": {},
    "effects.recent[].output": "",
    "sandbox.changed_bytes": 0,
    "sandbox.restores": 0,
    "sandbox.stale": False,
}
"""Fields that version 2 has and version 1 had not: path and value in a checkpoint of version 1."""


def from_1_to_2(stored: Stored) -> Stored:
    """Version 2: recovery's accounts and what the concepts of that time added."""
    return with_fields(stored, ADDED_IN_2)


MIGRATIONS: Mapping[int, Migration] = {1: from_1_to_2}
"""The step that leads away from each older version."""


def migrate(stored: Any, version: Any, current: int, steps: Mapping[int, Migration] = MIGRATIONS) -> Any:
    """A stored state as version ``current`` would have written it.

    Raises:
        CheckpointTooNew: it is newer than ``current``.
        CheckpointError: no such version ever existed, it is no object, or a step can not find what it moves.
    """
    check_version(version, current)
    if version < current and not isinstance(stored, dict):
        raise CheckpointError(f"the state should be an object, found {type(stored).__name__}")
    while version < current:
        step = steps.get(version)
        if step is None:
            raise CheckpointError(f"schema_version {version}, from which no migration leads on")
        stored = step(copy.deepcopy(stored))
        version += 1
    return stored


def check_version(version: Any, current: int) -> None:
    """Refuse a version that can not be read, before anything else of the checkpoint is looked at.

    Raises:
        CheckpointTooNew: it is newer than ``current``.
        CheckpointError: it is no version at all.
    """
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CheckpointError(f"schema_version {version!r} is not one that a checkpoint can have")
    if version > current:
        raise CheckpointTooNew(
            f"schema_version {version}; this agentlab reads up to {current}: install the newer version that wrote it"
        )


def with_fields(stored: Stored, added: Mapping[str, Any]) -> Stored:
    """``stored`` with every field of ``added`` (paths as in the table above) set in place.

    Raises:
        CheckpointError: the object that a field belongs to is missing, or has that field already.
    """
    for path, value in added.items():
        *parents, name = path.split(".")
        for part in _objects(stored, parents, path):
            if name in part:
                raise CheckpointError(f"state.{path} is there already: not a state of the version it claims")
            part[name] = value(part) if callable(value) else copy.deepcopy(value)
    return stored


def renamed(stored: Stored, names: Mapping[str, str]) -> Stored:
    """``stored`` with fields under other names: path of the old name to the new name.

    Raises:
        CheckpointError: a field to rename is missing; its path is named.
    """
    for path, new in names.items():
        *parents, name = path.split(".")
        for part in _objects(stored, parents, path):
            if name not in part:
                raise CheckpointError(f"state.{path} is missing: it should become {new!r}")
            part[new] = part.pop(name)
    return stored


def _objects(stored: Any, parents: list[str], path: str) -> Iterator[Stored]:
    """Every object that the parents of a path lead to."""
    if not parents:
        if not isinstance(stored, dict):
            raise CheckpointError(f"state.{path}: no object holds it")
        yield stored
        return
    first, rest = parents[0], parents[1:]
    name = first.removesuffix("[]").removesuffix("{}")
    if not isinstance(stored, dict) or name not in stored:
        raise CheckpointError(f"state.{path}: {name!r} is missing")
    inner = stored[name]
    if first.endswith("[]"):
        items = inner if isinstance(inner, list) else []
    elif first.endswith("{}"):
        items = list(inner.values()) if isinstance(inner, dict) else []
    else:
        items = [inner]
    for item in items:
        yield from _objects(item, rest, path)
