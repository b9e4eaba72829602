"""Why a callable can not travel, or what makes it so large: the one variable that is to blame, and what to do.

cloudpickle says that *something* can not be pickled; a person needs to know which function, which global or closure
variable, and by which way it was reached.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentlab.importing import import_folder

_FILES = (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)
_MAX_TRAIL = 12
_NOT_OWN = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__slots__", "__annotations__",
     # What Python adds by itself: some of it only once an instance was pickled, some in another order each time.
     "__slotnames__", "__static_attributes__", "__firstlineno__", "__abstractmethods__", "_abc_impl", "__annotate__",
     "__annotate_func__", "__annotations_cache__"}
)  # fmt: skip
Part = tuple[str, Any]


class TooLarge(Exception):
    """The pickle passed its limit; it was not written to its end."""


class _Sink:
    """Takes what is pickled, up to ``limit`` bytes; keeps it only when asked."""

    def __init__(self, limit: int | None, keep: bool) -> None:
        self.limit, self.size = limit, 0
        self.kept: bytearray | None = bytearray() if keep else None

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.size += size
        if self.limit is not None and self.size > self.limit:
            raise TooLarge
        if self.kept is not None:
            self.kept += data
        return size


def pickled(value: Any, limit: int) -> tuple[bytes, list[str]]:
    """``value`` as a pickle, and the folders that its modules are imported from beyond this process's path.

    Functions and classes of modules that a fresh process can not import go along as they are.

    Raises:
        TooLarge: more than ``limit`` bytes.
        Exception: whatever refuses to be pickled, an open file too.
    """
    sink = _Sink(limit, keep=True)
    folders = _dump(value, sink)
    assert sink.kept is not None
    return bytes(sink.kept), folders


def _dump(value: Any, sink: _Sink) -> list[str]:
    import cloudpickle

    registered = cloudpickle.list_registry_pickle_by_value()
    folders: dict[str, str | None] = {}
    tools = [_function_behind(fn) for fn in (value.values() if isinstance(value, dict) else [value])]
    try:
        _pickler()(sink, folders, tools).dump(value)
    finally:
        for name in cloudpickle.list_registry_pickle_by_value() - registered:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
    return sorted({folder for folder in folders.values() if folder})


@functools.lru_cache(maxsize=1)
def _pickler() -> Callable[[_Sink, dict[str, str | None], list[Any]], Any]:
    import cloudpickle

    class Strict(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, sink: _Sink, folders: dict[str, str | None], tools: list[Any]) -> None:
            super().__init__(sink)
            self._folders, self._tools = folders, tools

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, _FILES) and obj not in (sys.stdout, sys.stderr):
                # cloudpickle would read it to its end and send the text along.
                raise pickle.PicklingError("it is an open file")
            if isinstance(obj, (types.FunctionType, type, types.ModuleType)):
                self._by_value_if_needed(obj.__name__ if isinstance(obj, types.ModuleType) else obj.__module__)
            reduced = super().reducer_override(obj)
            if isinstance(reduced, tuple) and (dataclasses.is_dataclass(obj) or any(obj is t for t in self._tools)):
                return _with_types(obj, reduced)
            return reduced

        def _by_value_if_needed(self, name: Any) -> None:
            if name in self._folders or name == "__main__":
                return
            module = sys.modules.get(name) if isinstance(name, str) else None
            if isinstance(module, types.ModuleType) and module.__name__ == name:
                self._folders[name] = import_folder(module)
                if self._folders[name] is None:
                    cloudpickle.register_pickle_by_value(module)

    return Strict


def _function_behind(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    if isinstance(fn, types.MethodType):
        return fn.__func__
    return fn if isinstance(fn, (types.FunctionType, type)) else type(fn).__call__


def _with_types(obj: Any, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """``reduced`` with types where annotations are text, whole or in part: the names in them do not travel."""
    from agentlab.schemas import hints_of

    state = reduced[2] if len(reduced) > 2 else None
    if not isinstance(state, tuple) or len(state) != 2:
        return reduced
    index = 0 if isinstance(obj, type) else 1  # the dict of a class; what a function has beside its dict
    annotations = state[index].get("__annotations__")
    if not annotations:
        return reduced
    hints = {name: hint for name, hint in hints_of(obj).items() if name in annotations and name != "return"}
    changed = {**state[index], "__annotations__": {**annotations, **hints}}
    return (*reduced[:2], (changed, state[1]) if index == 0 else (state[0], changed), *reduced[3:])


def _problem(value: Any) -> Exception | None:
    try:
        _dump(value, _Sink(None, keep=False))
    except Exception as error:
        return error
    return None


def blame(members: Mapping[str, Any], error: Exception) -> str:
    """What to tell the author of ``members``, which could not be pickled together because of ``error``."""
    for name, fn in members.items():
        problem = _problem(fn)
        if problem is not None:
            trail, values, problem = _follow(fn, problem)
            way = " → ".join(trail)
            what = f"its {way} is {_kind(values[-1])}" if way else "it"
            return f"{name} can not travel to another process: {what}: {_said(problem)}; {_advice(values)}"
    return f"{', '.join(members)} can not travel together to another process: {_said(error)}; define them in a module"


def _follow(value: Any, problem: Exception) -> tuple[list[str], list[Any], Exception]:
    """The way from a callable to the part that does not travel: what the steps are called, and what is found there."""
    trail: list[str] = []
    values = [value]
    seen = {id(value)}
    while len(trail) < _MAX_TRAIL:
        for label, part in parts(value):
            if id(part) in seen:
                continue
            seen.add(id(part))
            found = _problem(part)
            if found is not None:
                trail.append(label)
                values.append(part)
                value, problem = part, found
                break
        else:
            break
    return trail, values, problem


def heaviest(members: Mapping[str, Any]) -> str:
    """Which variable of which callable makes the most of the dump, and how much."""
    best: tuple[int, str] = (0, "")
    for name, fn in members.items():
        for label, part in parts(fn):
            sink = _Sink(None, keep=False)
            try:
                _dump(part, sink)
            except Exception:
                continue
            best = max(best, (sink.size, f"the {label} of {name}"))
    return f"{best[1]} has {best[0] / 1e6:.1f} MB" if best[1] else "their own code"


def parts(value: Any) -> Iterator[Part]:
    """(what it is called there, value) of everything that is pickled with ``value``."""
    if isinstance(value, types.FunctionType):
        yield from _function_parts(value)
    elif isinstance(value, types.MethodType):
        yield "method", value.__func__
        yield "instance", value.__self__
    elif isinstance(value, (staticmethod, classmethod)):
        yield "function", value.__func__
    elif isinstance(value, property):
        yield from ((n, f) for n, f in (("getter", value.fget), ("setter", value.fset)) if f is not None)
    elif isinstance(value, functools.partial):
        yield "function", value.func
        yield from ((f"argument {i}", v) for i, v in enumerate(value.args))
        yield from ((f"argument {n!r}", v) for n, v in value.keywords.items())
    elif isinstance(value, type):
        yield from ((f"attribute {n!r}", v) for n, v in vars(value).items() if n not in _NOT_OWN)
        yield from ((f"base {base.__name__}", base) for base in value.__bases__ if base is not object)
    elif isinstance(value, Mapping):
        yield from ((f"item {k!r:.40}", v) for k, v in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"item {i}", v) for i, v in enumerate(value))
    elif not isinstance(value, types.ModuleType):
        yield from _instance_parts(value)


def _function_parts(function: types.FunctionType) -> Iterator[Part]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"closure variable {name!r}", cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    names = function.__globals__
    yield from ((f"global {n!r}", names[n]) for n in global_names(code) if n in names)
    defaults = function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    yield from ((f"default of {code.co_varnames[first + i]!r}", v) for i, v in enumerate(defaults))
    yield from ((f"default of {n!r}", v) for n, v in (function.__kwdefaults__ or {}).items())
    yield from ((f"attribute {n!r}", v) for n, v in vars(function).items())


def global_names(code: types.CodeType) -> list[str]:
    """Names that a code object, and what is defined inside it, may look up among the globals."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(global_names(constant)))
    return list(found)


def _instance_parts(value: Any) -> Iterator[Part]:
    for name, part in getattr(value, "__dict__", {}).items():
        yield f"attribute {name!r}", part
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in _NOT_OWN and hasattr(value, name):
                yield f"attribute {name!r}", getattr(value, name)
    if type(value).__module__ == "__main__":
        yield f"class {type(value).__name__}", type(value)


def _kind(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, _FILES):
        return f"the open file {getattr(value, 'name', '')!r}"
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.").removeprefix("__main__.")
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _said(error: Exception) -> str:
    text = str(error).removeprefix("Could not pickle object as ").strip()
    return text[:300] or type(error).__name__


def _advice(values: list[Any]) -> str:
    """What to do about the last of ``values``, or about the nearest thing around it that says more."""
    for value in reversed(values[1:]):
        kind = type(value).__name__.lower()
        if isinstance(value, _FILES):
            return "open it inside the function, by its path"
        if hasattr(value, "__next__") or isinstance(value, (types.CoroutineType, types.AsyncGeneratorType)):
            return "use a list, or make it inside the function"
        if any(word in kind for word in ("connection", "cursor", "session", "client", "engine", "socket", "pool")):
            return "connect inside the function"
    return "make it inside the function, or put the function into a module of its own"
