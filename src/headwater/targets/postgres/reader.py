"""The rows of a table as Postgres gives them: COPY to CSV, read by Arrow, value by value in the source's types."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pv
from psycopg import sql

from headwater.targets.json_values import array_of_json

if TYPE_CHECKING:
    from psycopg import Connection

_PIECE = 8 << 20
_EPOCH = "(extract(epoch from {}) * 1000000)::bigint"


def read_table(connection: Connection[Any], source: sql.Composable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The columns of `schema` of a table (or what stands behind FROM)."""
    selected = sql.SQL(", ").join(_selected(field) for field in schema)
    statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)").format(selected, source)
    types = {str(at): _read_type(field.type) for at, field in enumerate(schema)}
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for piece in _pieces(copy):
            table = pv.read_csv(
                io.BytesIO(piece),
                read_options=pv.ReadOptions(column_names=list(types), block_size=len(piece) + 1),
                parse_options=pv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                convert_options=pv.ConvertOptions(
                    column_types=types,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    true_values=["t"],
                    false_values=["f"],
                ),
            )
            for batch in table.to_batches():
                arrays = [_value(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _pieces(copy: Any) -> Iterator[bytes]:
    """Whole rows: each of COPY's messages is one."""
    rows: list[bytes] = []
    size = 0
    for data in copy:
        rows.append(bytes(data))
        size += len(rows[-1])
        if size >= _PIECE:
            yield b"".join(rows)
            rows, size = [], 0
    if rows:
        yield b"".join(rows)


def _selected(field: pa.Field) -> sql.Composable:
    name = sql.Identifier(field.name)
    if pa.types.is_timestamp(field.type):
        return sql.SQL(_EPOCH).format(name)
    if pa.types.is_date(field.type):
        return sql.SQL("{} - DATE '1970-01-01'").format(name)
    if pa.types.is_binary(field.type):
        return sql.SQL("encode({}, 'hex')").format(name)
    return name


def _read_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_binary(kind) or pa.types.is_nested(kind):
        return pa.string()
    return kind


def _value(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_binary(kind):
        return pa.array([None if text is None else bytes.fromhex(text) for text in array.to_pylist()], kind)
    if pa.types.is_nested(kind):
        return array_of_json(array.to_pylist(), kind)
    return array if array.type == kind else array.cast(kind)
