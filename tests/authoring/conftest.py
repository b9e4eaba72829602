"""A state folder of its own for every test (no test signs with the key of who runs it), and a bench when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .running import Bench


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's key is made; not there yet."""
    folder = tmp_path / "state"
    monkeypatch.setenv("AGENTLAB_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "bench")
    yield bench
    bench.close()
