"""Arrow tables as data frames with pinned types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agentlab.query.views import View

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def schema_of(view: View) -> pa.Schema:
    """The Arrow schema of a view: large_string, int64, float64, bool, timestamp[us, UTC]."""
    import pyarrow as pa

    types = {
        "text": pa.large_string(),
        "json": pa.large_string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in view.columns])


def cast(table: pa.Table, view: View) -> pa.Table:
    """``table`` with exactly the columns and types of ``view``."""
    schema = schema_of(view)
    return table.select(schema.names).cast(schema)


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """``table`` as a data frame whose types do not depend on what the cells hold.

    Text is ``string``, integers are ``Int64``, truth is ``boolean``, floats ``float64``, times ``datetime64[us, UTC]``;
    a missing float is NaN, a missing time NaT, everything else that is missing is ``pd.NA``.
    """
    import pandas as pd
    import pyarrow as pa

    def dtype(arrow_type: Any) -> Any:
        if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
            return pd.StringDtype()
        if pa.types.is_integer(arrow_type):
            return pd.Int64Dtype()
        if pa.types.is_boolean(arrow_type):
            return pd.BooleanDtype()
        return None

    # sum() of integers is HUGEINT, which Arrow carries as a decimal: a float is what a reader expects of it.
    fields = [pa.field(f.name, pa.float64() if pa.types.is_decimal(f.type) else _signed(f.type)) for f in table.schema]
    frame: pd.DataFrame = table.cast(pa.schema(fields)).to_pandas(types_mapper=dtype)
    return frame


def _signed(arrow_type: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_integer(arrow_type) and arrow_type != pa.uint64():
        return pa.int64()
    if pa.types.is_float32(arrow_type):
        return pa.float64()
    return arrow_type


def columns_frame(views: Iterable[View]) -> pd.DataFrame:
    """The columns of ``views``, one row each: view, column, type, meaning (all ``string``)."""
    import pandas as pd

    rows = [(view.name, column.name, column.type, column.meaning) for view in views for column in view.columns]
    return pd.DataFrame(rows, columns=["view", "column", "type", "meaning"]).astype(pd.StringDtype())
