"""What is explored: one task, defined once, with everything that all its simulated worlds share."""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentlab.clock import ManualClock
from agentlab.definition import Definition, ToolSpec
from agentlab.explorer.misbehaving import asks_for, executed
from agentlab.explorer.outside import Outside, adapters
from agentlab.harness.lazymodel import LazyModel
from agentlab.harness.recordings import is_recording
from agentlab.harness.simulation import FolderRunner
from agentlab.log.memory import MemoryStore
from agentlab.models.registry import resolve as resolve_model
from agentlab.portable import load
from agentlab.ports import Execution, Model
from agentlab.sandbox.simulated import Outcome, Workspace
from agentlab.toolhost.inprocess import InProcessToolHost
from agentlab.validating import validate

SESSION = "explored"
_PLAIN = (int, float, str, bytes, bool, type(None))
_KEY_READERS = frozenset({"effect_key", "key_or_current"})


class Subject:
    """A task under exploration. ``outside`` is the outside of the world that is being driven.

    Raises:
        BadDefinition: the task can not be run as declared.
        UnknownName: there is no such model.
    """

    def __init__(self, task: Any, model: Any = None, **overrides: Any) -> None:
        self.store = MemoryStore()
        self.definition: Definition
        self.definition, dump, _ = task.define(self.store.blobs.put, model=model, **overrides)
        validate(self.definition)
        if self.definition.model_ref is None and not is_recording(self.definition.model):  # one that nobody can ask
            resolve_model(self.definition.model, base_url=self.definition.base_url, params=self.definition.model_params)
        if dump is not None:
            self.store.blobs.put(dump)
        self.name = str(task.name)
        self.source = source_of(task)
        self.outside = Outside()
        self.adapters = adapters(lambda: self.outside)
        self._functions: dict[str, Callable[..., Any]] = {}
        self.model: Model = LazyModel(self.definition, self.store.blobs, ManualClock())
        self.tools: Mapping[str, ToolSpec] = {tool.name: tool for tool in self.definition.tools}
        self.host = InProcessToolHost(self.resolve)
        self._globals = _plain_globals(self.resolve(ref) for ref in self.definition.refs())
        self.runner = Runner(self)

    def resolve(self, ref: Mapping[str, Any]) -> Callable[..., Any]:
        """The callable of a reference, or the stand-in of an adapter that needs a server."""
        name = f"{ref.get('name')}{ref.get('blob') or ''}"
        found = self._functions.get(name)
        if found is None:
            found = self.adapters.get(str(ref.get("name"))) or load(ref, self.store.blobs.get)
            self._functions[name] = found
        return found

    def honours_key(self, tool: ToolSpec) -> bool:
        """Whether equal keys are one effect: declared, and the function really gets at its key."""
        assert tool.ref is not None
        return tool.honours_key and takes_key(self.resolve(tool.ref))

    def fresh_process(self) -> None:
        """What a new process would find: the plain values among the globals of the task's functions, as imported."""
        for namespace, values in self._globals:
            for name, value in values.items():
                namespace[name] = value if isinstance(value, _PLAIN) else copy.deepcopy(value)

    def process(self) -> str:
        """What the plain globals of this process are now: two runs go on equally only if these are equal too."""
        return repr([[namespace.get(name) for name in values] for namespace, values in self._globals])


class Runner:
    """Runs sandbox commands once per command and workspace, whatever the call is named, deliveries included."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._inner = FolderRunner(subject.host)
        self._known: dict[Any, tuple[tuple[Outcome, Workspace], list[tuple[str, str]]]] = {}

    def __call__(self, execution: Execution, workspace: Workspace) -> tuple[Outcome, Workspace]:
        if asks_for(execution):
            return executed(execution, workspace, self)
        # A call's id is not part of what it does: "c12.1" after a crash is the same command as "c9.1" before it.
        command = execution.stdin.partition('"ref"')[2]
        identity = (command, tuple(sorted(workspace.items())))
        found = self._known.get(identity)
        if found is not None:
            for operation, key in found[1]:
                self._subject.outside.execute(operation, key)
            return found[0]
        outside = self._subject.outside
        before = len(outside.entries)
        done = self._inner._run(execution, workspace)
        self._known[identity] = done, [(e.operation, e.key) for e in outside.entries[before:]]
        return done


def _plain_globals(functions: Iterable[Callable[..., Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Namespaces of users' functions with a copy of the plain values in them."""
    found: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
    for function in functions:
        namespace = getattr(function, "__globals__", None)
        home = str(getattr(function, "__module__", ""))
        ours = home.startswith("agentlab.") and not home.startswith("agentlab.examples.")
        if not isinstance(namespace, dict) or ours or id(namespace) in found:
            continue
        values = {n: copy.deepcopy(v) for n, v in namespace.items() if not n.startswith("__") and _is_plain(v)}
        found[id(namespace)] = (namespace, values)
    return list(found.values())


def _is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, _PLAIN):
        return True
    if depth > 4:
        return False
    if isinstance(value, dict):
        return all(_is_plain(k, depth + 1) and _is_plain(v, depth + 1) for k, v in value.items())
    return isinstance(value, (list, tuple, set)) and all(_is_plain(v, depth + 1) for v in value)


def takes_key(function: Callable[..., Any], depth: int = 3) -> bool:
    """Whether a function gets at its idempotency key: by a parameter, or by asking for it, itself or in what it calls."""
    function = getattr(function, "__wrapped_tool__", function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return True  # nothing can be said: believe what was declared
    if "idempotency_key" in code.co_varnames or _KEY_READERS & set(code.co_names):
        return True
    namespace = getattr(function, "__globals__", {})
    called = (namespace.get(name) for name in code.co_names)
    return depth > 0 and any(isinstance(f, types.FunctionType) and takes_key(f, depth - 1) for f in called)


def source_of(task: Any) -> str:
    """``module:NAME`` of a task that stands in the module of one of its functions, else its name."""
    for function in (*task.tools, task.model):
        function = getattr(function, "__wrapped_tool__", function)
        module = sys.modules.get(str(getattr(function, "__module__", "")))
        if module is None:
            continue
        for name, value in vars(module).items():
            if value is task:
                return f"{module.__name__}:{name}"
    return str(task.name)
