"""What users write: tools, steps, validators and tasks. :mod:`agentlab.defining` makes a definition of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

from agentlab.definition import STEP_KINDS, Definition, Effect, Limits, PolicySpec
from agentlab.errors import BadDefinition, UnknownName
from agentlab.ports import Durability, Resources
from agentlab.tasknames import BUILTIN, names_module, register_task, task, task_names

__all__ = [
    "BUILTIN",
    "EFFECTS",
    "Step",
    "Task",
    "Tool",
    "ToolOptions",
    "Validator",
    "names_module",
    "register_task",
    "step",
    "task",
    "task_names",
    "tool",
    "validator",
]

EFFECTS = ("pure", "sandboxed", "external")


class ToolOptions(TypedDict, total=False):
    """What can be said of a tool; see :func:`tool`."""

    name: str
    description: str
    effect: Effect
    kind: str
    retries: int
    repeatable: bool
    repeat: bool
    once_per_content: bool
    once: Literal["operation", "content"]
    verify: Callable[..., Any]
    honours_key: bool
    settle_after_s: float
    timeout_s: float
    stateful_read: bool
    volatile: Sequence[str]
    price_usd: float
    needs_approval: bool


class Tool:
    """A function that a model may call. Still callable like the function itself."""

    def __init__(self, fn: Callable[..., Any], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, fn)
        self.__wrapped_tool__ = fn
        self.options = dict(options)
        if self.options.pop("once", "operation") == "content":
            self.options["once_per_content"] = True
        self.name: str = self.options.pop("name", None) or _name_of(fn)

    @property
    def effect(self) -> Effect:
        """*pure*, *sandboxed* or *external*; a tool that says nothing may do anything, so it is external."""
        effect: Effect = self.options.get("effect", "external")
        return effect

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped_tool__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, effect={self.effect!r})"


def _name_of(fn: Any) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__name__", None) or type(fn).__name__)


@overload
def tool(fn: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool: ...
@overload
def tool(fn: None = None, **options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    fn: Callable[..., Any] | None = None, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool: ``@tool``, ``@tool(effect="pure")`` or ``tool(fn, effect="pure")``.

    Name, description and input schema come from the function: its name, docstring and annotations. A parameter
    ``idempotency_key`` is filled in by the harness and hidden from the model.

    Options:
        name: another name than the function's (letters, digits, ``-`` and ``_``, at most 64).
        description: another text than the docstring's.
        effect: *pure* (no effect, may always be asked again), *sandboxed* (touches only the workspace) or
            *external* (anything else). A tool that does not say is external: executed with a key, never blindly twice.
        kind: kind of work, as in :func:`step`; decides how often a failure is tried again.
        retries: further tries after a first failure, instead of what ``kind`` says.
        repeatable: whether a sandboxed tool may be run again after a sandbox loss.
        repeat: every call is an effect of its own, also an equal one.
        once: *operation* (one effect for each operation of a session: the default) or *content* (one effect for one
            input, whichever session of the lab asks; later ones get the recorded result).
        once_per_content: the same as ``once="content"``.
        verify: ``verify(key)`` or ``verify(key, arguments)``: did the effect happen? Answers ``"completed"``,
            ``"not_done"`` or ``"unknown"``, or ``{"outcome": …, "result": …}``.
        honours_key: the outside takes two requests with one key as one.
        settle_after_s: seconds that the outside may need until verify can see the effect.
        timeout_s: seconds until a call is killed.
        stateful_read: a read whose answer changes though its input does not; no sign of a loop.
        volatile: names of arguments that do not tell calls apart (a time, a nonce).
        price_usd: price of one call in US dollars.
        needs_approval: a person approves each call.

    Raises:
        UnknownName: an option, effect or kind that does not exist.
        BadDefinition: not a function, or a value that makes no sense.
    """
    _check_options(options)
    if fn is None:
        return lambda function: tool(function, **options)
    if isinstance(fn, Tool):
        merged = {"name": fn.name, **fn.options, **options}
        _check_options(merged)
        return Tool(fn.__wrapped_tool__, merged)
    if not callable(fn):
        raise BadDefinition(f"a tool is made from a function, not from {fn!r}")
    return Tool(fn, options)


def _check_options(options: Mapping[str, Any]) -> None:
    known = ToolOptions.__annotations__
    for name in options:
        if name not in known:
            raise UnknownName("tool option", name, known)
    effect = options.get("effect", "external")
    if effect not in EFFECTS:
        raise UnknownName("effect", str(effect), EFFECTS)
    if options.get("kind", "work") not in STEP_KINDS:
        raise UnknownName("kind", str(options["kind"]), STEP_KINDS)
    if options.get("once", "operation") not in ("operation", "content"):
        raise UnknownName("once", str(options["once"]), ("operation", "content"))
    for name in ("retries", "settle_after_s", "timeout_s", "price_usd"):
        value = options.get(name)
        if value is not None and (
            not isinstance(value, (int, float)) or value < 0 or (name == "timeout_s" and not value)
        ):
            raise BadDefinition(
                f"{name}={value!r} makes no sense: give a number{' above 0' if name == 'timeout_s' else ''}"
            )
    verify = options.get("verify")
    if verify is not None and not callable(verify):
        raise BadDefinition(f"verify is a function of the key, not {verify!r}")
    if verify is not None and effect != "external":
        raise BadDefinition(f"a {effect} tool has nothing to verify: leave verify out, or declare effect='external'")
    if isinstance(options.get("volatile"), str):
        raise BadDefinition(f"volatile is a list of parameter names: volatile=({options['volatile']!r},)")


