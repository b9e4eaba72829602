"""From a task to its definition: plain data, references instead of code, digests instead of files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from agentlab.authoring import Step, Task, Tool, Validator, tool
from agentlab.budget.words import limits_of
from agentlab.definition import (
    BUILTIN_TOOLS,
    STEP_KINDS,
    Definition,
    Limits,
    PolicySpec,
    StepSpec,
    ToolSpec,
    ValidatorSpec,
    policy_from_json,
)
from agentlab.docstrings import description
from agentlab.errors import BadDefinition, UnknownName, refusal
from agentlab.portable import Dump, check, dotted_name, load, reference, sign
from agentlab.ports import Resources
from agentlab.schemas import input_schema

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_STEP_ID = 64
T = TypeVar("T")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "scheme": ("hybrid", "events", "snapshot"),
    "strategy": ("statement", "synthetic_error", "nothing"),
    "durability": ("disk", "group", "process"),
}


def define(task: Task, put_blob: Callable[[bytes], str], model: Any) -> tuple[Definition, bytes | None, str | None]:
    """The definition of ``task`` under ``model``, its dump and the dump's signature. See :meth:`Task.define`."""
    if not _NAME.fullmatch(str(task.name)):
        raise BadDefinition(f"a task's name has letters, digits, - and _ (1 to 64 of them), not {task.name!r}")
    if not str(task.goal).strip():
        raise BadDefinition(f"task {task.name!r} has no goal: say what is to be achieved")
    _lists(task)
    if isinstance(task.constraints, str):
        raise BadDefinition(f"task {task.name!r}: constraints is a list of texts: constraints=[{task.constraints!r}]")
    for name in ("params", "model_params", "guard", "context", "budget"):
        if not isinstance(getattr(task, name), Mapping):
            raise BadDefinition(f"task {task.name!r}: {name} is a mapping, not {getattr(task, name)!r}")
    for name, allowed in CHOICES.items():
        if getattr(task, name) not in allowed:
            raise UnknownName(name, str(getattr(task, name)), allowed)
    dump = Dump()
    specs = _tools(task, dump)
    steps = _steps(task, [spec.name for spec in specs], dump)
    model_name, model_params, base_url, model_ref = _model(task, model, dump)
    final = _validator(task, task.validator, dump)
    contents = _contents(task)
    data = dump.finish()
    definition = Definition(
        task=task.name,
        goal=task.goal,
        model=model_name,
        system=task.system,
        user_input=task.user_input,
        constraints=tuple(task.constraints),
        steps=steps,
        tools=specs,
        validator=final,
        files={path: put_blob(content) for path, content in contents.items()},
        params=dict(task.params),
        limits=_record(task, "limits", Limits),
        policy=_policy(task.policy),
        resources=_record(task, "resources", Resources),
        model_params=model_params,
        model_ref=model_ref,
        base_url=base_url,
        scheme=task.scheme,
        strategy=task.strategy,
        durability=task.durability,
        guard=dict(task.guard),
        context=dict(task.context),
        budget=dict(task.budget),
        state_version=_state_version(task),
    )
    check(list(definition.refs()), data)
    return definition, data, None if data is None else sign(data)


def _state_version(task: Task) -> int:
    version = task.state_version
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadDefinition(f"task {task.name!r}: state_version is a number from 1 on, not {version!r}")
    return version


def _record(task: Task, name: str, cls: type[T]) -> T:
    given = getattr(task, name)
    if isinstance(given, cls):
        return given
    if not isinstance(given, Mapping):
        raise BadDefinition(f"task {task.name!r}: {name} is a {cls.__name__} or a mapping of its fields, not {given!r}")
    if cls is Limits:
        return cls(**limits_of(given))
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    for field in given:
        if field not in known:
            raise UnknownName(f"field of {cls.__name__}", str(field), known)
    return cls(**given)


def _policy(given: PolicySpec | Mapping[str, Any] | str) -> PolicySpec:
    if isinstance(given, str):
        from agentlab.policies import parse_policy

        return parse_policy(given)
    if not isinstance(given, (PolicySpec, Mapping)):
        raise BadDefinition(f"a policy is a text as in every=5, or a PolicySpec, not {given!r}")
    return given if isinstance(given, PolicySpec) else policy_from_json(given)


def _lists(task: Task) -> None:
    """Refuse one thing where several belong, and nothing where a list belongs."""
    for name, what in (("tools", "functions"), ("steps", "steps"), ("constraints", "texts"), ("files", "paths")):
        value = getattr(task, name)
        if not isinstance(value, (Mapping, Sequence, set, frozenset)):
            raise BadDefinition(f"task {task.name!r}: {name} is a list of {what}: {name}=[…], not {value!r}")


