"""State as JSON and back, strictly: a missing or unknown field is an error that names it, never a default."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from agentlab.errors import AgentlabError, CheckpointError
from agentlab.guard import GuardPolicy, GuardState
from agentlab.session.migrations import migrate
from agentlab.session.state import STATE_SCHEMA_VERSION, State

OWN_CODEC = (GuardPolicy, GuardState)
"""Types that write and read themselves."""


def to_json(value: Any) -> Any:
    """A state (or any part of it) as plain JSON."""
    if isinstance(value, OWN_CODEC):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_json(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, tuple):
        return [to_json(v) for v in value]
    if isinstance(value, Mapping):
        return {k: to_json(v) for k, v in value.items()}
    return value


def state_from_json(data: Any, version: Any = STATE_SCHEMA_VERSION) -> State:
    """A state from the JSON of :func:`to_json`, as ``version`` of the schema wrote it.

    Raises:
        CheckpointError: a field is missing, unknown or of another type; the message names its path.
        CheckpointTooNew: a version that this agentlab does not know yet.
    """
    state = _read(State, migrate(data, version, STATE_SCHEMA_VERSION), "state")
    assert isinstance(state, State)
    return state


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _read(hint: Any, data: Any, path: str) -> Any:
    origin = get_origin(hint)
    if hint in OWN_CODEC:
        return _read_own(hint, data, path)
    if is_dataclass(hint) and isinstance(hint, type):
        return _read_dataclass(hint, data, path)
    if origin in (Union, types.UnionType):
        options = [h for h in get_args(hint) if h is not type(None)]
        return None if data is None else _read(options[0], data, path)
    if origin is tuple:
        return _read_tuple(get_args(hint), data, path)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise CheckpointError(f"{path} should be an object, found {type(data).__name__}")
        value_hint = get_args(hint)[1]
        return {k: _read(value_hint, v, f"{path}.{k}") for k, v in data.items()}
    if hint in (str, int, bool, float):
        accepted = (int, float) if hint is float else hint
        if not isinstance(data, accepted) or (hint is not bool and isinstance(data, bool)):
            raise CheckpointError(f"{path} should be {hint.__name__}, found {type(data).__name__}")
    return data


def _read_own(cls: Any, data: Any, path: str) -> Any:
    try:
        value = cls.from_json(data)
        for name in value.to_json():
            if name not in data:  # a codec of its own may have defaults for people; a checkpoint has none
                raise CheckpointError(f"{path}.{name} is missing")
        return value
    except CheckpointError:
        raise
    except (AgentlabError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CheckpointError(f"{path} can not be read as {cls.__name__}: {type(error).__name__}: {error}") from None


def _read_dataclass(cls: type, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} should be an object, found {type(data).__name__}")
    hints = _hints(cls)
    names = _names(cls)
    for name in names:
        if name not in data:
            raise CheckpointError(f"{path}.{name} is missing")
    for name in data:
        if name not in hints:
            raise CheckpointError(f"{path}.{name} is not a field this agentlab knows")
    return cls(**{name: _read(hints[name], data[name], f"{path}.{name}") for name in names})


def _read_tuple(args: tuple[Any, ...], data: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise CheckpointError(f"{path} should be a list, found {type(data).__name__}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_read(args[0], v, f"{path}[{i}]") for i, v in enumerate(data))
    if len(args) != len(data):
        raise CheckpointError(f"{path} should have {len(args)} items, found {len(data)}")
    return tuple(_read(a, v, f"{path}[{i}]") for i, (a, v) in enumerate(zip(args, data, strict=True)))
