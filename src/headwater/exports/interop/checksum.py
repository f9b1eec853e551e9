"""Whether two readers see the same rows: a count and a checksum that the order of rows does not change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from headwater.core.errors import Code, IntegrityError
from headwater.core.quotes import double_quoted
from headwater.schema.arrow import conformed, spark_type

_NO_COLUMNS = "0"


@dataclass(frozen=True)
class RowSum:
    """How many rows there are, and their checksum."""

    rows: int
    checksum: str


def plain(schema: pa.Schema) -> pa.Schema:
    """The columns' names and types alone."""
    return pa.schema([pa.field(one.name, _plain(one.type)) for one in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return spark_type(kind)


def measure(rows: pa.RecordBatchReader, schema: pa.Schema, *, exact: bool = True) -> RowSum:
    """Sum up rows under the types of `schema`; where `exact`, other columns and types are an error."""
    import duckdb

    wanted = plain(schema)
    if exact:
        _require_columns(rows.schema, wanted)
    batches = pa.RecordBatchReader.from_batches(wanted, _fitted(rows, wanted))
    hashed = ", ".join(double_quoted(name) for name in wanted.names) or _NO_COLUMNS
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.register("rows_seen", batches)
        try:
            found = connection.execute(f"SELECT count(*), sum(hash({hashed})::HUGEINT) FROM rows_seen").fetchone()
        except duckdb.Error as error:
            why = str(error).strip().splitlines()[0][:300]
            raise IntegrityError(Code.READ_BACK_DIFFERS, f"the rows could not be read back: {why}") from error
    assert found is not None
    return RowSum(int(found[0]), f"{int(found[1] or 0) % 2**128:032x}")


def _fitted(rows: pa.RecordBatchReader, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        try:
            arrays = [conformed(batch.column(batch.schema.get_field_index(one.name)), one.type) for one in wanted]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise IntegrityError(Code.READ_BACK_DIFFERS, f"a value has another type than in the source: {error}") from (
                error
            )
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _require_columns(seen: pa.Schema, wanted: pa.Schema) -> None:
    if sorted(seen.names) != sorted(wanted.names):
        raise IntegrityError(
            Code.READ_BACK_DIFFERS,
            f"the columns read back are {', '.join(seen.names)}, and those of the source {', '.join(wanted.names)}",
        )
    for one in wanted:
        found = _plain(seen.field(one.name).type)
        if not _holds(found, one.type):
            raise IntegrityError(
                Code.READ_BACK_DIFFERS,
                f"column '{one.name}' is read back as {found}, and is {one.type} in the source",
            )


def _holds(seen: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the types are the same, but for whole numbers that a format has no narrow types for."""
    if pa.types.is_struct(wanted) and pa.types.is_struct(seen):
        inner = {one.name: one.type for one in seen}
        return {one.name for one in wanted} == inner.keys() and all(_holds(inner[one.name], one.type) for one in wanted)
    if pa.types.is_list(wanted) and pa.types.is_list(seen):
        return _holds(seen.value_type, wanted.value_type)
    if pa.types.is_map(wanted) and pa.types.is_map(seen):
        return _holds(seen.key_type, wanted.key_type) and _holds(seen.item_type, wanted.item_type)
    if pa.types.is_signed_integer(wanted) and pa.types.is_signed_integer(seen):
        return bool(seen == wanted or (wanted.bit_width < 32 and seen.bit_width == 32))
    return bool(seen == wanted)
