"""What a session runs: tools, steps, limits and the task, as frozen data that fits into one event.

Users write :class:`Task` and :func:`agentlab.tool`; :class:`Definition` is what ``session_started`` records of
them: plain JSON in which every callable is a *reference* (dotted name and source digest, or a place in a
cloudpickle dump), never code. A harness needs nothing else to run the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, TypeVar

from agentlab.errors import BadDefinition
from agentlab.events import canonical, digest
from agentlab.evolve import quick
from agentlab.ports import Durability, Resources

DEFINITION_VERSION = 1
T = TypeVar("T")

Effect = Literal["pure", "sandboxed", "external"]
Ref = Mapping[str, Any]
"""A callable reference: ``{"kind": "dotted", "name": "pkg.mod:f", "digest": …}`` or
``{"kind": "dump", "name": "f", "blob": …, "digest": …, "python": "3.11"}``."""

STEP_KINDS = ("query", "code", "move", "confirm", "downstream", "work")
RETRIES_BY_KIND: Mapping[str, int] = {"query": 3, "code": 5, "downstream": 1, "move": 3, "confirm": 1, "work": 3}
"""Retries after a first failure, by kind of step or tool."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the harness sees it.

    ``effect`` is *pure* (no effect; may always be asked again), *sandboxed* (touches only the workspace) or
    *external* (anything else: registered, executed with a key, recorded). ``retries`` counts further tries after
    a first failure (None: by ``kind``). ``repeatable`` says whether a sandboxed command may be run again after a
    sandbox loss. ``repeat=True`` gives every call of an external tool its own effect key. ``honours_key`` says
    that the outside treats two requests with one key as one. ``verify`` is asked at recovery whether a pending
    effect happened; ``settle_after_s`` is how long the outside may need to show it. ``price_microusd`` is charged
    per call, in millionths of a US dollar. ``builtin`` names a tool that the harness itself carries out.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    effect: Effect = "pure"
    ref: Ref | None = None
    verify: Ref | None = None
    kind: str = "work"
    retries: int | None = None
    repeatable: bool = True
    repeat: bool = False
    once_per_content: bool = False
    honours_key: bool = False
    settle_after_s: float = 0.0
    timeout_s: float = 60.0
    stateful_read: bool = False
    volatile: tuple[str, ...] = ()
    price_microusd: int | None = None
    builtin: str | None = None
    needs_approval: bool = False

    @property
    def tries(self) -> int:
        """How often a call may be executed in all. External effects get one retry unless told otherwise."""
        if self.retries is not None:
            return 1 + self.retries
        return 1 + (RETRIES_BY_KIND["downstream"] if self.effect == "external" else 0)

    def for_model(self) -> dict[str, Any]:
        """The tool as a model is told of it."""
        return {"name": self.name, "description": self.description, "input_schema": dict(self.input_schema)}


@dataclass(frozen=True, slots=True)
class ValidatorSpec:
    """A plain function that returns None (satisfied), True, or reasons; it runs where ``effect`` says."""

    ref: Ref
    effect: Effect = "sandboxed"
    timeout_s: float = 60.0


