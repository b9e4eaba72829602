"""Is a definition one that can be run: numbers that are numbers, texts that are texts, values that JSON can carry."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from agentlab.budget.dimensions import dimension_named
from agentlab.budget.pricing import PRICES
from agentlab.context import ContextSpec
from agentlab.definition import STEP_KINDS, Definition, Limits, StepSpec, ToolSpec
from agentlab.errors import BadDefinition, PayloadError, UnknownName
from agentlab.events import canonical
from agentlab.guard import GuardPolicy
from agentlab.ports import Resources

_WHOLE = (
    "max_turns", "rounds_per_step", "attempts", "errors_in_a_row", "model_retries", "input_tokens", "output_tokens",
    "cache_tokens", "tokens", "cost_microusd", "model_calls",
    "tool_calls", "requests_per_minute", "steps", "context_tokens", "max_output_tokens",
)  # fmt: skip
_MAY_BE_ZERO = ("model_retries", "retry_wait_s")


def validate(definition: Definition) -> None:
    """Refuse what would fail later, in another process.

    Raises:
        BadDefinition: which field, what is wrong with it, and what it may be.
    """
    where = f"task {definition.task!r}"
    if not definition.model.strip():
        raise BadDefinition(
            f"{where}: the model's name is empty; give model='claude-…', or a function for a scripted one"
        )
    for name in ("goal", "system", "user_input"):
        if not isinstance(getattr(definition, name), str):
            raise BadDefinition(f"{where}: {name} is a text, not {getattr(definition, name)!r}")
    for text in definition.constraints:
        if not isinstance(text, str):
            raise BadDefinition(f"{where}: a constraint is a text, not {text!r}")
    for name in ("params", "model_params", "guard", "context", "budget"):
        _json(f"{where}: {name}", getattr(definition, name))
    ContextSpec.from_json(definition.context)
    GuardPolicy.from_json(definition.guard)
    _limits(where, definition.limits)
    _limited_tools(definition)
    _budget(f"{where}: budget", definition.budget)
    _resources(where, definition.resources)
    for tool in definition.tools:
        _tool(f"{where}: tool {tool.name!r}", tool)
    for step in definition.steps:
        _step(f"{where}: step {step.id!r}", step)
    for validator in [definition.validator, *(s.validator for s in definition.steps)]:
        if validator is not None and validator.effect == "external":
            raise BadDefinition(
                f"{where}: a validator looks and changes nothing outside; its effect is sandboxed or pure"
            )
    _files(where, definition.files)


def _json(what: str, value: Any) -> None:
    try:
        canonical(value)
    except PayloadError as error:
        raise BadDefinition(f"{what} can not be stored as JSON: {error}") from None


def _number(what: str, value: Any, *, whole: bool = False, zero: bool = False) -> None:
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
        raise BadDefinition(f"{what} is {'a whole' if whole else 'a finite'} number, not {value!r}")
    if value < 0 or (value == 0 and not zero):
        raise BadDefinition(
            f"{what} is positive{' or 0' if zero else ''}, not {value!r}; None means unlimited where that is allowed"
        )


def _limits(where: str, limits: Limits) -> None:
    for kind, count in limits.retries.items():
        if kind not in STEP_KINDS:
            raise UnknownName("kind in limit retries", kind, STEP_KINDS)
        _number(f"{where}: limit retries of {kind!r}", count, whole=True, zero=True)
    for field in fields(Limits):
        value = getattr(limits, field.name)
        if field.name == "retries":
            continue
        if isinstance(value, Mapping):
            for tool, count in value.items():
                _number(f"{where}: limit {field.name} of {tool!r}", count, whole=True)
        elif value is not None:
            _number(f"{where}: limit {field.name}", value, whole=field.name in _WHOLE, zero=field.name in _MAY_BE_ZERO)
        elif field.default is not None and "None" not in str(field.type):
            raise BadDefinition(f"{where}: limit {field.name} can not be None")


def _limited_tools(definition: Definition) -> None:
    """A limit of a tool that the task does not have would limit nothing, and nobody would notice."""
    tools = {tool.name for tool in definition.tools}
    for name in definition.limits.tool_calls_by_tool:
        if name not in tools:
            raise UnknownName("tool in limit tool_calls_by_tool", name, tools)
    services = definition.budget.get("services") or {}
    known = {*tools, *services} if isinstance(services, Mapping) else tools
    for name in definition.limits.per_minute_by_tool:
        if name not in known:
            raise UnknownName("tool or service in limit per_minute_by_tool", name, known)


def _budget(what: str, spec: Mapping[str, Any]) -> None:
    known = ("prices", "reserve", "alerts", "services")
    for name in spec:
        if name not in known:
            raise UnknownName(f"part of {what}", name, known)
    for name in ("prices", "reserve", "services"):
        if not isinstance(spec.get(name, {}), Mapping):
            raise BadDefinition(f"{what}: {name} is a mapping, not {spec[name]!r}")
    for model, price in spec.get("prices", {}).items():
        if not isinstance(price, Mapping) or set(price) - set(PRICES):
            raise BadDefinition(f"{what}: the price of {model!r} is a mapping of {', '.join(PRICES)}, not {price!r}")
        for kind, dollars in price.items():
            _number(f"{what}: the price of {model!r} for {kind}", dollars, zero=True)
    for dimension, amount in spec.get("reserve", {}).items():
        dimension_named(dimension)
        _number(f"{what}: the reserve of {dimension}", amount, whole=True, zero=True)
    alerts = spec.get("alerts", ())
    if not isinstance(alerts, (list, tuple)) or not all(_is_share(t) for t in alerts):
        raise BadDefinition(f"{what}: alerts are shares of a limit between 0 and 1, not {alerts!r}")
    for service, tools in spec.get("services", {}).items():
        if not isinstance(tools, (list, tuple)) or not all(isinstance(t, str) for t in tools):
            raise BadDefinition(f"{what}: service {service!r} is a list of names of tools, not {tools!r}")


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1


def _resources(where: str, resources: Resources) -> None:
    _number(f"{where}: resources.timeout_s", resources.timeout_s)
    _number(f"{where}: resources.output_bytes", resources.output_bytes, whole=True)
    for name in ("memory_bytes", "cpu_s"):
        if getattr(resources, name) is not None:
            _number(f"{where}: resources.{name}", getattr(resources, name), whole=name == "memory_bytes")


def _tool(what: str, tool: ToolSpec) -> None:
    _number(f"{what}: timeout_s", tool.timeout_s)
    _number(f"{what}: settle_after_s", tool.settle_after_s, zero=True)
    if tool.retries is not None:
        _number(f"{what}: retries", tool.retries, whole=True, zero=True)
    if tool.price_microusd is not None:
        _number(f"{what}: price_usd", tool.price_microusd, whole=True, zero=True)
    _json(f"{what}: its input schema", dict(tool.input_schema))


def _step(what: str, step: StepSpec) -> None:
    if not isinstance(step.title, str) or not isinstance(step.expected, str):
        raise BadDefinition(f"{what}: title and expected are texts")
    _json(f"{what}: parameters", dict(step.parameters))


def _files(where: str, files: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for path in files:
        if "\0" in path:
            raise BadDefinition(f"{where}: a file's path can not hold NUL: {path!r}")
        plain = posixpath.normpath(path)
        try:
            plain.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise BadDefinition(f"{where}: no file can have the name {path!r} ({error})") from None
        if any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in plain.split("/")):
            raise BadDefinition(f"{where}: a file's name has at most 255 bytes: {plain[:60]!r}…")
        if plain in seen:
            raise BadDefinition(f"{where}: files {seen[plain]!r} and {path!r} are the same place in the workspace")
        seen[plain] = path
    for plain in seen:
        parent = posixpath.dirname(plain)
        while parent:
            if parent in seen:
                raise BadDefinition(f"{where}: {parent!r} is a file, so {plain!r} can not be below it")
            parent = posixpath.dirname(parent)
