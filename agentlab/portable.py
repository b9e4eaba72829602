"""Callables that travel: importable functions by dotted name, everything else in one dump per session.

Identity is the digest of the source, never the pickle. A dump is signed with a key of this user, so that code
which somebody else pickled is not run unawares.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib
import importlib.util
import inspect
import os
import secrets
import sys
import sysconfig
import types
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentlab.errors import NotPortable

WARN_BYTES = 1 << 20
MAX_BYTES = 64 << 20
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

_loaded: dict[str, dict[str, Any]] = {}


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
        paths = _extra_paths()
        if paths:
            ref["sys_path"] = paths
        self._refs.append(ref)
        return ref

    def finish(self) -> bytes | None:
        """The dump as bytes, None when nothing is in it; fills in the references.

        Raises:
            NotPortable: something can not travel; the message names the callable and the culprit.
        """
        if not self._members:
            return None
        import cloudpickle

        try:
            data: bytes = cloudpickle.dumps(self._members)
        except Exception as error:
            raise NotPortable(_blame(self._members, error)) from None
        if len(data) > MAX_BYTES:
            raise NotPortable(
                f"the tools pull {len(data) >> 20} MiB along ({_largest(self._members)}): load it inside the function or put it"
                " into the task's files"
            )
        if len(data) > WARN_BYTES:
            warnings.warn(
                f"the tools pull {len(data) / 1e6:.1f} MB along ({_largest(self._members)}); it is stored with the session",
                stacklevel=2,
            )
        digest = hashlib.sha256(data).hexdigest()
        for ref in self._refs:
            ref["blob"] = digest
        return data


def reference(fn: Any, dump: Dump) -> dict[str, Any]:
    """A reference to ``fn``: dotted when a fresh interpreter can import it, else in ``dump``."""
    fn = getattr(fn, "__wrapped_tool__", fn)
    name = dotted_name(fn)
    if name is None:
        return dump.add(fn)
    ref = {"kind": "dotted", "name": name, "digest": source_digest(fn)}
    module = sys.modules[name.partition(":")[0]]
    if module.__name__.partition(".")[0] != "agentlab" and not _found_by_itself(module):
        ref["sys_path"] = _extra_paths()
    return ref


def dotted_name(fn: Any) -> str | None:
    """``package.module:qualname`` when importing that gives ``fn`` itself, else None."""
    module_name, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not module_name or not qualname or "<" in qualname or module_name in ("__main__", "builtins"):
        return None
    module = sys.modules.get(module_name)
    if module is None or not getattr(module, "__file__", None):
        return None
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    # A decorated function's name leads to the decorator's object; that one unwraps to the function.
    if found is not fn and getattr(found, "__wrapped_tool__", None) is not fn:
        return None
    return f"{module_name}:{qualname}"


def source_digest(fn: Any) -> str:
    """``sha256:`` of what identifies a callable's source: its module's file and name, or its own source text."""
    name = dotted_name(fn)
    try:
        if name is not None:
            data = Path(str(sys.modules[name.partition(":")[0]].__file__)).read_bytes() + name.encode()
        else:
            data = inspect.getsource(fn if callable(fn) and hasattr(fn, "__code__") else type(fn)).encode()
    except (OSError, TypeError):
        code = getattr(fn, "__code__", None)
        data = code.co_code + repr(code.co_names).encode() if code is not None else type(fn).__qualname__.encode()
    return "sha256:" + hashlib.sha256(data).hexdigest()


def source_changed(ref: Mapping[str, Any]) -> bool:
    """Whether a dotted reference's source is another one now than when it was recorded."""
    if ref.get("kind") != "dotted":
        return False
    return source_digest(load(ref, lambda digest: b"")) != ref["digest"]


def _extra_paths() -> list[str]:
    """Entries of ``sys.path`` that a fresh interpreter elsewhere would not have: the notebook's folder and the like."""
    standard = {os.path.realpath(p) for p in sysconfig.get_paths().values()}
    found = []
    for entry in sys.path:
        path = os.path.realpath(entry or os.getcwd())
        inside = any(path == s or path.startswith(s + os.sep) for s in standard) or "site-packages" in path
        if os.path.isdir(path) and not inside and path not in found:
            found.append(path)
    return found