@dataclass(frozen=True, slots=True)
class Validator:
    """A validator and where it runs. Still callable like the function itself."""

    fn: Callable[..., Any]
    effect: Effect = "sandboxed"
    timeout_s: float = 60.0

    @property
    def __wrapped_tool__(self) -> Callable[..., Any]:
        return self.fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


@overload
def validator(fn: Callable[..., Any], effect: Effect = "sandboxed", timeout_s: float = 60.0) -> Validator: ...
@overload
def validator(
    fn: None = None, effect: Effect = "sandboxed", timeout_s: float = 60.0
) -> Callable[[Callable[..., Any]], Validator]: ...
def validator(
    fn: Callable[..., Any] | None = None, effect: Effect = "sandboxed", timeout_s: float = 60.0
) -> Validator | Callable[[Callable[..., Any]], Validator]:
    """Say where a validator runs: ``@validator(effect="pure")`` or ``validator(fn, effect="pure")``.

    A validator returns None or True when it is satisfied, else False or the reasons (a text, or a list of them). A
    plain function runs in the sandbox's working folder; *pure* runs in the tool host. ``timeout_s`` is in seconds.

    Raises:
        UnknownName: an effect that does not exist.
        BadDefinition: not a function.
    """
    if effect not in EFFECTS:
        raise UnknownName("effect", str(effect), EFFECTS)
    if fn is None:
        return lambda function: Validator(function, effect, timeout_s)
    if not callable(fn):
        raise BadDefinition(f"a validator is made from a function, not from {fn!r}")
    return Validator(fn.fn if isinstance(fn, Validator) else fn, effect, timeout_s)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a task's plan; see :func:`step`."""

    id: str
    title: str = ""
    kind: str = "work"
    tool: str | None = None
    validator: Callable[..., Any] | Validator | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expected: str = ""
    milestone: bool = False


def step(id: str, title: str = "", **options: Any) -> Step:
    """A step of the plan.

    ``kind`` is the kind of work (``query``, ``code``, ``move``, ``confirm``, ``downstream``, ``work``); ``tool`` names
    the tool whose success ends the step, ``validator`` is a function that does; with neither, the model says when it is
    done. ``parameters`` and ``expected`` are told to the model; a ``milestone`` asks for a checkpoint.

    Raises:
        UnknownName: an option that does not exist.
    """
    known = {f.name for f in fields(Step)} - {"id", "title"}
    for name in options:
        if name not in known:
            raise UnknownName("step option", name, known)
    if isinstance(options.get("tool"), Tool):
        options["tool"] = options["tool"].name
    return Step(id, title, **options)


@dataclass(frozen=True, slots=True)
class Task:
    """A goal, constraints, files, tools, steps, limits and a validator.

    ``files`` maps paths in the workspace to local paths, to bytes, or to text of more than one line (a single line is a
    path); or it is a list of local paths, which keep their last name. ``model`` is a name (``claude-…``,
    ``scripted:module:function``), a function of a :class:`~agentlab.models.view.View` for a scripted model, or a model
    (a key given to a model does not travel: it is taken from the environment). ``policy`` may be said in words.
    ``state_version`` is the version of the task's own state; see :func:`agentlab.upcaster`.
    """

    name: str
    goal: str
    constraints: Sequence[str] = ()
    files: Mapping[str, str | Path | bytes] | Sequence[str | Path] = field(default_factory=dict)
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
    policy: PolicySpec | Mapping[str, Any] | str = field(default_factory=PolicySpec)
    resources: Resources | Mapping[str, Any] = field(default_factory=Resources)
    scheme: str = "hybrid"
    strategy: str = "statement"
    durability: Durability = "disk"
    guard: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    state_version: int = 1

    def define(
        self, put_blob: Callable[[bytes], str], model: Any = None, **overrides: Any
    ) -> tuple[Definition, bytes | None, str | None]:
        """The definition of this task, the dump of what has no importable name, and its signature.

        Files are stored by ``put_blob``, which gives back a digest. ``overrides`` replace fields.

        Raises:
            BadDefinition: something can not be run as declared; the message says what to do.
            NotPortable: a callable can not travel to another process.
            UnknownName: an override that is no field of a task, or a name that does not exist.
        """
        from agentlab.defining import define

        known = {f.name for f in fields(Task)} - {"name", "model"}
        for name in overrides:
            if name not in known:
                raise UnknownName("task field", name, known)
        changed = replace(self, **overrides) if overrides else self
        return define(changed, put_blob, model if model is not None else changed.model)
