"""Of which columns the least and the greatest value is kept for each file of a Delta table.

By default that is the first 32 of them, nested ones counted. A column that files are passed over by may come later.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import (
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headwater.core.quotes import backticked
from headwater.core.spec import Layout

FIRST = 32
COLUMNS = "delta.dataSkippingStatsColumns"
_NUMBER = "delta.dataSkippingNumIndexedCols"
_ORDERED = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
"""Types that have bounds: Delta refuses others by name."""


def bounds(schema: StructType, layout: Layout) -> dict[str, str]:
    """The property that keeps the bounds of what the layout looks rows up by; nothing where the default does."""
    leaves = list(_leaves(schema))
    early = dict(leaves[:FIRST])
    looked_up = {backticked(name) for name in (*layout.keys, *layout.z_order_by, *layout.looked_up_by)}
    late = {path: kind for path, kind in leaves[FIRST:] if path in looked_up}
    if not late or layout.options.keys() & {COLUMNS, _NUMBER}:
        return {}
    parts = {backticked(name) for name in layout.partition_by}
    named = [path for path, kind in {**early, **late}.items() if isinstance(kind, _ORDERED) and path not in parts]
    return {COLUMNS: ",".join(named)}


def _leaves(schema: StructType, above: str = "") -> Iterator[tuple[str, DataType]]:
    for field in schema.fields:
        path = above + backticked(field.name)
        if isinstance(field.dataType, StructType):
            yield from _leaves(field.dataType, path + ".")
        else:
            yield path, field.dataType
