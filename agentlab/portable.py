"""Callables that travel: importable functions by dotted name, everything else in one dump per session.

Identity is the digest of the source, never the pickle. A dump begins with a line that names the Python that made it,
and is signed (:mod:`agentlab.ownership`), so that code which somebody else pickled is not run unawares.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlab.errors import NotPortable
from agentlab.importing import add_paths, extra_paths, import_folder, standard
from agentlab.ownership import sign, state_folder, trusted
from agentlab.sources import dotted_name, source_changed, source_digest

__all__ = [
    "Dump",
    "check",
    "dotted_name",
    "load",
    "reference",
    "sign",
    "source_changed",
    "source_digest",
    "state_folder",
    "trusted",
]

WARN_BYTES = 1 << 20
MAX_BYTES = 64 << 20
CHECK_S = 120.0
"""Seconds that a fresh process may take to load what was defined."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_MAGIC = b"agentlab-dump python="

_loaded: dict[str, dict[str, Any]] = {}
_checked: set[str] = set()


# --- making references ---------------------------------------------------------------------------------------------


class Dump:
    """The callables of one session that have no importable name; one cloudpickle for all, so that they share globals."""

    def __init__(self) -> None:
        self._members: dict[str, Any] = {}
        self._refs: list[dict[str, Any]] = []

    def add(self, fn: Any) -> dict[str, Any]:
        """A reference to ``fn`` in this dump; its ``blob`` is filled in by :meth:`finish`."""
        for ref in self._refs:
            if self._members[ref["name"]] is fn:
                return ref
        base = getattr(fn, "__qualname__", type(fn).__name__).rpartition(".")[2].strip("<>") or "callable"
        name, number = base, 2
        while name in self._members:
            name, number = f"{base}_{number}", number + 1
        self._members[name] = fn
        ref = {"kind": "dump", "name": name, "blob": "", "digest": source_digest(fn), "python": PYTHON}
        self._refs.append(ref)
        return ref

    def finish(self) -> bytes | None:
        """The dump as bytes, None when nothing is in it; fills in the references.

        Warns above ``WARN_BYTES``.

        Raises:
            NotPortable: something can not travel, or all together has more than ``MAX_BYTES``; the message names the
                callable and the culprit.
        """
        if not self._members:
            return None
        from agentlab import culprits

        try:
            pickle, folders = culprits.pickled(self._members, MAX_BYTES)
        except culprits.TooLarge:
            raise NotPortable(
                f"the tools pull more than {MAX_BYTES >> 20} MiB along ({culprits.heaviest(self._members)}): load it inside the"
                " function, or put it into the task's files"
            ) from None
        except Exception as error:
            raise NotPortable(culprits.blame(self._members, error)) from None
        if len(pickle) > WARN_BYTES:
            import warnings

            warnings.warn(
                f"the tools pull {len(pickle) / 1e6:.1f} MB along ({culprits.heaviest(self._members)}), which is stored with the"
                " session: load it inside the function, or put it into the task's files",
                stacklevel=_callers_level(),
            )
        data = _MAGIC + PYTHON.encode() + b"\n" + pickle
        digest, paths = hashlib.sha256(data).hexdigest(), extra_paths(folders)
        for ref in self._refs:
            ref.update({"blob": digest, **({"sys_path": paths} if paths else {})})
        return data


def _callers_level() -> int:
    """The ``stacklevel`` at which the line of whoever called agentlab stands."""
    own, level = str(Path(__file__).parent) + os.sep, 1
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame, level = frame.f_back, level + 1
    return level


def reference(fn: Any, dump: Dump) -> dict[str, Any]:
    """A reference to ``fn``: dotted when a fresh process can import it, else in ``dump``."""
    fn = getattr(fn, "__wrapped_tool__", fn)
    name = dotted_name(fn)
    if name is None:
        return dump.add(fn)
    ref: dict[str, Any] = {"kind": "dotted", "name": name, "digest": source_digest(fn)}
    module = sys.modules[name.partition(":")[0]]
    if module.__name__.partition(".")[0] != "agentlab" and not standard(str(getattr(module, "__file__", ""))):
        ref["sys_path"] = extra_paths(filter(None, [import_folder(module)]))
    return ref


# --- loading ---------------------------------------------------------------------------------------------------------


