"""What changed between two versions of a relation, without Spark: by its log of changes, or by both states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.core.errors import Unsupported
from headwater.core.model import WEIGHT, At, Kind, Version
from headwater.core.quotes import double_quoted
from headwater.operations.shown_columns import selected_columns, shown_rows
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.formats.native import NativeTable

MOST = 64 << 20
"""A difference that reads more bytes than this is Spark's to find."""


def native_difference(warehouse: Warehouse, kind: Kind, name: str, start: At | None, end: At | None) -> pa.Table | None:
    """Rows with the number of times that they came (+) or went (-) in all; None where Spark is to be asked."""
    lookup = warehouse.lookup(kind, name)
    native, record = lookup.native, warehouse.record(kind, name)
    shown = None if record is None else record.shown
    names = None if shown is None else selected_columns(shown)
    condition = "TRUE" if shown is None else shown_rows(shown)
    if native is None or condition is None or (names is None and shown is not None):
        return None
    try:
        last = native.version() if end is None else native.version_at(end)
        first = None if start is None else native.version_at(start)
        changes = None if last is None else _changes(native, first, last)
    except Unsupported:
        return None
    if changes is None:
        return None
    names = names or [one for one in changes.schema.names if one != WEIGHT]
    if not {*names} <= {*changes.schema.names} or any(_has_map(changes.schema.field(one).type) for one in names):
        return None
    return _net(changes, names, condition)


def summary_of(changes: pa.Table) -> dict[str, int]:
    """How many rows came and went."""
    import pyarrow.compute as pc

    weights = changes[WEIGHT]
    came = pc.sum(weights.filter(pc.greater(weights, 0))).as_py()
    went = pc.sum(weights.filter(pc.less(weights, 0))).as_py()
    return {"rows_added": came or 0, "rows_removed": -(went or 0)}


def _changes(native: NativeTable, first: Version | None, last: Version) -> pa.Table | None:
    if first is not None:
        found = native.changes(first, last, MOST)
        if found is not None:
            return found
    if sum(file.bytes for file in native.files()) > MOST:
        return None
    new = native.read(last).read_all()
    old = new.slice(0, 0) if first is None else native.read(first).read_all()
    return _together(old, new)


def _together(old: pa.Table, new: pa.Table) -> pa.Table | None:
    """Both states with their weights, by the later one's columns; None where they have other types."""
    import pyarrow as pa

    parts = []
    for rows, weight in ((old, -1), (new, 1)):
        columns = []
        for field in new.schema:
            if field.name not in rows.schema.names:
                columns.append(pa.nulls(rows.num_rows, field.type))
            elif rows.schema.field(field.name).type.equals(field.type):
                columns.append(rows[field.name])
            else:
                return None
        columns.append(pa.array([weight] * rows.num_rows, pa.int64()))
        parts.append(pa.table(columns, names=[*new.schema.names, WEIGHT]))
    return pa.concat_tables(parts)


def _net(changes: pa.Table, columns: Sequence[str], condition: str) -> pa.Table:
    """What came and went again is not there."""
    import duckdb

    names = [double_quoted(one) for one in columns]
    weight = f"CAST(sum({WEIGHT}) AS BIGINT)"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("changes", changes)
        query = (
            f"SELECT {', '.join([f'{weight} AS {WEIGHT}', *names])} FROM changes WHERE {condition} "
            f"GROUP BY {', '.join(names)} HAVING sum({WEIGHT}) <> 0"
        )
        return connection.sql(query).to_arrow_table()


def _has_map(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_map(kind.field(at).type) for at in range(kind.num_fields))
