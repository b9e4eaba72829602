"""Where a lab keeps its pool: ``<lab>/pools/<encoded name>``, the same kind of folder as a session's."""

from __future__ import annotations

import os
from pathlib import Path

from agentlab.clock import Clock
from agentlab.errors import UserError
from agentlab.ids import Ids
from agentlab.log.store import ParquetStore
from agentlab.pool.journal import Journal

FOLDER = "pools"
NAME = "lab"
"""The one pool that all sessions of a lab share."""


class PoolFolder:
    """The pool of the lab at ``lab``. Creates nothing until :meth:`made` is asked for."""

    def __init__(self, lab: str | os.PathLike[str], clock: Clock, ids: Ids) -> None:
        self._store = ParquetStore(lab, folder=FOLDER)
        self._place = Path(self._store.folder(NAME))
        self._clock, self._ids = clock, ids
        self._journal: Journal | None = None

    def journal(self) -> Journal | None:
        """The pool's journal; None while the lab sets no limits. Costs one look at the folder then."""
        if not self._place.is_dir():
            self._journal = None
        elif self._journal is None:
            self._journal = Journal(self._store.open(NAME), self._clock, self._ids)
        return self._journal

    def made(self) -> Journal:
        """The pool's journal, made if there is none.

        Raises:
            BadLab, StorageFailed: the lab can not take it.
        """
        found = self.journal()
        if found is None:
            try:
                self._store.create(NAME)
            except UserError:
                if not self._place.is_dir():  # else somebody else made it at the same moment
                    raise
            found = self.journal()
            assert found is not None
        return found
