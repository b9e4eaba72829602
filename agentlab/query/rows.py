"""Events as an Arrow table, for the few that DuckDB can not read from their file.

A lone surrogate can not be said in UTF-8: the codec then writes the whole column as JSON text, and a query sees the
text with a backslash escape (``\\udcff``) in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentlab.events import Event, readable
from agentlab.events.codec import COLUMNS, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_rows(events: Sequence[Event]) -> pa.Table:
    """The rows of ``events`` with the columns and types of a segment."""
    import pyarrow as pa

    schema = arrow_schema()
    arrays = [
        pa.array([_value(event, column.name) for event in events], schema.field(column.name).type) for column in COLUMNS
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _value(event: Event, name: str) -> Any:
    if name == "payload":
        return event.payload_text
    if name == "error":
        return event.error_text
    if name == "cost_usd":
        return None if event.cost_microusd is None else event.cost_microusd / 1e6
    value = getattr(event, name)
    return readable(value) if isinstance(value, str) else value
