"""Which callables go by name and which in the dump, and that both run in processes that know nothing of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agentlab as al
from agentlab import portable
from agentlab.errors import NotPortable
from agentlab.portable import Dump, check, dotted_name, load, reference

from . import outside
from .running import DEFINE, Bench

SCRIPT = (
    DEFINE
    + '''
import agentlab as al
import beside

SUFFIX = "!"

class Text:
    """What a tool makes."""
    def __init__(self, text):
        self.text = text + SUFFIX

class Base:
    def __call__(self, text: str) -> str:
        return text + "?"

class Asking(Base):
    __slots__ = ("mark",)
    def __init__(self, mark):
        self.mark = mark
    def __call__(self, text: str) -> str:
        return super().__call__(text) + self.mark

@al.tool(effect="pure")
def loud(text: str) -> str:
    return Text(text).text

def counted(function):
    import functools
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return [function(*args, **kwargs), beside.SIZE]
    return wrapped

@al.tool(effect="sandboxed")
@counted
def twice(text: str) -> str:
    return loud(text) + loud(text)

def recursive(n: int) -> int:
    return 1 if n < 2 else n * recursive(n - 1)

async def later(n: int) -> int:
    return n

if __name__ == "__main__":
    tools = [loud, twice, al.tool(Asking("."), name="ask", effect="pure"), al.tool(recursive, effect="pure"), later,
             al.tool(beside.Kept(3).add, name="add")]
    define(al.Task("script", "Do it.", model=lambda view: al.say(SUFFIX), tools=tools))
'''
)
BESIDE = """
SIZE = 7

class Kept:
    def __init__(self, more):
        self.more = more

    def add(self, n: int) -> int:
        return self.more + n
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "beside.py").write_text(BESIDE)
    (folder / "script.py").write_text(SCRIPT)
    return folder / "script.py"


