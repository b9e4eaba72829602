"""The contract of session logs, against every store and durability that the package has."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentlab.contracts.log import LogContract
from agentlab.log import MemoryStore, ParquetStore
from agentlab.ports import LogStore


class TestMemory(LogContract):
    @pytest.fixture
    def store(self) -> LogStore:
        return MemoryStore()


class TestParquet(LogContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LogStore:
        return ParquetStore(tmp_path / "lab")

    def other(self, store: LogStore) -> LogStore:
        assert isinstance(store, ParquetStore)
        return ParquetStore(store.lab)


class TestParquetGroup(TestParquet):
    durability = "group"


class TestParquetProcess(TestParquet):
    durability = "process"