@quick
@dataclass(frozen=True, slots=True)
class StepSpec:
    """One item of a plan.

    A step with a validator ends when that is satisfied; one with ``tool`` ends when that tool succeeded; any
    other when the model says so (``step_done``).
    """

    id: str
    title: str = ""
    kind: str = "work"
    tool: str | None = None
    validator: ValidatorSpec | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expected: str = ""
    milestone: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Ends of a run. None means unlimited. Money in millionths of a US dollar, times in seconds."""

    max_turns: int | None = 200
    rounds_per_step: int | None = 5
    """Model answers in one plan step; then it recovers once from before the repetition, then the session rests."""
    attempts: int = 3
    retries: Mapping[str, int] = field(default_factory=dict)
    """Further tries after a first failure, by kind of tool or step, where they differ from RETRIES_BY_KIND."""
    errors_in_a_row: int | None = 8
    deaths_per_step: int | None = 50
    """Deaths of the harness within one plan step (or since somebody resumed the session) after which it pauses."""
    model_retries: int = 6
    model_timeout_s: float = 600.0
    retry_wait_s: float = 900.0
    """Longest total wait for one model answer, over all its retries; Retry-After is respected within it."""
    session_retries: int | None = 1000
    """Retries of models and tools together that one session may make; then a failure is what it is at once."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_tokens: int | None = None
    tokens: int | None = None
    """Input, output and cache tokens together."""
    cost_microusd: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    tool_calls_by_tool: Mapping[str, int] = field(default_factory=dict)
    wall_s: float | None = None
    """Seconds since the session began, pauses included; :meth:`Session.extend` gives it more."""
    active_s: float | None = None
    requests_per_minute: int | None = None
    per_minute_by_tool: Mapping[str, int] = field(default_factory=dict)
    steps: int | None = None
    context_tokens: int = 100_000
    max_output_tokens: int = 4096

    def retries_of(self, kind: str) -> int:
        """Further tries after a first failure of this kind of tool or step."""
        return self.retries.get(kind, RETRIES_BY_KIND.get(kind, RETRIES_BY_KIND["work"]))


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """When to write a checkpoint. ``kind`` names a trigger of :mod:`agentlab.policies`, ``args`` its numbers."""

    kind: str = "default"
    args: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[PolicySpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """Everything a harness needs to run a session, as plain data.

    ``files`` maps workspace paths to blob digests. ``user_input`` is the user's own words where they differ from
    the goal. ``scheme`` is ``hybrid``, ``events`` or ``snapshot``; ``strategy`` says what the model is told after
    a crash: ``statement``, ``synthetic_error`` or ``nothing``. ``budget`` may hold ``prices`` (model to dollars per
    million tokens: input, output, cache_read, cache_write), ``reserve`` (the minimum reserve per dimension),
    ``alerts`` (shares of a limit) and ``services`` (service to the tools that call it, for ``per_minute_by_tool``).
    """

    task: str
    goal: str
    model: str
    system: str = ""
    user_input: str = ""
    constraints: tuple[str, ...] = ()
    steps: tuple[StepSpec, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    validator: ValidatorSpec | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    policy: PolicySpec = field(default_factory=PolicySpec)
    resources: Resources = field(default_factory=Resources)
    model_params: Mapping[str, Any] = field(default_factory=dict)
    model_ref: Ref | None = None
    base_url: str | None = None
    scheme: str = "hybrid"
    strategy: str = "statement"
    durability: Durability = "disk"
    sandbox: str = "local"
    snapshot_every: str = "checkpoint"
    guard: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    state_version: int = 1
    """The version of the user's own state (pinned facts, parameters of steps) that the task works with."""
    version: int = DEFINITION_VERSION

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of that name, built-in ones included, or None."""
        for spec in self.tools:
            if spec.name == name:
                return spec
        return None

    def step_ids(self) -> tuple[str, ...]:
        return tuple(step.id for step in self.steps)

    def needs_sandbox(self) -> bool:
        """Whether any file, tool or validator lives in a sandbox."""
        steps = (s.validator for s in self.steps)
        return bool(
            self.files
            or any(t.effect == "sandboxed" for t in self.tools)
            or any(v is not None and v.effect == "sandboxed" for v in (self.validator, *steps))
        )

    def refs(self) -> Sequence[Ref]:
        """Every callable reference in the definition."""
        found: list[Ref | None] = [self.model_ref, self.validator.ref if self.validator else None]
        found += [t.ref for t in self.tools] + [t.verify for t in self.tools]
        found += [s.validator.ref for s in self.steps if s.validator]
        return [ref for ref in found if ref is not None]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :func:`from_json` is its inverse."""
        out: dict[str, Any] = _json(self)
        return out

    def digests(self) -> dict[str, str]:
        """Digests of what belongs to the baseline: system prompt, tools, policies, limits."""
        return {
            "system": digest(self.system),
            "tools": digest(canonical([_json(t) for t in self.tools])),
            "policy": digest(canonical(_json(self.policy))),
            "limits": digest(canonical(_json(self.limits))),
        }


def with_model(definition: Definition, model: str, params: Mapping[str, Any] | None = None) -> Definition:
    """The same definition under another model."""
    return replace(definition, model=model, model_ref=None, model_params=dict(params or {}))


def _json(value: Any) -> Any:
    if value is None or type(value) in (str, int, bool, float):
        return value
    if hasattr(value, "__dataclass_fields__"):
        return {name: _json(getattr(value, name)) for name in _names(type(value))}  # type: ignore[arg-type]
    if isinstance(value, (tuple, list)):
        return [_json(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): _json(v) for k, v in value.items()}
    return value


def from_json(data: Mapping[str, Any]) -> Definition:
    """A definition from its JSON.

    Raises:
        BadDefinition: a newer version, or a field that is missing or unknown; the message names it.
    """
    version = data.get("version")
    if not isinstance(version, int) or version > DEFINITION_VERSION:
        raise BadDefinition(
            f"definition version {version!r} is not one this agentlab reads (up to {DEFINITION_VERSION}); install a newer one"
        )
    return _build(Definition, {
        **data,
        "tools": tuple(_build(ToolSpec, {**t, "volatile": tuple(t.get("volatile", ()))}) for t in data["tools"]),
        "steps": tuple(_step(s) for s in data["steps"]),
        "constraints": tuple(data["constraints"]),
        "validator": _validator(data.get("validator")),
        "limits": _build(Limits, data["limits"]),
        "policy": policy_from_json(data["policy"]),
        "resources": _build(Resources, data["resources"]),
    })  # fmt: skip


def policy_from_json(data: Mapping[str, Any]) -> PolicySpec:
    """A policy from its JSON, parts included."""
    return _build(PolicySpec, {**data, "parts": tuple(policy_from_json(p) for p in data.get("parts", ()))})


def step_from_json(data: Mapping[str, Any]) -> StepSpec:
    """A step from its JSON (as in ``plan_set``)."""
    return _step(data)


def step_to_json(step: StepSpec) -> dict[str, Any]:
    """A step as JSON."""
    out: dict[str, Any] = _json(step)
    return out


def _step(data: Mapping[str, Any]) -> StepSpec:
    return _build(StepSpec, {**data, "validator": _validator(data.get("validator"))})


def _validator(data: Mapping[str, Any] | None) -> ValidatorSpec | None:
    return None if data is None else _build(ValidatorSpec, data)


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def _build(cls: type[T], data: Mapping[str, Any]) -> T:
    known = _names(cls)  # type: ignore[arg-type]
    for name in data:
        if name not in known:
            raise BadDefinition(
                f"{cls.__name__} has no field {name!r}: misspelt, or made by a newer agentlab; known: {', '.join(known)}"
            )
    try:
        return cls(**data)
    except TypeError as error:
        raise BadDefinition(f"{cls.__name__}: {error}") from None


# --- tools that the harness carries out itself -------------------------------------------------------------------


def _schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


_TEXT = {"type": "string"}
BUILTIN_TOOLS: Mapping[str, ToolSpec] = {
    spec.name: spec
    for spec in (
        ToolSpec(
            "plan", "Declare the steps of the plan, in order. Each has an id, a title, parameters and the result expected.",
            _schema({"steps": {"type": "array", "items": _schema(
                {"id": _TEXT, "title": _TEXT, "kind": {"enum": list(STEP_KINDS)}, "tool": _TEXT,
                 "parameters": {"type": "object"}, "expected": _TEXT}, ["id"])}}, ["steps"]),
            builtin="plan"),
        ToolSpec(
            "step_done", "Say that the current step is done, with a summary of its result. Its validator, if any, is asked.",
            _schema({"summary": _TEXT}, ["summary"]), builtin="step_done"),
        ToolSpec(
            "ask_user", "Ask a person a question and wait for the answer.",
            _schema({"question": _TEXT, "options": {"type": "array", "items": _TEXT}}, ["question"]), builtin="ask_user"),
        ToolSpec(
            "remember", "Pin a fact (an id, a chosen filter, a confirmed parameter) so that it stays visible; an empty value"
            " takes it away.",
            _schema({"name": _TEXT, "value": _TEXT}, ["name", "value"]), builtin="remember"),
        ToolSpec(
            "recall", "Fetch events of this session from the log: by number (from_seq, with offset for the rest of a long one),"
            " or those that hold the words of query.",
            _schema({"from_seq": {"type": "integer"}, "to_seq": {"type": "integer"}, "offset": {"type": "integer"},
                     "query": _TEXT}, []), builtin="recall"),
    )
}  # fmt: skip
"""Tools that change only the session itself; their results come from the log, not from outside."""