def run(script: Path, bench: Bench) -> str:
    env = {**os.environ, "TEST_BLOBS": str(bench.blobs.root)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_script_defines(script: Path, bench: Bench) -> None:
    definition, dump, signature = bench.take(run(script, bench))
    assert dump is not None and signature is not None
    assert portable.trusted(bench.blobs.get(dump), signature)
    for tool, arguments, value in (
        ("loud", {"text": "a"}, "a!"),
        ("twice", {"text": "a"}, ["a!a!", 7]),
        ("ask", {"text": "a"}, "a?."),
        ("recursive", {"n": 4}, 24),
        ("later", {"n": 4}, 4),
        ("add", {"n": 4}, 7),
    ):
        outcome = bench.run(definition, tool, **arguments)
        assert outcome.ok and outcome.value == value, f"{tool}: {outcome.message}\n{outcome.traceback}"
    assert bench.ask(definition).content[0] == {"type": "text", "text": "!"}
    assert definition.model.startswith("scripted:")


def test_source_digests_are_equal_in_every_process(script: Path, bench: Bench) -> None:
    first, second = bench.take(run(script, bench))[0], bench.take(run(script, bench))[0]
    digests = [ref["digest"] for ref in first.refs()]
    assert digests == [ref["digest"] for ref in second.refs()] and len(set(digests)) == len(digests)
    script.write_text(SCRIPT.replace('SUFFIX = "!"', 'SUFFIX = "!!"'))
    changed = {
        t.name for t, u in zip(bench.take(run(script, bench))[0].tools, first.tools, strict=True) if t.ref != u.ref
    }
    assert {"loud", "twice"} <= changed
    assert dict(zip(("loud", "later"), (True, False), strict=True)) == {
        tool.name: tool.ref["digest"] not in digests
        for tool in bench.take(run(script, bench))[0].tools
        if tool.ref and tool.name in ("loud", "later")
    }


def test_an_importable_module(bench: Bench) -> None:
    tools = [
        outside.plain,
        outside.decorated,
        al.tool(outside.Group.inside, effect="sandboxed"),
        al.tool(outside.Group().bound, name="bound"),
        al.tool(outside.make(5), name="five"),
    ]
    task = al.Task("outside", "Do it.", tools=tools, model=outside.policy, validator=outside.plain)
    definition = bench.define(task)
    kinds = {t.name: t.ref["kind"] for t in definition.tools if t.ref is not None}
    assert kinds == {"plain": "dotted", "marked": "dotted", "inside": "dotted", "bound": "dump", "five": "dump"}
    values = {name: bench.run(definition, name, n=1).value for name in kinds}
    assert values == {"plain": 2, "marked": 3, "inside": 4, "bound": 5, "five": 6}
    assert definition.model == f"scripted:{outside.__name__}:policy"
    assert bench.ask(definition).content[0]["text"] == "from outside"


@al.tool(effect="pure")
def uses_tools(n: int) -> list[Any]:
    return [outside.decorated(n), outside.decorated.name]


def test_tool_objects_travel_as_globals(bench: Bench) -> None:
    one, two = uses_tools, outside.decorated

    @al.tool(effect="sandboxed")
    def combined(n: int) -> list[Any]:
        return [one(n), two(n), repr(two)]

    task = al.Task("tools", "Do it.", tools=[one, combined], model="claude-x")
    definition = bench.define(task)
    assert bench.run(definition, "uses_tools", n=1).value == [3, "marked"]
    outcome = bench.run(definition, "combined", n=1)
    assert outcome.value == [[3, "marked"], 3, "Tool('marked', effect='pure')"], outcome.message


def test_equal_callables_share_one_place_and_equal_names_do_not() -> None:
    dump = Dump()
    first, second = outside.make(1), outside.make(2)
    refs = [reference(fn, dump) for fn in (first, second, first)]
    assert [ref["name"] for ref in refs] == ["inner", "inner_2", "inner"]
    data = dump.finish()
    assert data is not None and len({ref["blob"] for ref in refs}) == 1
    assert [load(ref, lambda digest: data)(1) for ref in refs] == [2, 3, 2]
    assert refs[0]["digest"] != refs[1]["digest"], "closures over other values are other tools"


def test_nothing_in_the_dump_is_no_dump(bench: Bench) -> None:
    definition, dump, signature = al.Task("t", "Do it.", tools=[outside.plain], model="claude-x").define(
        bench.blobs.put
    )
    assert (dump, signature) == (None, None) and definition.tools[0].ref is not None


def test_names_that_lead_elsewhere_are_no_dotted_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dotted_name(outside.plain) == f"{outside.__name__}:plain"
    assert dotted_name(outside.decorated.__wrapped_tool__) == f"{outside.__name__}:decorated"
    assert dotted_name(outside.make(1)) is None and dotted_name(lambda: 0) is None and dotted_name(3) is None
    old = outside.plain
    monkeypatch.setattr(outside, "plain", outside.make(1))
    assert dotted_name(old) is None and dotted_name(outside.plain) is None


def test_another_python_is_refused_before_anything_is_unpickled() -> None:
    ref = {"kind": "dump", "name": "work", "blob": "b" * 64, "digest": "", "python": "2.7"}

    def never(digest: str) -> bytes:
        raise AssertionError("the dump was read")

    with pytest.raises(NotPortable, match=r"work was pickled by Python 2\.7; this is 3\.\d+: .*module"):
        load(ref, never)
    forged = b"agentlab-dump python=3.7\ncos\nsystem\n(S'exit 1'\ntR."
    with pytest.raises(NotPortable, match=r"Python 3\.7"):
        load({**ref, "python": portable.PYTHON, "blob": "c" * 64}, lambda digest: forged)
    with pytest.raises(NotPortable, match="no dump"):
        load({**ref, "python": portable.PYTHON, "blob": "d" * 64}, lambda digest: b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(NotPortable, match="kind 'url'"):
        load({"kind": "url", "name": "x"}, never)


def test_what_can_not_be_found_is_named() -> None:
    with pytest.raises(NotPortable, match="nowhere:f can not be imported"):
        load({"kind": "dotted", "name": "nowhere:f"}, lambda digest: b"")
    with pytest.raises(NotPortable, match="outside:gone"):
        load({"kind": "dotted", "name": f"{outside.__name__}:gone"}, lambda digest: b"")


def test_a_changed_source_is_seen_without_importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "changing_tools.py"
    file.write_text("def work(n):\n    return n\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import changing_tools  # type: ignore[import-not-found]

    ref = reference(changing_tools.work, Dump())
    assert not portable.source_changed(ref)
    monkeypatch.delitem(sys.modules, "changing_tools")
    file.write_text("raise SystemExit\n")
    assert portable.source_changed(ref) and "changing_tools" not in sys.modules
    file.unlink()
    assert portable.source_changed(ref)


def test_what_a_fresh_process_can_not_load_fails_here(tmp_path: Path) -> None:
    class Stubborn:
        def __reduce__(self) -> Any:
            return os.path.getsize, ("/nowhere/at/all",)

    stubborn = Stubborn()
    dump = Dump()
    ref = reference(lambda: stubborn, dump)
    with pytest.raises(NotPortable, match="can not be unpickled in another process: FileNotFoundError"):
        check([ref], dump.finish())
    (tmp_path / "only_once.py").write_text("import sys\nif 'seen' in sys.argv: pass\nraise ValueError('not twice')\n")
    dotted = {"kind": "dotted", "name": "only_once:f", "digest": "", "sys_path": [str(tmp_path)]}
    with pytest.raises(NotPortable, match="only_once:f .*ValueError: not twice"):
        check([dotted], None)


def test_what_a_check_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh interpreter once per definition; nothing for agentlab's own tools, and nothing the second time."""
    runs: list[Any] = []
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *args, **rest: (runs.append(args), real(*args, **rest))[1])
    dump = Dump()
    ref = reference(lambda n: n, dump)
    data = dump.finish()
    check([ref], data)
    check([ref], data)
    assert len(runs) == 1
    check([reference(al.Task.define, Dump())], None)
    assert len(runs) == 1


def test_a_script_in_a_check_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(portable, "CHECK_S", 0.5)
    with pytest.raises(NotPortable, match="takes more than 0.5 s"):
        check([{"kind": "dotted", "name": "slow_module:f", "digest": "", "sys_path": [str(tmp_path)]}], None)
