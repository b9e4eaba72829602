"""From JSON to what a function's annotations ask for: the way back of :mod:`agentlab.schemas`.

A model gives text, numbers, lists and objects; a parameter annotated ``Path``, ``datetime``, an Enum or a dataclass
gets one. Plain annotations cost nothing, and what is annotated with anything else is passed on as it came.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

Convert = Callable[[Any], Any]
_PLAIN = frozenset(
    {"str", "int", "float", "bool", "dict", "list", "Any", "None", "dict[str, Any]", "list[str]", "list[int]"}
)
_PLAIN_TYPES = (str, int, float, bool, dict, list, type(None), None, object, Any)


def _text(make: Callable[[str], Any]) -> Convert:
    return lambda value: make(value) if isinstance(value, str) else value


@functools.lru_cache(maxsize=1)
def _from_text() -> Mapping[Any, Convert]:
    import decimal  # late, as this module is loaded at every start of a tool host
    import pathlib
    import uuid

    return {
        pathlib.Path: _text(pathlib.Path),
        pathlib.PurePath: _text(pathlib.PurePath),
        pathlib.PurePosixPath: _text(pathlib.PurePosixPath),
        dt.datetime: _text(dt.datetime.fromisoformat),
        dt.date: _text(dt.date.fromisoformat),
        dt.time: _text(dt.time.fromisoformat),
        uuid.UUID: _text(uuid.UUID),
        decimal.Decimal: lambda value: decimal.Decimal(str(value)) if isinstance(value, (int, float, str)) else value,
    }


def converters(fn: Callable[..., Any]) -> dict[str, Convert]:
    """How to make a function's arguments from JSON, for the parameters that need it.

    A converter raises ValueError or TypeError for a value that can not be what the annotation asks for.
    """
    annotations = getattr(fn, "__annotations__", None)
    if annotations is not None and all(_plain(a) for name, a in annotations.items() if name != "return"):
        return {}
    from agentlab.schemas import hints_of

    found = ((name, _converter(hint, ())) for name, hint in hints_of(fn).items() if name != "return")
    return {name: convert for name, convert in found if convert is not None}


def _plain(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation in _PLAIN
    return any(annotation is plain for plain in _PLAIN_TYPES)


def _converter(hint: Any, seen: tuple[Any, ...]) -> Convert | None:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return _converter(args[0], seen)
    if isinstance(hint, typing.NewType):
        return _converter(hint.__supertype__, seen)
    if origin in (typing.Union, types.UnionType):
        return _one_of(args, seen)
    if isinstance(origin, type):
        return _container(origin, args, seen)
    if hint in (tuple, set, frozenset):
        return lambda value: hint(value) if isinstance(value, list) else value
    if not isinstance(hint, type) or hint in seen:
        return None
    if hint in _from_text():
        return _from_text()[hint]
    if issubclass(hint, enum.Enum):
        return lambda value: value if isinstance(value, hint) else hint(value)
    if dataclasses.is_dataclass(hint):
        return _dataclass(hint, (*seen, hint))
    return None


def _one_of(args: tuple[Any, ...], seen: tuple[Any, ...]) -> Convert | None:
    """The first member that takes the value; a value that none of them has to convert stays as it is."""
    choices = [(a, _converter(a, seen)) for a in args if a is not type(None)]
    if all(convert is None for _, convert in choices):
        return None

    def convert(value: Any) -> Any:
        if value is None:
            return None
        problem: Exception | None = None
        for hint, make in choices:
            if make is None:
                if isinstance(hint, type) and isinstance(value, hint):
                    return value
                continue
            try:
                return make(value)
            except (TypeError, ValueError) as error:
                problem = error
        if problem is not None and all(make is not None for _, make in choices):
            raise problem
        return value

    return convert


def _container(origin: type, args: tuple[Any, ...], seen: tuple[Any, ...]) -> Convert | None:
    if issubclass(origin, collections.abc.Mapping):
        inner = _converter(args[1], seen) if len(args) == 2 else None
        if inner is None:
            return None
        return lambda value: {k: _apply(inner, v) for k, v in value.items()} if isinstance(value, Mapping) else value
    if issubclass(origin, tuple) and args and args[-1] is not Ellipsis:
        each = [_converter(a, seen) for a in args]
        return lambda value: tuple(_apply(c, v) for c, v in _pairs(each, value)) if isinstance(value, list) else value
    if issubclass(origin, collections.abc.Iterable):
        inner = _converter(args[0], seen) if args else None
        make: Any = origin if issubclass(origin, (tuple, set, frozenset)) else None
        if inner is None and make is None:
            return None
        make = make or list
        return lambda value: make(_apply(inner, v) for v in value) if isinstance(value, list) else value
    return None


def _pairs(each: list[Convert | None], value: list[Any]) -> list[tuple[Convert | None, Any]]:
    if len(each) != len(value):
        raise ValueError(f"it needs {len(each)} items, not {len(value)}")
    return list(zip(each, value, strict=True))


def _apply(convert: Convert | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def _dataclass(hint: type, seen: tuple[Any, ...]) -> Convert:
    from agentlab.schemas import hints_of

    inner = {name: _converter(field, seen) for name, field in hints_of(hint).items()}

    def convert(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return hint(**{name: _apply(inner.get(name), part) for name, part in value.items()})

    return convert
