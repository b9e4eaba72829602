"""The parts of tool hosts that need no process, and what a tool host may import."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from agentlab.calling import during, effect_key, task_params
from agentlab.crashpoints import SimulatedDeath
from agentlab.ports import ToolInvocation
from agentlab.toolhost.capture import HeadTail
from agentlab.toolhost.inprocess import InProcessToolHost


@pytest.mark.parametrize("module", ["inside", "child", "outcome", "client"])
def test_start_up_is_light(module: str) -> None:
    code = f"import sys, agentlab.toolhost.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyarrow", "pandas", "numpy", "duckdb", "anthropic", "cloudpickle", "asyncio", "IPython"} & set(loaded)


def test_calls_may_be_nested() -> None:
    with during("outer", {"a": 1}):
        with during(None, {}):
            assert (effect_key(), dict(task_params())) == (None, {})
        assert (effect_key(), dict(task_params())) == ("outer", {"a": 1})
        with pytest.raises(TypeError):
            task_params()["a"] = 2  # type: ignore[index]
    assert effect_key() is None and not task_params()


def test_simulated_deaths_are_no_outcome() -> None:
    def die() -> None:
        raise SimulatedDeath

    with pytest.raises(SimulatedDeath):
        InProcessToolHost(lambda ref: die).call(ToolInvocation("c1.1", {}, {}))


def test_time_stands_still_in_a_simulation() -> None:
    def call(**clock: Any) -> float:
        return InProcessToolHost(lambda ref: int, **clock).call(ToolInvocation("c1.1", {}, {})).duration_ms

    ticks = iter([1.0, 1.5])
    assert call() == 0.0 and call(monotonic=lambda: next(ticks)) == 500.0


@pytest.mark.parametrize(
    "pieces", [[b"ab", b"cdef"], [b"abcdefghij"], [b"abcdefghijk"], [b"abc"] * 100, [b"x" * 9] * 9]
)
def test_beginning_and_end_are_kept(pieces: list[bytes]) -> None:
    kept, whole = HeadTail(10), b"".join(pieces).decode()
    for piece in pieces:
        kept.add(piece)
    if len(whole) <= 10:
        assert kept.text() == whole
    else:
        assert kept.text() == f"{whole[:5]}\n[... {len(whole) - 10} bytes left out ...]\n{whole[-5:]}"


def test_a_cut_leaves_no_half_characters() -> None:
    kept = HeadTail(10)
    kept.add("üüüüüüüüüü".encode())
    assert kept.text() == "üü\n[... 10 bytes left out ...]\nüü"
