"""The measuring functions run and say something plausible; the numbers themselves depend on the disk."""

from __future__ import annotations

from pathlib import Path

from agentlab.bench.append import append_at, append_ratio


def test_append_ratio(tmp_path: Path) -> None:
    numbers = append_ratio(tmp_path, rounds=20)
    assert set(numbers) == {"append_us", "bare_us", "ratio", "encode_us", "bytes"}
    assert min(numbers["encode_us"], numbers["append_us"], numbers["ratio"]) > 0 and numbers["bytes"] > 1000
    assert list(tmp_path.iterdir()) == []


def test_append_at(tmp_path: Path) -> None:
    times = append_at(tmp_path, (10, 200), rounds=15)
    assert set(times) == {10, 200} and min(times.values()) > 0
    assert list(tmp_path.iterdir()) == []
