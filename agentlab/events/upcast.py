"""Rows of older versions lifted to the current one, step by step, when they are read.

Lifting happens after a row is verified against its hash, and never writes anything back. There is one version
so far; a second one adds an entry ``1: from_1_to_2`` to :data:`UPCASTERS` and nothing else here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentlab.errors import LogCorrupt, SchemaTooNew
from agentlab.events.event import EVENT_SCHEMA_VERSION

Row = Mapping[str, Any]
"""A row by column name, as stored."""
Upcaster = Callable[[Row], Row]
"""Turns a row of one version into a row of the next; it must not change its argument."""

UPCASTERS: Mapping[int, Upcaster] = {}
"""The step that leads away from each older version."""


def lift(row: Row, upcasters: Mapping[int, Upcaster] = UPCASTERS, current: int = EVENT_SCHEMA_VERSION) -> Row:
    """``row`` as version ``current`` would have written it.

    Raises:
        SchemaTooNew: the row is newer than ``current``.
        LogCorrupt: no such version ever existed, or the chain of steps has a gap.
    """
    version = row["schema_version"]
    if version > current:
        raise SchemaTooNew(
            f"event {row['seq']} of session {row['session_id']!r} has schema_version {version}; this agentlab reads up"
            f" to {current}: install the newer version that wrote it"
        )
    while version < current:
        step = upcasters.get(version)
        if step is None:
            raise LogCorrupt(f"event {row['seq']} has schema_version {version}, from which no upcaster leads on")
        version += 1
        row = {**step(row), "schema_version": version}
    return row
