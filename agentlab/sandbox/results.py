"""Results of executions, kept beside the workspace until the log has them. Standard library only."""

from __future__ import annotations

import hashlib
import os

from agentlab.sandbox.durable import write_durably
from agentlab.sandbox.running import to_bytes


def name_of(exec_id: str) -> str:
    """A file name for an execution id, whatever characters that has."""
    return hashlib.sha256(exec_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Results:
    """Durable before they are told, in the order in which they came to be."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._kept: dict[str, None] = {}
        self._unsaved: dict[str, bytes] = {}
        self.acknowledged: set[str] = set()

    def __contains__(self, exec_id: str) -> bool:
        return exec_id in self._kept

    def kept(self) -> list[str]:
        """Ids whose results wait to be taken."""
        return list(self._kept)

    def store(self, exec_id: str, result: dict[str, object]) -> None:
        """Keep a result. When the disk refuses, it stays in memory and :meth:`load` tries again."""
        self._kept[exec_id] = None
        self._unsaved[exec_id] = to_bytes(result)
        try:
            self._save(exec_id)
        except OSError:
            pass

    def _save(self, exec_id: str) -> None:
        write_durably(self._path(exec_id), self._unsaved[exec_id])
        del self._unsaved[exec_id]

    def load(self, exec_id: str) -> bytes:
        """A kept result as one line of JSON, durable by now.

        Raises:
            OSError: it can not be written (disk full), or was taken away.
        """
        if exec_id in self._unsaved:
            self._save(exec_id)
        with open(self._path(exec_id), "rb") as file:
            return file.read()

    def acknowledge(self, exec_id: str) -> None:
        """Forget a result that the log has; unknown ids are no error."""
        if exec_id not in self._kept:
            return
        del self._kept[exec_id]
        self._unsaved.pop(exec_id, None)
        self.acknowledged.add(exec_id)
        try:
            os.unlink(self._path(exec_id))
        except FileNotFoundError:
            pass

    def _path(self, exec_id: str) -> str:
        return os.path.join(self._folder, name_of(exec_id) + ".json")