def load(ref: Mapping[str, Any], get_blob: Callable[[str], bytes]) -> Any:
    """The callable that a reference stands for; ``get_blob`` gives the dump by its digest.

    Raises:
        NotPortable: another Python made the dump, the module or name is not there, or it can not be unpickled.
        Exception: whatever importing the module raises, and ``get_blob``.
    """
    add_paths(ref.get("sys_path") or ())
    if ref.get("kind") == "dotted":
        return _load_dotted(str(ref["name"]))
    if ref.get("kind") != "dump":
        raise NotPortable(f"a callable reference of kind {ref.get('kind')!r} can not be loaded here")
    name, blob = str(ref["name"]), str(ref["blob"])
    _require_python(name, str(ref.get("python")))
    members = _loaded.get(blob)
    if members is None:
        members = _loaded[blob] = _unpickle(get_blob(blob), name)
    if name not in members:
        raise NotPortable(f"the session's dump holds no {name!r}")
    return members[name]


def _load_dotted(name: str) -> Any:
    module_name, _, qualname = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise NotPortable(f"{name} can not be imported here: {error}") from error
    return getattr(found, "__wrapped_tool__", found)


def _require_python(name: str, made_by: str) -> None:
    if made_by != PYTHON:
        # Unpickling code objects of another minor version can take the interpreter down.
        raise NotPortable(
            f"{name} was pickled by Python {made_by}; this is {PYTHON}: wake the session with the same Python, or put its tools"
            " into an importable module"
        )


def _unpickle(data: bytes, name: str) -> dict[str, Any]:
    import pickle

    header, _, body = data.partition(b"\n")
    if not header.startswith(_MAGIC):
        raise NotPortable(f"what should hold {name} is no dump of agentlab's")
    _require_python(name, header.removeprefix(_MAGIC).decode("ascii", "replace"))
    try:
        members: dict[str, Any] = pickle.loads(body)
    except Exception as error:
        raise NotPortable(f"{name} can not be unpickled in another process: {type(error).__name__}: {error}") from error
    return members


def check(refs: Sequence[Mapping[str, Any]], dump: bytes | None) -> None:
    """Load every reference in a fresh process at once, so that what can not travel fails where it was written.

    What was checked once in this process is not checked again. Nothing is started for references to agentlab's own
    functions and to installed packages.

    Raises:
        NotPortable: what the fresh process said.
    """
    import json
    import subprocess
    import tempfile

    wanted = json.dumps([dict(ref) for ref in refs if ref.get("kind") == "dump" or ref.get("sys_path")], sort_keys=True)
    if wanted == "[]" or wanted in _checked:  # a reference to a dump names the dump's digest
        return
    root = str(Path(__file__).resolve().parent.parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    with tempfile.NamedTemporaryFile(prefix="agentlab-dump-") as file:
        file.write(dump or b"")
        file.flush()
        argv = [sys.executable, "-P", "-m", "agentlab.portable", file.name]
        try:
            done = subprocess.run(
                argv, input=wanted.encode(), capture_output=True, env=env, timeout=CHECK_S, check=False
            )
        except OSError as error:
            raise NotPortable(
                f"{sys.executable} can not be started to load the tools in a fresh process: {error.strerror or error}"
            ) from error
        except subprocess.TimeoutExpired:
            raise NotPortable(
                f"loading the tools in a fresh process takes more than {CHECK_S:g} s: move slow work into the functions"
            ) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        last = said[-1] if said else f"loading the tools in a fresh process ended it (exit code {done.returncode})"
        raise NotPortable(last)
    _checked.add(wanted)


def _check_here() -> int:
    import json

    data = Path(sys.argv[1]).read_bytes()
    for ref in json.load(sys.stdin.buffer):
        try:
            load(ref, lambda digest: data)
        except BaseException as error:
            said = str(error) if isinstance(error, NotPortable) else f"{type(error).__name__}: {error}"
            about = "" if ref["name"] in said else f"{ref['name']} can not be loaded in a fresh process: "
            print("\n" + about + " ".join(said.split()), file=sys.stderr, flush=True)
            return 1
    return 0


if __name__ == "__main__":
    # The module runs under its own name, so that an error class is the one that load() raises.
    from agentlab import portable

    sys.exit(portable._check_here())
