"""State as JSON and back, strictly: a missing or unknown field is an error that names it, never a default."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, Union, get_args, get_origin, get_type_hints

from agentlab.errors import AgentlabError, CheckpointError
from agentlab.guard import GuardPolicy, GuardState
from agentlab.session.migrations import migrate
from agentlab.session.state import STATE_SCHEMA_VERSION, State

OWN_CODEC = (GuardPolicy, GuardState)
"""Types that write and read themselves."""


_AS_IT_IS = frozenset({str, int, float, bool, type(None)})


def to_json(value: Any) -> Any:
    """A state (or any part of it) as plain JSON."""
    cls: Any = type(value)
    return value if cls in _AS_IT_IS else _writer(cls)(value)


def state_from_json(data: Any, version: Any = STATE_SCHEMA_VERSION) -> State:
    """A state from the JSON of :func:`to_json`, as ``version`` of the schema wrote it.

    Raises:
        CheckpointError: a field is missing, unknown or of another type; the message names its path.
        CheckpointTooNew: a version that this agentlab does not know yet.
    """
    try:
        state = _reader(State)(migrate(data, version, STATE_SCHEMA_VERSION))
    except _Wrong as wrong:
        raise CheckpointError(f"state{wrong.path}{wrong.why}") from None
    assert isinstance(state, State)
    return state


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


# A checkpoint writes and a recovery reads hundreds of small objects of a few types: how each type is written and read is
# found out once.


@cache
def _writer(cls: type) -> Callable[[Any], Any]:
    """How values of a type are written."""
    if issubclass(cls, OWN_CODEC):
        return lambda value: value.to_json()
    if is_dataclass(cls):
        names = _names(cls)

        def write(value: Any) -> dict[str, Any]:
            written = {}
            for name in names:
                part = getattr(value, name)
                written[name] = part if part.__class__ in _AS_IT_IS else to_json(part)
            return written

        return write
    if issubclass(cls, tuple):
        return lambda value: [to_json(v) for v in value] if value else []
    if issubclass(cls, Mapping):
        return lambda value: {k: to_json(v) for k, v in value.items()}
    return lambda value: value


class _Wrong(Exception):
    """What can not be read, and where: the path grows from the inside as readers are left."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(why)
        self.why, self.path = why, path


Reader = Callable[[Any], Any]


@cache
def _reader(hint: Any) -> Reader:
    """How values of a declared type are read."""
    origin = get_origin(hint)
    if hint in OWN_CODEC:
        return partial(_read_own, hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return partial(_read_dataclass, hint)
    if origin in (Union, types.UnionType):
        (inner, *_) = (_reader(h) for h in get_args(hint) if h is not type(None))
        return lambda data: None if data is None else inner(data)
    if origin is tuple:
        args = get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return partial(_read_list, _reader(args[0]))
        return partial(_read_tuple, tuple(map(_reader, args)))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_read_mapping, _reader(get_args(hint)[1]))
    return partial(_read_scalar, hint) if hint in (str, int, bool, float) else lambda data: data


def _read_scalar(hint: type, data: Any) -> Any:
    if type(data) is hint:
        return data
    accepted = (int, float) if hint is float else hint
    if not isinstance(data, accepted) or (hint is not bool and isinstance(data, bool)):
        raise _Wrong(f" should be {hint.__name__}, found {type(data).__name__}")
    return data


def _read_own(cls: Any, data: Any) -> Any:
    try:
        value = cls.from_json(data)
        for name in value.to_json():
            if name not in data:  # a codec of its own may have defaults for people; a checkpoint has none
                raise _Wrong(" is missing", f".{name}")
        return value
    except (CheckpointError, _Wrong):
        raise
    except (AgentlabError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise _Wrong(f" can not be read as {cls.__name__}: {type(error).__name__}: {error}") from None


@cache
def _fields(cls: type) -> dict[str, Reader]:
    hints = get_type_hints(cls)
    return {name: _reader(hints[name]) for name in _names(cls)}


def _read_dataclass(cls: type, data: Any) -> Any:
    if not isinstance(data, dict):
        raise _Wrong(f" should be an object, found {type(data).__name__}")
    readers = _fields(cls)
    for name in readers:
        if name not in data:
            raise _Wrong(" is missing", f".{name}")
    for name in data:
        if name not in readers:
            raise _Wrong(" is not a field this agentlab knows", f".{name}")
    name, values = "", {}
    try:
        for name, read in readers.items():
            values[name] = read(data[name])
    except _Wrong as wrong:
        wrong.path = f".{name}{wrong.path}"
        raise
    return cls(**values)


def _read_mapping(read: Reader, data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _Wrong(f" should be an object, found {type(data).__name__}")
    key, values = "", {}
    try:
        for key, value in data.items():
            values[key] = read(value)
    except _Wrong as wrong:
        wrong.path = f".{key}{wrong.path}"
        raise
    return values


def _read_list(read: Reader, data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _Wrong(f" should be a list, found {type(data).__name__}")
    values: list[Any] = []
    try:
        for value in data:
            values.append(read(value))
    except _Wrong as wrong:
        wrong.path = f"[{len(values)}]{wrong.path}"
        raise
    return tuple(values)


def _read_tuple(readers: tuple[Reader, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _Wrong(f" should be a list, found {type(data).__name__}")
    if len(readers) != len(data):
        raise _Wrong(f" should have {len(readers)} items, found {len(data)}")
    values: list[Any] = []
    try:
        for read, value in zip(readers, data, strict=True):
            values.append(read(value))
    except _Wrong as wrong:
        wrong.path = f"[{len(values)}]{wrong.path}"
        raise
    return tuple(values)
