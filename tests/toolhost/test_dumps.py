"""Functions that were defined in a cell, by way of a dump: in the tool host and in a sandbox."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from agentlab.clock import SystemClock
from agentlab.log.blobs import BlobFolder
from agentlab.portable import Dump
from agentlab.ports import Resources, ToolInvocation
from agentlab.sandbox import DirectSpawner, LocalSandboxes
from agentlab.toolhost.client import ProcessToolHost
from agentlab.toolhost.outcome import execution_for, result_of

CELL = """
import collections
calls = []

class Wrong(Exception):
    pass

def count(words):
    calls.append(1)
    print("counting")
    return [dict(collections.Counter(words)), len(calls)]

async def wrong():
    raise Wrong("in a cell")
"""


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of a notebook's cell."""
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(compile(CELL, "<cell 1>", "exec"), main.__dict__)
    return main.__dict__


def test_in_the_tool_host_and_in_a_sandbox(cell: dict[str, Any], tmp_path: Path) -> None:
    blobs, dump = BlobFolder(tmp_path / "blobs"), Dump()
    count, wrong = dump.add(cell["count"]), dump.add(cell["wrong"])
    data = dump.finish()
    assert data is not None
    digest = blobs.put(data)
    assert count["blob"] == wrong["blob"] == digest
    asked = ToolInvocation("c1.1", count, {"words": ["a", "b", "a"]})

    host = ProcessToolHost(blobs.root)
    try:
        assert [host.call(asked).value for _ in range(2)] == [[{"a": 2, "b": 1}, 1], [{"a": 2, "b": 1}, 2]]
        failed = host.call(ToolInvocation("c1.2", wrong, {}))
        assert (failed.kind, failed.error_type, failed.message) == ("raised", "Wrong", "in a cell")
        assert failed.traceback is not None and "in wrong" in failed.traceback and "asyncio" not in failed.traceback
    finally:
        host.close()

    spawner = DirectSpawner()
    sandbox = LocalSandboxes(tmp_path, blobs.root, spawner, SystemClock()).provision("s", 1, Resources(timeout_s=120.0))
    try:
        sandbox.confirm()
        outcome = result_of(sandbox.execute("e1", execution_for(asked, digest)))
        assert (outcome.value, outcome.stdout) == ([{"a": 2, "b": 1}, 1], "counting\n"), outcome.message
    finally:
        sandbox.destroy()
        spawner.close()
