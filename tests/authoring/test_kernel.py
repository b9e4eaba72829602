"""Tools, validators and a model that were defined in the cells of a real notebook kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlab.definition import Definition
from tests.kernels import start_kernel

from .running import DEFINE, Bench

CELLS = (
    "import agentlab as al, collections, json, os, threading\nimport nextdoor\n" + DEFINE,
    '''
LIMIT = 3

def helper(n):
    return n * LIMIT

@al.tool(effect="pure")
def with_helper(n: int) -> int:
    """Multiply."""
    return helper(n)
''',
    '''
def make(more):
    @al.tool(effect="pure", name="closure")
    def inner(n: int) -> int:
        return n + more
    return inner

closure = make(5)
shout = al.tool(lambda text: text.upper(), name="shout", effect="pure")

class Counter:
    def __init__(self, start):
        self.start, self.name = start, "a counter"

    def __call__(self, n: int) -> int:
        """Count on."""
        return self.start + n

counter = al.tool(Counter(10), effect="pure")

@al.tool(effect="pure")
def with_another_tool(n: int) -> list:
    return [with_helper(n), with_helper.name, counter(n)]

@al.tool(effect="pure")
def beside(n: int) -> int:
    return nextdoor.double(n)

double = al.tool(nextdoor.double, effect="pure")
ready_made = nextdoor.triple

@al.tool(effect="sandboxed")
def write(text: str) -> list:
    with open("out.txt", "w") as file:
        file.write(shout(text) + str(helper(1)))
    return sorted(os.listdir("."))

@al.tool
def send(to: str, idempotency_key: str) -> list:
    return [to, idempotency_key, al.effect_key()]

def sent(key):
    return "completed" if key == "key-1" else "unknown"

def is_written(path="out.txt"):
    return None if os.path.exists(path) else ["no out.txt"]

def policy(view):
    return al.call("with_helper", n=helper(2))
''',
)
TASK = """
task = al.Task("cells", "Do it.", model=policy, validator=is_written, tools=[
    with_helper, closure, shout, counter, with_another_tool, beside, double, ready_made, write,
    al.tool(send, verify=sent)])
define(task)
"""
NEXTDOOR = '''
import agentlab as al

def double(n: int) -> int:
    """Twice."""
    return 2 * n

@al.tool(effect="pure")
def triple(n: int) -> int:
    return 3 * n
'''


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Callable[[str], str], Bench]]:
    """``run(cell)`` gives what the cell printed, or its error's last line; and a bench over the same blobs."""
    folder = tmp_path_factory.mktemp("notebooks")
    (folder / "nextdoor.py").write_text(NEXTDOOR)
    bench = Bench(tmp_path_factory.mktemp("lab") / "bench")
    env = {**os.environ, "TEST_BLOBS": str(bench.blobs.root), "AGENTLAB_STATE_DIR": str(bench.folder / "state")}
    manager, client = start_kernel(cwd=str(folder), env=env)

    def run(cell: str) -> str:
        printed: list[str] = []

        def hook(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                printed.append(content["text"])

        reply = client.execute_interactive(cell, timeout=240, output_hook=hook)["content"]
        return "".join(printed) if reply["status"] == "ok" else f"{reply['ename']}: {reply['evalue']}"

    try:
        for cell in CELLS:
            assert run(cell) == ""
        yield run, bench
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        bench.close()


@pytest.fixture(scope="module")
def defined(kernel: tuple[Callable[[str], str], Bench]) -> Definition:
    run, bench = kernel
    definition, dump, signature = bench.take(run(TASK))
    assert dump is not None and signature is not None
    return definition


@pytest.mark.parametrize(
    ("tool", "arguments", "value"),
    [
        ("with_helper", {"n": 2}, 6),
        ("closure", {"n": 2}, 7),
        ("shout", {"text": "a"}, "A"),
        ("Counter", {"n": 2}, 12),
        ("with_another_tool", {"n": 2}, [6, "with_helper", 12]),
        ("beside", {"n": 2}, 4),
        ("double", {"n": 2}, 4),
        ("triple", {"n": 2}, 6),
        ("write", {"text": "b"}, ["out.txt"]),
        ("send", {"to": "x"}, ["x", "key-1", "key-1"]),
    ],
)
def test_each_tool_runs(
    kernel: tuple[Callable[[str], str], Bench], defined: Definition, tool: str, arguments: dict[str, Any], value: object
) -> None:
    outcome = kernel[1].run(defined, tool, **arguments)
    assert outcome.ok and outcome.value == value, f"{outcome.message}\n{outcome.traceback}"


def test_what_is_dotted_and_what_is_in_the_dump(defined: Definition) -> None:
    refs = {spec.name: spec.ref for spec in defined.tools if spec.ref is not None}
    kinds = {name: ref["kind"] for name, ref in refs.items()}
    assert kinds["double"] == kinds["triple"] == "dotted" and {*kinds.values()} == {"dotted", "dump"}
    assert refs["double"]["name"] == "nextdoor:double"
    assert len({ref["blob"] for ref in refs.values() if ref["kind"] == "dump"}) == 1


def test_verify_function_validator_and_model(
    kernel: tuple[Callable[[str], str], Bench], defined: Definition, tmp_path: Path
) -> None:
    bench, send = kernel[1], defined.tool("send")
    assert send is not None and send.verify is not None and send.effect == "external"
    assert bench.call(send.verify, "external", {"key": "key-1"}, role=".verify").value == "completed"
    assert defined.validator is not None and defined.validator.effect == "sandboxed"
    bench.run(defined, "write", text="c")
    assert bench.call(defined.validator.ref, "sandboxed", {}).value is None
    assert bench.read_file("out.txt") == b"C3"
    assert defined.model == "scripted:policy" and defined.model_ref is not None
    block = bench.ask(defined).content[0]
    assert (block["name"], block["input"]) == ("with_helper", {"n": 6})


def test_the_same_cells_give_the_same_source_digests(
    kernel: tuple[Callable[[str], str], Bench], defined: Definition
) -> None:
    again, _, _ = kernel[1].take(kernel[0](TASK))
    assert [ref["digest"] for ref in again.refs()] == [ref["digest"] for ref in defined.refs()]


def test_what_can_not_travel_fails_in_the_cell(kernel: tuple[Callable[[str], str], Bench]) -> None:
    run, _ = kernel
    said = run(
        "lock = threading.Lock()\n"
        "def locked(n: int):\n    with lock:\n        return n\n"
        "define(al.Task('cells', 'Do it.', model='claude-x', tools=[locked]))"
    )
    assert said.startswith("NotPortable: ") and "locked" in said and "'lock'" in said
    said = run(
        "def shell(n: int):\n    get_ipython().system('true')\n"
        "define(al.Task('cells', 'Do it.', model='claude-x', tools=[shell]))"
    )
    assert said.startswith("NotPortable: shell can not travel") and "global 'get_ipython'" in said


def test_a_cell_that_was_checked_is_not_checked_again(kernel: tuple[Callable[[str], str], Bench]) -> None:
    run, _ = kernel
    run(TASK)
    assert run("import subprocess\nkept, subprocess.run = subprocess.run, None") == ""
    again = run(TASK)  # nothing can be started, so no fresh process that could load it
    assert run("subprocess.run = kept") == "" and '"definition"' in again, again
