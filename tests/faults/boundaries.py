"""Finds every call in the product that writes, syncs, links, sends, spawns or kills, and whether a crash point stands by it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "agentlab"
NAMES = {
    # files
    "write_text", "write_bytes", "fsync", "link", "symlink", "unlink", "rename", "replace", "rename_folder", "mkdir", "makedirs",
    "rmtree", "fsync_folder", "touch", "truncate", "ftruncate",
    # sockets, services
    "send", "sendall", "urlopen", "sendmail", "send_message",
    # processes
    "Popen", "fork", "spawn", "kill", "killpg", "send_signal", "kill_sandbox", "stop_sandbox", "kill_tree",
}  # fmt: skip
PLAIN = {"os.write", "subprocess.run", "subprocess.call", "os.execv", "os.posix_spawn"}
STRING_METHODS = {"replace"}
"""Names that texts and frozen records have as well: they count only on a module or a path."""


@dataclass(frozen=True)
class Boundary:
    """A call of the product: in which module and function, what it calls, and the crash points beside it."""

    module: str
    function: str
    line: int
    call: str
    points: tuple[str, ...]

    @property
    def place(self) -> str:
        return f"{self.module}:{self.function}"


def boundaries() -> Iterator[Boundary]:
    """Every boundary in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        yield from _in(ast.parse(path.read_text()), module, ())


def _in(node: ast.AST, module: str, within: tuple[ast.AST, ...]) -> Iterator[Boundary]:
    for child in ast.iter_child_nodes(node):
        inner = within
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = (*within, child)
        if isinstance(child, ast.Call) and (call := _boundary(child)):
            functions = [n for n in inner if not isinstance(n, ast.ClassDef)]
            name = ".".join(n.name for n in inner) or "module"
            yield Boundary(module, name, child.lineno, call, _points(functions[-1]) if functions else ())
        yield from _in(child, module, inner)


def _boundary(call: ast.Call) -> str:
    text = ast.unparse(call.func)
    last = text.rpartition(".")[2]
    if text in PLAIN:
        return text
    if last == "open" and _mode(call) & set("wax+"):
        return f"{text}({_mode_text(call)!r})"
    if last not in NAMES or "." not in text and last in STRING_METHODS:
        return ""
    if last in STRING_METHODS and not text.startswith(("os.", "disk.", "self.disk.", "self._disk.")):
        return f"{text}" if _one_argument(call) else ""
    return text


def _one_argument(call: ast.Call) -> bool:
    # path.replace(target) has one argument, text.replace(old, new) two, and replace(record, field=…) keywords.
    return len(call.args) == 1 and not call.keywords


def _mode_text(call: ast.Call) -> str:
    given = [k.value for k in call.keywords if k.arg == "mode"] or call.args[1:2]
    return given[0].value if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str) else "r"


def _mode(call: ast.Call) -> set[str]:
    return set(_mode_text(call))


def _points(function: ast.AST) -> tuple[str, ...]:
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("reach", "_reach"):
            found.append(ast.unparse(node.args[0]))
    return tuple(dict.fromkeys(found))
