"""What can not travel is refused where it is defined, by the name of what is to blame; so is what is too large."""

from __future__ import annotations

import sqlite3
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentlab as al
from agentlab import portable
from agentlab.errors import NotPortable
from agentlab.portable import Dump, reference


def from_cell(source: str, **names: Any) -> dict[str, Any]:
    """The names of a cell that was run (not importable: the module has no file)."""
    module = types.ModuleType("__main__")
    module.__dict__.update(names)
    exec(compile(source, "<cell>", "exec"), module.__dict__)
    return module.__dict__


def refused(*callables: Any) -> str:
    dump = Dump()
    for fn in callables:
        reference(fn, dump)
    with pytest.raises(NotPortable) as caught:
        dump.finish()
    return str(caught.value)


def test_an_open_file_in_a_closure(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with open(tmp_path / "notes.txt") as notes:

        def read() -> str:
            return notes.read()

        said = refused(read)
    assert "read can not travel" in said and "closure variable 'notes'" in said and "open file" in said
    assert "by its path" in said


def test_a_lock_in_a_global() -> None:
    cell = from_cell("def guarded():\n    with lock:\n        return 1", lock=threading.Lock())
    said = refused(lambda: 1, cell["guarded"])
    assert (
        "guarded can not travel" in said
        and "global 'lock'" in said
        and "lock" in said
        and "inside the function" in said
    )


def test_a_lock_behind_a_helper() -> None:
    cell = from_cell(
        "def helper():\n    with lock:\n        return 1\ndef tool():\n    return helper()", lock=threading.Lock()
    )
    said = refused(cell["tool"])
    assert "tool can not travel" in said and "global 'helper' → global 'lock'" in said


def test_a_generator_as_a_default() -> None:
    numbers = (n for n in range(3))

    def following(start: Any = numbers) -> Any:
        return next(start)

    said = refused(following)
    assert "following can not travel" in said and "default of 'start'" in said and "generator" in said
    assert "use a list" in said

    def keyword(*, start: Any = numbers) -> Any:
        return next(start)

    assert "default of 'start'" in refused(keyword)


def test_a_connection_as_an_attribute() -> None:
    class Store:
        def __init__(self) -> None:
            self.connection = sqlite3.connect(":memory:")

        def __call__(self, key: str) -> Any:
            return self.connection.execute("select 1").fetchone()

    store = Store()
    try:
        said = refused(al.tool(store, name="store"))
        assert "Store can not travel" in said and "attribute 'connection'" in said and "sqlite3.Connection" in said
        assert "connect inside the function" in said
        assert "attribute 'connection'" in refused(al.tool(store.__call__, name="store"))
    finally:
        store.connection.close()


def test_the_advice_looks_at_what_the_culprit_belongs_to() -> None:
    class Client:
        def __init__(self) -> None:
            self.guard = threading.Lock()

    client = Client()
    said = refused(lambda: client)
    assert "closure variable 'client' → attribute 'guard' is a _thread.lock" in said
    assert said.endswith("connect inside the function")


def test_a_tool_object_that_holds_one() -> None:
    lock = threading.Lock()
    inner = al.tool(lambda: lock.locked(), name="inner")

    def outer() -> Any:
        return inner()

    said = refused(outer)
    assert "outer can not travel" in said and "closure variable 'inner'" in said and "closure variable 'lock'" in said


def test_the_culprit_is_named_by_define_and_nothing_is_written() -> None:
    lock = threading.Lock()
    written: list[bytes] = []

    def locked(n: int) -> bool:
        return lock.locked()

    def put(data: bytes) -> str:
        written.append(data)
        return "0" * 64

    with pytest.raises(NotPortable, match="locked can not travel to another process: its closure variable 'lock'"):
        al.Task("t", "Do it.", model="claude-x", tools=[locked], files={"a": b"x"}).define(put)
    assert written == []


def large(size: int) -> Callable[[], int]:
    cell = from_cell("def sized():\n    return len(TABLE) + len(SMALL)", TABLE=b"\0" * size, SMALL=b"\0" * 1000)
    sized: Callable[[], int] = cell["sized"]
    return sized


def test_more_than_a_megabyte_warns_with_the_name_of_the_global() -> None:
    dump = Dump()
    reference(large((1 << 20) + 1), dump)
    with pytest.warns(UserWarning, match=r"1\.\d MB .*global 'TABLE' of sized has 1\.0 MB") as caught:
        assert dump.finish() is not None
    assert caught[0].filename == __file__, "the line of the caller is shown, not one of agentlab's"
    dump = Dump()
    reference(large(1 << 19), dump)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dump.finish() is not None


def test_more_than_the_limit_is_refused_with_the_name_of_the_global(monkeypatch: pytest.MonkeyPatch) -> None:
    assert portable.MAX_BYTES == 64 << 20 and portable.WARN_BYTES == 1 << 20
    monkeypatch.setattr(portable, "MAX_BYTES", 2 << 20)
    said = refused(large((2 << 20) + 1))
    assert "more than 2 MiB" in said and "global 'TABLE' of sized" in said and "the task's files" in said