# --- files -------------------------------------------------------------------------------------------------------------


def _contents(task: Task) -> dict[str, bytes]:
    """The bytes of every file, by its path in the workspace."""
    given = task.files
    if isinstance(given, (str, Path)):
        raise BadDefinition(f"task {task.name!r}: files is a list of paths or a mapping: files=[{str(given)!r}]")
    if not isinstance(given, Mapping):
        listed = [Path(source) for source in given]
        names = [path.name for path in listed]
        for name in names:
            if names.count(name) > 1:
                raise BadDefinition(
                    f"task {task.name!r}: two files are called {name!r}: give a mapping from workspace paths"
                )
        given = dict(zip(names, listed, strict=True))
    found: dict[str, bytes] = {}
    for path, source in given.items():
        for name, content in _content(task, str(path), source):
            where = PurePosixPath(name)
            if where.is_absolute() or ".." in where.parts or not where.parts or name.startswith("@"):
                raise BadDefinition(f"task {task.name!r}: {name!r} is no path inside the workspace")
            if str(where) in found:
                raise BadDefinition(f"task {task.name!r}: two files go to {str(where)!r} in the workspace")
            found[str(where)] = content
    return found


def _content(task: Task, path: str, source: str | Path | bytes) -> list[tuple[str, bytes]]:
    if isinstance(source, (bytes, bytearray)):
        return [(path, bytes(source))]
    if not isinstance(source, (str, Path)):
        raise BadDefinition(f"task {task.name!r}: the file {path!r} is a path, text or bytes, not {source!r}")
    if isinstance(source, str) and ("\n" in source or not source):
        try:
            return [(path, source.encode("utf-8"))]
        except UnicodeEncodeError as error:
            raise BadDefinition(f"task {task.name!r}: the text of {path!r} is no UTF-8 ({error}): give bytes") from None
    local = Path(source).expanduser()
    try:
        if local.is_dir():
            inside = sorted(p for p in local.rglob("*") if p.is_file())
            return [(f"{path}/{p.relative_to(local).as_posix()}", p.read_bytes()) for p in inside]
        return [(path, local.read_bytes())]
    except (OSError, ValueError) as error:
        hint = "" if isinstance(source, Path) else "; text of a single line is given as bytes"
        raise BadDefinition(
            f"task {task.name!r} needs the file {str(source)!r} for {path!r}: {refusal(error)}{hint}"
        ) from None


# --- tools, steps, validators --------------------------------------------------------------------------------------------


def _tools(task: Task, dump: Dump) -> tuple[ToolSpec, ...]:
    specs: dict[str, ToolSpec] = {}
    if isinstance(task.tools, (Tool, str)) or callable(task.tools):
        raise BadDefinition(f"task {task.name!r}: tools is a list of functions, also when there is one")
    for given in task.tools:
        made = given if isinstance(given, Tool) else tool(given)
        if not _NAME.fullmatch(made.name):
            raise BadDefinition(
                f"tool {made.name!r}: a name has letters, digits, - and _ (1 to 64); give one with name=…"
            )
        if made.name in specs:
            raise BadDefinition(f"two tools are called {made.name!r}: rename one with name=…")
        if made.name in BUILTIN_TOOLS:
            raise BadDefinition(f"{made.name!r} is the name of a built-in tool: rename yours with name=…")
        specs[made.name] = _tool_spec(made, dump)
    builtin = [spec for name, spec in BUILTIN_TOOLS.items() if name != "plan" or not task.steps]
    return (*specs.values(), *builtin)


def _tool_spec(made: Tool, dump: Dump) -> ToolSpec:
    options = dict(made.options)
    price, verify = options.pop("price_usd", None), options.pop("verify", None)
    fn = made.__wrapped_tool__
    schema = input_schema(fn)
    volatile = tuple(options.pop("volatile", ()))
    for name in volatile:
        if name not in schema["properties"] and not schema["additionalProperties"]:
            raise UnknownName(f"parameter of tool {made.name}", name, schema["properties"])
    return ToolSpec(
        name=made.name,
        description=options.pop("description", None) or description(_doc(fn)) or made.name.replace("_", " "),
        input_schema=schema,
        effect=made.effect,
        ref=reference(fn, dump),
        verify=reference(verify, dump) if verify is not None else None,
        price_microusd=None if price is None else round(price * 1e6),
        volatile=volatile,
        **{name: value for name, value in options.items() if name != "effect"},
    )