def _found_by_itself(module: types.ModuleType) -> bool:
    path = os.path.realpath(str(module.__file__))
    return "site-packages" in path or any(
        path.startswith(os.path.realpath(p) + os.sep) for p in (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"])
    )


# --- loading ---------------------------------------------------------------------------------------------------------


def load(ref: Mapping[str, Any], get_blob: Callable[[str], bytes]) -> Any:
    """The callable that a reference stands for.

    Raises:
        NotPortable: another Python made the dump, the module or name is not there, or it can not be unpickled.
    """
    for path in ref.get("sys_path") or ():
        if path not in sys.path:
            sys.path.append(path)
    if ref.get("kind") == "dotted":
        return _load_dotted(str(ref["name"]))
    if ref.get("kind") != "dump":
        raise NotPortable(f"a callable reference of kind {ref.get('kind')!r} can not be loaded here")
    if ref.get("python") != PYTHON:
        # Unpickling code objects of another minor version can take the interpreter down.
        raise NotPortable(
            f"{ref['name']} was pickled by Python {ref.get('python')}; this is {PYTHON}: wake the session with the same Python, or"
            " put its tools into an importable module"
        )
    members = _loaded.get(str(ref["blob"]))
    if members is None:
        members = _loaded[str(ref["blob"])] = _unpickle(get_blob(str(ref["blob"])), str(ref["name"]))
    if ref["name"] not in members:
        raise NotPortable(f"the session's dump holds no {ref['name']!r}")
    return members[str(ref["name"])]


def _load_dotted(name: str) -> Any:
    module_name, _, qualname = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise NotPortable(f"{name} can not be imported here: {error}") from error
    return getattr(found, "__wrapped_tool__", found)


def _unpickle(data: bytes, name: str) -> dict[str, Any]:
    import pickle

    try:
        members: dict[str, Any] = pickle.loads(data)
    except Exception as error:
        raise NotPortable(f"{name} can not be unpickled in another process: {type(error).__name__}: {error}") from error
    return members


# --- finding the culprit -----------------------------------------------------------------------------------------------


def _blame(members: Mapping[str, Any], error: Exception) -> str:
    for name, fn in members.items():
        if _travels(fn):
            continue
        for where, variable, value in _parts(fn):
            if not _travels(value):
                return (
                    f"{name} can not travel to the harness's process: its {where} {variable!r} is {_a(value)}, which can not be pickled"
                    f" ({error}); open it inside the function, or pass what it is made from"
                )
        return f"{name} can not travel to the harness's process: {error}; define it at the top level of a module"
    return f"the tools can not travel together: {error}"


def _travels(value: Any) -> bool:
    import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


def _parts(fn: Any) -> list[tuple[str, str, Any]]:
    """(kind of variable, name, value) of everything a callable pulls along."""
    function = getattr(fn, "__func__", fn)
    code = getattr(function, "__code__", None)
    found: list[tuple[str, str, Any]] = []
    if code is not None:
        cells = function.__closure__ or ()
        found += [("closure variable", n, c.cell_contents) for n, c in zip(code.co_freevars, cells, strict=True)]
        names = function.__globals__
        found += [("global", n, names[n]) for n in code.co_names if n in names and not isinstance(names[n], types.ModuleType)]
        found += [("default", str(i), v) for i, v in enumerate(function.__defaults__ or ())]
    owner = getattr(fn, "__self__", fn if code is None else None)
    found += [("attribute", n, v) for n, v in getattr(owner, "__dict__", {}).items()]
    return found


def _largest(members: Mapping[str, Any]) -> str:
    import cloudpickle

    sizes = []
    for name, fn in members.items():
        for where, variable, value in _parts(fn):
            try:
                sizes.append((len(cloudpickle.dumps(value)), f"{where} {variable!r} of {name}"))
            except Exception:
                continue
    return max(sizes)[1] + f", {max(sizes)[0] / 1e6:.1f} MB" if sizes else "their code"


def _a(value: Any) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")


def check(refs: list[Mapping[str, Any]], dump: bytes | None) -> None:
    """Load every reference in a fresh process at once, so that what can not travel fails where it was written.

    Raises:
        NotPortable: what the fresh process said.
    """
    import json
    import subprocess
    import tempfile

    wanted = [dict(ref) for ref in refs if ref.get("kind") == "dump" or ref.get("sys_path")]
    if not wanted:
        return
    with tempfile.NamedTemporaryFile(prefix="agentlab-dump-") as file:
        file.write(dump or b"")
        file.flush()
        root = str(Path(__file__).resolve().parent.parent)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
        argv = [sys.executable, "-P", "-m", "agentlab.portable", file.name]
        done = subprocess.run(argv, input=json.dumps(wanted), capture_output=True, text=True, env=env, timeout=120, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise NotPortable(said[-1] if said else "the tools can not be loaded in a fresh process")


def _check_here() -> int:
    import json

    data = Path(sys.argv[1]).read_bytes()
    try:
        for ref in json.loads(sys.stdin.read()):
            load(ref, lambda digest: data)
    except NotPortable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


# --- whose code is it --------------------------------------------------------------------------------------------------


def state_folder() -> Path:
    """Where this user's key lives: ``AGENTLAB_STATE_DIR``, else ``~/.local/state/agentlab``."""
    given = os.environ.get("AGENTLAB_STATE_DIR")
    return Path(given) if given else Path.home() / ".local" / "state" / "agentlab"


def _owner_key() -> bytes:
    folder = state_folder()
    path = folder / "owner.key"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = folder / f"owner.{secrets.token_hex(8)}.tmp"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    try:
        os.link(fresh, path)  # whoever is first decides
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_bytes()


def sign(data: bytes) -> str:
    """This user's signature of ``data``."""
    return hmac.new(_owner_key(), data, hashlib.sha256).hexdigest()


def trusted(data: bytes, signature: str) -> bool:
    """Whether this user signed ``data``."""
    return hmac.compare_digest(sign(data), signature)


if __name__ == "__main__":
    # The module runs under its own name, so that an error class is the one that load() raises.
    from agentlab import portable

    sys.exit(portable._check_here())
