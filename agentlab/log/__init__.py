"""The session log on disk and in memory, and the content-addressed blobs beside it."""

from agentlab.log.blobs import BlobFolder
from agentlab.log.memory import MemoryBlobs, MemoryLog, MemoryStore
from agentlab.log.parquet import ParquetLog
from agentlab.log.store import ParquetStore

__all__ = ["BlobFolder", "MemoryBlobs", "MemoryLog", "MemoryStore", "ParquetLog", "ParquetStore"]