def _doc(fn: Any) -> str | None:
    # A partial or an object has the docstring of its class, which says nothing of what it does.
    return fn.__doc__ if hasattr(fn, "__name__") else getattr(type(fn).__call__, "__doc__", None)


def _steps(task: Task, tools: list[str], dump: Dump) -> tuple[StepSpec, ...]:
    out: dict[str, StepSpec] = {}
    for given in task.steps:
        if not isinstance(given, Step):
            raise BadDefinition(f"task {task.name!r}: {given!r} is no step; make one with step('id', 'title', …)")
        if not given.id or not str(given.id).isprintable() or len(given.id) > _MAX_STEP_ID:
            raise BadDefinition(
                f"task {task.name!r}: a step's id is a short text (1 to {_MAX_STEP_ID}), not {given.id!r}"
            )
        if given.id in out:
            raise BadDefinition(f"task {task.name!r}: two steps are called {given.id!r}: give each its own id")
        if given.tool is not None and given.tool not in tools:
            raise UnknownName(f"tool for step {given.id!r}", given.tool, tools)
        if given.kind not in STEP_KINDS:
            raise UnknownName("kind of step", given.kind, STEP_KINDS)
        out[given.id] = StepSpec(
            id=given.id,
            title=given.title,
            kind=given.kind,
            tool=given.tool,
            validator=_validator(task, given.validator, dump),
            parameters=dict(given.parameters),
            expected=given.expected,
            milestone=given.milestone,
        )
    return tuple(out.values())


def _validator(task: Task, given: Any, dump: Dump) -> ValidatorSpec | None:
    if given is None:
        return None
    if not callable(given):
        raise BadDefinition(f"task {task.name!r}: a validator is a function, not {given!r}")
    made = given if isinstance(given, Validator) else Validator(given)
    return ValidatorSpec(reference(made.fn, dump), made.effect, made.timeout_s)


# --- the model -----------------------------------------------------------------------------------------------------------


def _model(task: Task, model: Any, dump: Dump) -> tuple[str, dict[str, Any], str | None, dict[str, Any] | None]:
    """Its name, parameters, base address, and a reference where a name alone does not lead to it."""
    params, base_url = dict(task.model_params), task.base_url
    if model is None:
        raise BadDefinition(
            f"task {task.name!r} names no model: give model='claude-…', or a function for a scripted one"
        )
    if isinstance(model, str):
        return model, params, base_url, None
    if hasattr(model, "complete"):
        name = str(getattr(model, "name", type(model).__name__))
        params = {**(model.params() if callable(getattr(model, "params", None)) else {}), **params}
        base_url = params.pop("base_url", None) or base_url
        # A client of a provider holds connections and a key: the harness makes its own, with the key of its environment.
        by_name = type(model).__module__.startswith("agentlab.models.anthropic") or _leads_to_policy(name)
        return name, params, base_url, None if by_name else dump.add(model)
    if not callable(model):
        raise BadDefinition(
            f"task {task.name!r}: {model!r} is no model; give a name, a function, or something with complete()"
        )
    ref = reference(model, dump)
    if ref["kind"] == "dotted":
        return f"scripted:{ref['name']}", params, base_url, ref if ref.get("sys_path") else None
    return f"scripted:{getattr(model, '__qualname__', type(model).__name__)}", params, base_url, ref


def with_another_model(definition: Definition, model: Any, put_blob: Callable[[bytes], str]) -> Definition:
    """The same definition under another model: a name, or whatever :meth:`Task.define` takes for one.

    Raises:
        BadDefinition, NotPortable: it is no model, or one that can not travel.
    """
    dump = Dump()
    stand_in = Task(name=definition.task, goal=definition.goal, base_url=definition.base_url)
    name, params, base_url, ref = _model(stand_in, model, dump)
    data = dump.finish()
    if data is not None:
        put_blob(data)
    changed = replace(definition, model=name, model_params=params, base_url=base_url, model_ref=ref)
    if ref is not None:
        check([ref], data)
    return changed


def _leads_to_policy(name: str) -> bool:
    """Whether a scripted model's name is that of a policy which every process can import."""
    prefix, _, place = name.partition(":")
    if prefix != "scripted" or ":" not in place or place.startswith("__main__"):
        return False
    try:
        return dotted_name(load({"kind": "dotted", "name": place}, lambda digest: b"")) == place
    except Exception:
        return False
