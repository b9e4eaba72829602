"""What users write: tools, steps, validators and tasks; and how they become a definition."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, overload

from agentlab.definition import (
    BUILTIN_TOOLS,
    STEP_KINDS,
    Definition,
    Effect,
    Limits,
    PolicySpec,
    StepSpec,
    ToolSpec,
    ValidatorSpec,
)
from agentlab.docstrings import description as described
from agentlab.errors import BadDefinition, UnknownName
from agentlab.portable import Dump, check, dotted_name, reference, sign
from agentlab.ports import Durability, Resources
from agentlab.schemas import input_schema

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
EFFECTS = ("pure", "sandboxed", "external")


class Tool:
    """A function that a model may call. Still callable like the function itself."""

    def __init__(self, fn: Callable[..., Any], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, fn)
        self.__wrapped_tool__ = fn
        self.options = dict(options)
        self.name: str = self.options.pop("name", None) or fn.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped_tool__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, effect={self.options.get('effect', 'external')!r})"


@overload
def tool(fn: Callable[..., Any], **options: Any) -> Tool: ...
@overload
def tool(fn: None = None, **options: Any) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(fn: Callable[..., Any] | None = None, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool: ``@tool``, ``@tool(effect="pure")`` or ``tool(fn, effect="pure")``.

    Options: ``name``, ``description``, ``effect`` (*pure*, *sandboxed*, *external*; external when not said),
    ``kind``, ``retries`` (further tries after a first failure), ``repeatable`` (may be run again after a sandbox
    loss), ``repeat`` (each call is an effect of its own), ``once_per_content``, ``verify`` (a function of ``key``
    that says *completed*, *not_done* or *unknown*), ``honours_key``, ``settle_after_s``, ``timeout_s``,
    ``stateful_read``, ``volatile`` (arguments that do not tell calls apart), ``price_usd``, ``needs_approval``.

    Raises:
        UnknownName: an option that does not exist.
        BadDefinition: not a function, or an effect that does not exist.
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise UnknownName("tool option", unknown[0], _OPTIONS)
    if options.get("effect", "external") not in EFFECTS:
        raise UnknownName("effect", str(options["effect"]), EFFECTS)
    if fn is None:
        return lambda function: Tool(function, options)
    if isinstance(fn, Tool):
        return Tool(fn.__wrapped_tool__, {"name": fn.name, **fn.options, **options})
    if not callable(fn):
        raise BadDefinition(f"a tool is made from a function, not from {fn!r}")
    return Tool(fn, options)


_OPTIONS = frozenset(
    {"name", "description", "effect", "kind", "retries", "repeatable", "repeat", "once_per_content", "verify", "honours_key",
     "settle_after_s", "timeout_s", "stateful_read", "volatile", "price_usd", "needs_approval"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Validator:
    """A validator and where it runs."""

    fn: Callable[..., Any]
    effect: Effect = "sandboxed"
    timeout_s: float = 60.0


def validator(fn: Callable[..., Any], effect: Effect = "sandboxed", timeout_s: float = 60.0) -> Validator:
    """Say where a validator runs: in the sandbox's folder (the default for plain functions) or as *pure*."""
    return Validator(fn, effect, timeout_s)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a task's plan."""

    id: str
    title: str = ""
    kind: str = "work"
    tool: str | None = None
    validator: Callable[..., Any] | Validator | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expected: str = ""
    milestone: bool = False


def step(id: str, title: str = "", **options: Any) -> Step:
    """A step: ``id``, ``title``, ``kind``, ``tool`` (ends when that tool succeeded), ``validator``, ``parameters``,
    ``expected``, ``milestone``.

    Raises:
        UnknownName: an option that does not exist.
    """
    known = {f.name for f in fields(Step)}
    for name in options:
        if name not in known:
            raise UnknownName("step option", name, known)
    return Step(id, title, **options)


