"""What a callable is called, and the digest of its source: its identity, whatever its pickle looks like."""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from agentlab.importing import add_paths, import_folder, module_source


def dotted_name(fn: Any) -> str | None:
    """``package.module:qualname`` when importing that in a fresh process gives ``fn`` itself, else None."""
    module_name, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not isinstance(module_name, str) or not isinstance(qualname, str) or "<" in qualname:
        return None
    module = sys.modules.get(module_name)
    if not isinstance(module, types.ModuleType) or not getattr(module, "__file__", None):
        return None
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    # A decorated function's name leads to the decorator's object; that one unwraps to the function.
    if found is not fn and getattr(found, "__wrapped_tool__", None) is not fn:
        return None
    return f"{module_name}:{qualname}" if import_folder(module) is not None else None


def source_digest(fn: Any) -> str:
    """``sha256:`` of what identifies a callable's source: its module's file and its name; for one that has no importable
    name its own source, that of everything defined beside it that it uses, and the plain values among its globals."""
    name = dotted_name(fn)
    if name is not None:
        return _dotted_digest(name)
    whole = hashlib.sha256()
    for piece in _own_source(fn, set()):
        whole.update(len(piece).to_bytes(8, "big") + piece)
    return "sha256:" + whole.hexdigest()


def source_changed(ref: Mapping[str, Any]) -> bool:
    """Whether a dotted reference's source is another one now than when it was recorded, or gone. Imports nothing."""
    if ref.get("kind") != "dotted" or not ref.get("digest"):
        return False
    add_paths(ref.get("sys_path") or ())
    return _dotted_digest(str(ref["name"])) != str(ref["digest"])


def _dotted_digest(name: str) -> str:
    source = module_source(name.partition(":")[0])
    return "sha256:" + hashlib.sha256((source or b"no source") + name.encode()).hexdigest()


def _own_source(value: Any, seen: set[int]) -> Iterator[bytes]:
    """Pieces of text that are equal for equal source, in every process."""
    import inspect

    from agentlab.culprits import parts

    if id(value) in seen:
        return
    seen.add(id(value))
    if value is None or isinstance(value, (str, int, float, bytes)):
        yield repr(value).encode("utf-8", "backslashreplace")
        return
    if (
        isinstance(value, (types.FunctionType, type))
        and dotted_name(value) is not None
        or isinstance(value, types.ModuleType)
    ):
        yield str(getattr(value, "__qualname__", value.__name__)).encode()
        return
    if isinstance(value, types.FunctionType):
        try:
            yield inspect.getsource(value.__code__).encode("utf-8", "backslashreplace")
        except (OSError, TypeError):  # made by exec: there is no text
            yield from _code_pieces(value.__code__)
    elif not isinstance(value, type):
        yield type(value).__qualname__.encode()
        if type(value).__module__ == "__main__" and hasattr(type(value), "__dict__"):
            yield from _own_source(type(value), seen)
    if callable(value) or isinstance(value, (staticmethod, classmethod, property)):
        for label, part in parts(value):
            yield label.encode("utf-8", "backslashreplace")
            yield from _own_source(part, seen)


def _code_pieces(code: types.CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield " ".join(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_pieces(constant)
        elif not isinstance(constant, frozenset):  # its order differs from process to process
            yield repr(constant).encode("utf-8", "backslashreplace")
