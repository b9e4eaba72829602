"""Would a fresh process find that module, and which file would it read? Answered without importing anything."""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from collections.abc import Iterable
from importlib.machinery import ModuleSpec


def find_spec(name: str) -> ModuleSpec | None:
    """The spec of a module by the import path alone: what is loaded already does not count, and no package is run."""
    search: list[str] | None = None
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        if end > 1:
            if spec is None or spec.submodule_search_locations is None:
                return None
            search = _locations(spec)
        spec = _ask_finders(".".join(parts[:end]), search)
    return spec


def _ask_finders(name: str, search: list[str] | None) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        ask = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = ask(name, search) if ask is not None else None
        if spec is not None:
            return spec
    return None


def _locations(spec: ModuleSpec) -> list[str]:
    locations = spec.submodule_search_locations
    try:
        return list(locations or ())
    except KeyError:  # a namespace package looks its parent up among the loaded modules
        return list(getattr(locations, "_path", ()))


def import_folder(module: types.ModuleType) -> str | None:
    """What a fresh process needs on its path to import ``module``: ``""`` for nothing beyond this process's own path,
    a folder, or None when it can not import it at all (made by hand, run as a script, a notebook)."""
    name = module.__name__
    if name == "__main__":
        return None
    file = getattr(module, "__file__", None)
    spec = find_spec(name)
    if spec is not None:
        same = file is None or not spec.has_location or os.path.realpath(spec.origin or "") == os.path.realpath(file)
        return "" if same else None
    top = name.partition(".")[0]
    if file is None:
        # Some packages make modules while they are imported; whoever imports the package has them.
        return "" if top != name and find_spec(top) is not None else None
    # Found once and not any more: the working folder changed, or a test runner loaded it by its file.
    path, extension = os.path.splitext(os.path.realpath(file))
    steps = name.split(".")
    if os.path.basename(path) == "__init__":
        path = os.path.dirname(path)
    if extension != ".py" or path.split(os.sep)[-len(steps) :] != steps or find_spec(top) is not None:
        return None
    return os.sep.join(path.split(os.sep)[: -len(steps)]) or os.sep


def standard(path: str) -> bool:
    """Whether every interpreter of this installation looks there by itself: standard library and site-packages."""
    path = os.path.realpath(path)
    if "site-packages" in path or "dist-packages" in path:
        return True
    own = (os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))
    return any(path == folder or path.startswith(folder + os.sep) for folder in own)


def extra_paths(more: Iterable[str] = ()) -> list[str]:
    """Folders of ``sys.path`` that another process does not have by itself (the notebook's, PYTHONPATH's), and ``more``."""
    found: dict[str, None] = {}
    for entry in (*sys.path, *more):
        path = os.path.realpath(entry or os.getcwd())
        if os.path.isdir(path) and not standard(path):
            found[path] = None
    return list(found)


def add_paths(paths: Iterable[str]) -> None:
    """Put folders where the process that named them had them: after the standard library, before installed packages.

    At the end, a module beside the notebook would silently be another one that is installed under the same name.
    """
    at = next((i for i, p in enumerate(sys.path) if os.path.basename(p).endswith("-packages")), len(sys.path))
    for path in paths:
        if path not in sys.path:
            sys.path.insert(at, path)
            at += 1


def module_source(name: str) -> bytes | None:
    """The bytes of the file that importing ``name`` would read; None when there is no module or no file."""
    spec = find_spec(name)
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    try:
        with open(spec.origin, "rb") as file:
            return file.read()
    except OSError:
        read = getattr(spec.loader, "get_data", None)  # in a zip file
        try:
            return bytes(read(spec.origin)) if read is not None else None
        except OSError:
            return None