@dataclass(frozen=True, slots=True)
class Task:
    """A goal, constraints, files, tools, limits and a validator.

    ``files`` maps workspace paths to local paths or to bytes. ``model`` is a name (``claude-…``,
    ``scripted:module:function``), or a function of a :class:`~agentlab.models.view.View` for a scripted model.
    """

    name: str
    goal: str
    constraints: Sequence[str] = ()
    files: Mapping[str, str | Path | bytes] = field(default_factory=dict)
    tools: Sequence[Tool | Callable[..., Any]] = ()
    steps: Sequence[Step] = ()
    validator: Callable[..., Any] | Validator | None = None
    system: str = ""
    user_input: str = ""
    limits: Limits | Mapping[str, Any] = field(default_factory=Limits)
    params: Mapping[str, Any] = field(default_factory=dict)
    model: Any = None
    model_params: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None
    policy: PolicySpec = field(default_factory=PolicySpec)
    resources: Resources = field(default_factory=Resources)
    scheme: str = "hybrid"
    strategy: str = "statement"
    durability: Durability = "disk"
    guard: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)

    def define(
        self, put_blob: Callable[[bytes], str], *, model: Any = None, **overrides: Any
    ) -> tuple[Definition, bytes | None, str | None]:
        """The definition of this task, the dump of what has no importable name, and its signature.

        Raises:
            BadDefinition: something can not be run as declared; the message says what to do.
            NotPortable: a callable can not travel to another process.
            UnknownName: an override that is no field of a task.
        """
        known = {f.name for f in fields(Task)} - {"name", "model"}
        for name in overrides:
            if name not in known:
                raise UnknownName("task field", name, known)
        task = replace(self, **overrides) if overrides else self
        return _define(task, put_blob, model if model is not None else task.model)


def _define(task: Task, put_blob: Callable[[bytes], str], model: Any) -> tuple[Definition, bytes | None, str | None]:
    dump = Dump()
    specs = _tools(task, dump)
    steps = _steps(task, {spec.name for spec in specs}, dump)
    model_name, model_ref = _model(task, model, dump)
    final = _validator(task.validator, dump)
    data = dump.finish()
    if not _NAME.fullmatch(task.name):
        raise BadDefinition(f"a task's name has letters, digits, - and _ (1 to 64 of them), not {task.name!r}")
    if not task.goal.strip():
        raise BadDefinition(f"task {task.name!r} has no goal: say what is to be achieved")
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
        files={path: put_blob(_content(task, path, source)) for path, source in task.files.items()},
        params=dict(task.params),
        limits=_limits(task),
        policy=task.policy,
        resources=task.resources,
        model_params=dict(task.model_params),
        model_ref=model_ref,
        base_url=task.base_url,
        scheme=_one_of(task, "scheme", ("hybrid", "events", "snapshot")),
        strategy=_one_of(task, "strategy", ("statement", "synthetic_error", "nothing")),
        durability=_one_of(task, "durability", ("disk", "group", "process")),  # type: ignore[arg-type]
        guard=dict(task.guard),
        context=dict(task.context),
        budget=dict(task.budget),
    )
    check(list(definition.refs()), data)
    return definition, data, None if data is None else sign(data)


def _one_of(task: Task, name: str, allowed: tuple[str, ...]) -> str:
    value = str(getattr(task, name))
    if value not in allowed:
        raise UnknownName(name, value, allowed)
    return value


def _limits(task: Task) -> Limits:
    if isinstance(task.limits, Limits):
        return task.limits
    known = {f.name for f in fields(Limits)}
    for name in task.limits:
        if name not in known:
            raise UnknownName("limit", name, known)
    return Limits(**task.limits)


def _content(task: Task, path: str, source: str | Path | bytes) -> bytes:
    if path.startswith(("/", "@")) or ".." in Path(path).parts or not path:
        raise BadDefinition(f"task {task.name!r}: {path!r} is no path inside the workspace")
    if isinstance(source, bytes):
        return source
    try:
        return Path(source).expanduser().read_bytes()
    except OSError as error:
        raise BadDefinition(f"task {task.name!r} needs the file {source}: {error.strerror}") from None


def _tools(task: Task, dump: Dump) -> tuple[ToolSpec, ...]:
    specs: dict[str, ToolSpec] = {}
    for given in task.tools:
        made = given if isinstance(given, Tool) else tool(given)
        if not _NAME.fullmatch(made.name):
            raise BadDefinition(f"tool {made.name!r}: a name has letters, digits, - and _ (1 to 64); give one with name=…")
        if made.name in specs:
            raise BadDefinition(f"two tools are called {made.name!r}: rename one with name=…")
        if made.name in BUILTIN_TOOLS:
            raise BadDefinition(f"{made.name!r} is the name of a built-in tool: rename yours with name=…")
        specs[made.name] = _tool_spec(made, dump)
    builtin = [spec for name, spec in BUILTIN_TOOLS.items() if name != "plan" or not task.steps]
    return (*specs.values(), *builtin)


