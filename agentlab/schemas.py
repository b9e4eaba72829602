"""From a function's signature and docstring to the JSON schema that a model is told."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import inspect
import pathlib
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from agentlab.errors import BadDefinition

HIDDEN = ("idempotency_key",)
"""Parameters that the harness fills in."""
_PLAIN: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string"},
    type(None): {"type": "null"},
    dict: {"type": "object"},
    list: {"type": "array"},
    pathlib.Path: {"type": "string"},
    dt.date: {"type": "string", "format": "date"},
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.time: {"type": "string", "format": "time"},
}
_SECTION = re.compile(r"^(args|arguments|parameters|params|returns?|raises|yields|examples?|notes?):?\s*$", re.IGNORECASE)
_GOOGLE = re.compile(r"^\s*(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY = re.compile(r"^(\w+)\s*:\s*.*$")
_SPHINX = re.compile(r":param\s+(?:\w+\s+)?(\w+):\s*(.*)")


def input_schema(fn: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of a function's keyword arguments.

    Raises:
        BadDefinition: ``*args``, a positional-only parameter, or a signature that can not be read.
    """
    name = getattr(fn, "__name__", repr(fn))
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise BadDefinition(f"{name}: its signature can not be read ({error}); wrap it in a plain function") from None
    hints = _hints(fn)
    described = parameter_texts(inspect.getdoc(fn) or "")
    properties: dict[str, Any] = {}
    required: list[str] = []
    more = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            more = True
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise BadDefinition(f"{name}: parameter {parameter.name!r} can not be given by name; models call tools by name")
        if parameter.name in HIDDEN:
            continue
        schema = dict(schema_of(hints.get(parameter.name, parameter.annotation)))
        if parameter.name in described:
            schema["description"] = described[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif parameter.default is None or isinstance(parameter.default, (str, int, float, bool)):
            schema["default"] = parameter.default
        properties[parameter.name] = schema
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn)
    except Exception:  # an annotation that can not be evaluated here: anything goes for that parameter
        return {}


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON schema of one annotation; ``{}`` (anything) for what has none."""
    if hint in (inspect.Parameter.empty, Any) or isinstance(hint, (str, typing.TypeVar)):
        return {}
    try:
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
    except TypeError:
        return {}
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return schema_of(args[0])
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin in (typing.Union, types.UnionType):
        return _union(args)
    if origin is not None:
        return _generic(origin, args)
    return _class(hint)


def _union(args: tuple[Any, ...]) -> dict[str, Any]:
    choices = [schema_of(a) for a in args]
    if {} in choices:
        return {}
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _generic(origin: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    if origin is tuple and args and args[-1] is not Ellipsis:
        return {"type": "array", "prefixItems": [schema_of(a) for a in args], "minItems": len(args), "maxItems": len(args)}
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return {"type": "object", "additionalProperties": schema_of(args[1]) or True} if len(args) == 2 else {"type": "object"}
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return {"type": "array", "items": schema_of(args[0])} if args else {"type": "array"}
    return {}


def _class(hint: Any) -> dict[str, Any]:
    if not isinstance(hint, type):
        return {}
    if issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if dataclasses.is_dataclass(hint):
        fields = dataclasses.fields(hint)
        hints = _hints(hint)
        needed = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
        return {"type": "object", "properties": {f.name: schema_of(hints.get(f.name, Any)) for f in fields}, "required": needed}
    if typing.is_typeddict(hint):
        keys = sorted(getattr(hint, "__required_keys__", ()))
        return {"type": "object", "properties": {k: schema_of(v) for k, v in _hints(hint).items()}, "required": keys}
    for base, schema in _PLAIN.items():
        if issubclass(hint, base):
            return dict(schema)
    return {}


def summary_text(doc: str) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join(doc.strip().split("\n\n")[0].split())


def parameter_texts(doc: str) -> dict[str, str]:
    """What a docstring (Google, NumPy or Sphinx style) says of each parameter."""
    found = {m[1]: m[2].strip() for m in _SPHINX.finditer(doc)}
    lines = doc.splitlines()
    inside, name = False, None
    for index, line in enumerate(lines):
        heading = _SECTION.match(line.strip()) if not line.startswith((" ", "\t")) else None
        if heading:
            inside, name = heading[1].lower() in ("args", "arguments", "parameters", "params"), None
            continue
        if not inside or set(line.strip()) <= {"-"}:
            continue
        match = _GOOGLE.match(line) if line.startswith((" ", "\t")) else _NUMPY.match(line)
        starts = match is not None and (name is None or _indent(line) <= _indent(lines[index - 1]) or not lines[index - 1].strip())
        if match is not None and (starts or match[1] not in found):
            name = match[1].lstrip("*")
            found[name] = match[2].strip() if match.re is _GOOGLE else ""
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
