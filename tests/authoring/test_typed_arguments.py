"""Arguments become what a script's own types say, in a process that knows nothing of the script's names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .running import DEFINE, Bench

SCRIPT = (
    DEFINE
    + """
import agentlab as al
import dataclasses, datetime, enum, functools
from pathlib import Path

class Colour(enum.Enum):
    RED = "red"

@dataclasses.dataclass
class Item:
    colour: Colour
    day: datetime.date | None = None

def kinds(item, path, colours):
    return [type(v).__name__ for v in (item, item.colour, item.day, path, colours[0])]

@al.tool(effect="pure")
def plain(item: Item, path: Path, colours: list[Colour]) -> list:
    return kinds(item, path, colours)

@al.tool(effect="sandboxed")
def inside(item: Item, path: Path, colours: list[Colour]) -> list:
    return kinds(item, path, colours)

class Caller:
    def __call__(self, item: Item, path: Path, colours: list[Colour]) -> list:
        return kinds(item, path, colours)

    def method(self, item: Item, path: Path, colours: list[Colour]) -> list:
        return kinds(item, path, colours)

def wrapping(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper

tools = [plain, inside, al.tool(Caller(), name="caller"), al.tool(Caller().method), al.tool(name="wrapped")(
    wrapping(plain.__wrapped_tool__)), al.tool(functools.partial(plain.__wrapped_tool__, path=Path("p")), name="part")]
define(al.Task("typed", "Do it.", model="claude-x", tools=tools))
"""
)


@pytest.mark.parametrize("first_line", ["", "from __future__ import annotations\n"], ids=["types", "text"])
def test_types_of_a_script(first_line: str, bench: Bench, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(first_line + SCRIPT)
    env = {**os.environ, "TEST_BLOBS": str(bench.blobs.root)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env, timeout=240)
    assert done.returncode == 0, done.stderr
    definition, _, _ = bench.take(done.stdout)
    for tool in ("plain", "inside", "caller", "method", "wrapped", "part"):
        arguments = {"item": {"colour": "red", "day": "2024-05-01"}, "path": "a/b", "colours": ["red"]}
        outcome = bench.run(definition, tool, **arguments)
        assert outcome.ok, f"{tool}: {outcome.message}\n{outcome.traceback}"
        assert outcome.value == ["Item", "Colour", "date", "PosixPath", "Colour"], tool
