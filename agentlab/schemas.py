"""From a function's signature and docstring to the JSON schema that a model is told."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import json
import math
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from agentlab.docstrings import parameter_texts
from agentlab.errors import BadDefinition

HIDDEN = ("idempotency_key",)
"""Parameters that the harness fills in."""
_PLAIN: Mapping[Any, dict[str, Any]] = {
    bool: {"type": "boolean"},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bytes: {"type": "string"},
    type(None): {"type": "null"},
    None: {"type": "null"},
    dict: {"type": "object"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
    pathlib.PurePath: {"type": "string"},
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    dt.time: {"type": "string", "format": "time"},
    decimal.Decimal: {"type": "number"},
    uuid.UUID: {"type": "string", "format": "uuid"},
}
_Seen = tuple[Any, ...]


def input_schema(fn: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of a function's keyword arguments.

    Parameters without an annotation, or with one that means nothing in JSON, take anything.

    Raises:
        BadDefinition: ``*args``, a positional-only parameter, or a signature that can not be read.
    """
    name = getattr(fn, "__name__", None) or type(fn).__name__
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise BadDefinition(f"{name}: its signature can not be read ({error}); wrap it in a plain function") from None
    hints = hints_of(fn)
    described = parameter_texts(inspect.getdoc(fn) or "")
    properties: dict[str, Any] = {}
    required: list[str] = []
    more = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            more = True
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
            raise BadDefinition(
                f"{name}: {star}{parameter.name} can not be given by name, and models call tools by name: make it an"
                " ordinary parameter (a list, where there may be several)"
            )
        if parameter.name in HIDDEN:
            continue
        schema = schema_of(hints.get(parameter.name, Any))
        if parameter.name in described:
            schema["description"] = described[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            schema.update(_default(parameter.default))
        properties[parameter.name] = schema
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


def _default(value: Any) -> dict[str, Any]:
    """``{"default": …}`` where JSON can say it."""
    value = (
        value.value if isinstance(value, enum.Enum) else str(value) if isinstance(value, pathlib.PurePath) else value
    )
    if isinstance(value, float) and not math.isfinite(value):
        return {}
    try:
        return {"default": json.loads(json.dumps(value, allow_nan=False))}
    except (TypeError, ValueError):
        return {}


def hints_of(fn: Any) -> dict[str, Any]:
    """Evaluated annotations by parameter; what can not be evaluated is left out, and nothing else with it."""
    target = fn if isinstance(fn, (type, types.FunctionType, types.MethodType)) else _function_of(fn)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:
        pass
    found = {}
    names = {**getattr(inspect.unwrap(target), "__globals__", {}), **_enclosing(target)}
    for name, annotation in getattr(target, "__annotations__", {}).items():
        try:
            holder = types.SimpleNamespace(__annotations__={name: annotation})
            found[name] = typing.get_type_hints(holder, globalns=names, localns={}, include_extras=True)[name]
        except Exception:
            continue
    return found


def _function_of(fn: Any) -> Any:
    """The function behind a partial or an object that is called."""
    while hasattr(fn, "func"):
        fn = fn.func
    if isinstance(fn, (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return fn
    return type(fn).__call__


def _enclosing(fn: Any) -> dict[str, Any]:
    """Names of the enclosing function that the callable holds on to."""
    try:
        return dict(inspect.getclosurevars(fn).nonlocals)
    except (TypeError, ValueError):
        return {}


def schema_of(hint: Any, seen: _Seen = ()) -> dict[str, Any]:
    """The JSON schema of one annotation; ``{}`` (anything) for what has none. The dict is the caller's own."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        texts = [extra for extra in args[1:] if isinstance(extra, str)]
        return {**schema_of(args[0], seen), **({"description": texts[0]} if texts else {})}
    if origin is typing.Literal:
        return _choice(list(args))
    if origin in (typing.Union, types.UnionType):
        return _union(args, seen)
    if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
        return schema_of(args[0], seen)
    if origin is not None:
        return _generic(origin, args, seen)
    if isinstance(hint, typing.NewType):
        return schema_of(hint.__supertype__, seen)
    if hint is None or isinstance(hint, type):
        return _class(hint, seen)
    return {}


def _choice(values: list[Any]) -> dict[str, Any]:
    kinds = {type(value) for value in values}
    known = _PLAIN.get(kinds.pop(), {}) if len(kinds) == 1 else {}
    return {**known, "enum": values}


def _union(args: tuple[Any, ...], seen: _Seen) -> dict[str, Any]:
    choices = [schema_of(a, seen) for a in args]
    if {} in choices:
        return {}
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _generic(origin: Any, args: tuple[Any, ...], seen: _Seen) -> dict[str, Any]:
    if not isinstance(origin, type):
        return {}
    if issubclass(origin, tuple) and args and args[-1] is not Ellipsis:
        size = 0 if args == ((),) else len(args)
        fixed = {"type": "array", "minItems": size, "maxItems": size}
        return {**fixed, "prefixItems": [schema_of(a, seen) for a in args]} if size else fixed
    if issubclass(origin, collections.abc.Mapping):
        inner = schema_of(args[1], seen) if len(args) == 2 else {}
        return {"type": "object", "additionalProperties": inner} if inner else {"type": "object"}
    if issubclass(origin, collections.abc.Iterable):
        inner = schema_of(args[0], seen) if args else {}
        unique = {"uniqueItems": True} if issubclass(origin, collections.abc.Set) else {}
        return {"type": "array", **({"items": inner} if inner else {}), **unique}
    return schema_of(origin, seen)


def _class(hint: Any, seen: _Seen) -> dict[str, Any]:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if hint in seen:  # a type that contains itself
        return {"type": "object"}
    seen = (*seen, hint)
    if issubclass(hint, enum.Enum):
        return _choice([_default(member).get("default", str(member.value)) for member in hint])
    if dataclasses.is_dataclass(hint):
        own = [f for f in dataclasses.fields(hint) if f.init]
        needed = [f.name for f in own if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
        return _object({f.name: Any for f in own} | hints_of(hint), [f.name for f in own], needed, seen)
    if typing.is_typeddict(hint):
        hints = hints_of(hint)
        # Written under postponed annotations, NotRequired is known only once they are evaluated.
        said = {k: typing.get_origin(h) for k, h in hints.items()}
        must = [k for k in hints if said[k] is typing.Required or k in hint.__required_keys__]
        return _object(hints, list(hints), [k for k in must if said[k] is not typing.NotRequired], seen)
    for base, schema in _PLAIN.items():
        if isinstance(base, type) and issubclass(hint, base):
            return dict(schema)
    if hint in (collections.abc.Mapping, collections.abc.MutableMapping):
        return {"type": "object"}
    return {"type": "array"} if hint in (collections.abc.Sequence, collections.abc.Iterable) else {}


def _object(hints: Mapping[str, Any], names: list[str], required: list[str], seen: _Seen) -> dict[str, Any]:
    properties = {name: schema_of(hints[name], seen) for name in names}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