def _tool_spec(made: Tool, dump: Dump) -> ToolSpec:
    options = dict(made.options)
    price = options.pop("price_usd", None)
    verify = options.pop("verify", None)
    description = options.pop("description", None) or described(made.__wrapped_tool__.__doc__) or made.name
    kind = options.get("kind", "work")
    if kind not in STEP_KINDS:
        raise UnknownName("kind", str(kind), STEP_KINDS)
    if "volatile" in options:
        options["volatile"] = tuple(options["volatile"])
    options.setdefault("effect", "external")
    return ToolSpec(
        name=made.name,
        description=description,
        input_schema=input_schema(made.__wrapped_tool__),
        ref=reference(made, dump),
        verify=reference(verify, dump) if verify is not None else None,
        price_microusd=None if price is None else round(price * 1e6),
        **options,
    )


def _steps(task: Task, tools: set[str], dump: Dump) -> tuple[StepSpec, ...]:
    out: list[StepSpec] = []
    for given in task.steps:
        if given.tool is not None and given.tool not in tools:
            raise UnknownName(f"tool for step {given.id!r}", given.tool, tools)
        if given.kind not in STEP_KINDS:
            raise UnknownName("kind of step", given.kind, STEP_KINDS)
        if not given.id or given.id in {s.id for s in out}:
            raise BadDefinition(f"task {task.name!r}: step ids must differ and not be empty; {given.id!r} does not")
        out.append(
            StepSpec(
                id=given.id,
                title=given.title,
                kind=given.kind,
                tool=given.tool,
                validator=_validator(given.validator, dump),
                parameters=dict(given.parameters),
                expected=given.expected,
                milestone=given.milestone,
            )
        )
    return tuple(out)


def _validator(given: Callable[..., Any] | Validator | None, dump: Dump) -> ValidatorSpec | None:
    if given is None:
        return None
    made = given if isinstance(given, Validator) else Validator(given)
    return ValidatorSpec(reference(made.fn, dump), made.effect, made.timeout_s)


def _model(task: Task, model: Any, dump: Dump) -> tuple[str, dict[str, Any] | None]:
    if model is None:
        raise BadDefinition(f"task {task.name!r} names no model: give model='claude-…', or a function for a scripted one")
    if isinstance(model, str):
        return model, None
    policy = getattr(model, "policy", model) if not callable(model) else model
    if callable(policy) and not hasattr(model, "complete"):
        name = dotted_name(policy)
        if name is not None and name.partition(":")[0].split(".")[0] != "ipykernel":
            ref = reference(policy, dump)
            return f"scripted:{name}", ref if ref.get("sys_path") else None
        return f"scripted:{getattr(policy, '__name__', 'policy')}", reference(policy, dump)
    if hasattr(model, "complete"):
        return str(getattr(model, "name", type(model).__name__)), dump.add(model)
    raise BadDefinition(f"task {task.name!r}: {model!r} is no model; give a name, a function, or something with complete()")


# --- tasks by name -----------------------------------------------------------------------------------------------------

BUILTIN: dict[str, str] = {"sales_report": "agentlab.tasks.sales:TASK", "sea_table": "agentlab.tasks.sea:TASK"}
_registered: dict[str, Task] = {}


def register_task(task: Task) -> Task:
    """Let ``task`` be found by its name; the newest registration counts."""
    _registered[task.name] = task
    return task


def _places() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {**{point.name: point.value for point in entry_points(group="agentlab.tasks")}, **BUILTIN}


def task_names() -> list[str]:
    """Names of all tasks: registered here, built in, and of installed packages (entry points ``agentlab.tasks``)."""
    return sorted({*_registered, *_places()})


def task(name: str) -> Task:
    """The task of that name.

    Raises:
        UnknownName: there is none (near matches in the message).
    """
    if name in _registered:
        return _registered[name]
    place = _places().get(name)
    if place is None:
        raise UnknownName("task", name, task_names())
    from importlib import import_module

    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, Task):
        raise BadDefinition(f"{place} is no Task")
    return found
