"""What a query gives, as Arrow holds it: types that Arrow lacks are refused by name, or read as what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructField, StructType

from headwater.core.errors import Unsupported
from headwater.core.model import Row
from headwater.query.result import printable_rows
from headwater.schema.arrow import as_spark, conformed
from headwater.spark.arrow_types import arrow_schema_of
from headwater.spark.internals import arrow_batches, java_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ArrowOutput:
    """The columns of a query in Arrow: as Spark sends them, and as they are handed out."""

    sent: pa.Schema
    schema: pa.Schema

    @staticmethod
    def of(df: DataFrame) -> ArrowOutput:
        """Raise UNSUPPORTED for a column that no result holds."""
        for field in json.loads(java_frame(df).schema().json())["fields"]:  # pyspark itself can't read every type
            for name in _plain_types(field["type"]):
                if name == "interval" or (name.startswith("interval") and ("month" in name or "year" in name)):
                    raise Unsupported(
                        f"column '{field['name']}' holds intervals of months, which a result can't",
                        hint="read it as text: cast(… AS string)",
                    )
        sent = arrow_schema_of(_struct(df.schema, sent=True))
        final = arrow_schema_of(_struct(df.schema, sent=False))
        return ArrowOutput(sent, as_spark(final.empty_table().to_reader()).schema)

    def read(self, message: bytes) -> pa.RecordBatch:
        """A batch as Spark has sent it."""
        batch = pa.ipc.read_record_batch(pa.py_buffer(message), self.sent)
        arrays = [conformed(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema) if arrays else batch


def collect_printable(df: DataFrame) -> list[Row]:
    """All rows of a small frame, for output: pyspark's own way fails over values that Python has none for."""
    output = ArrowOutput.of(df)
    return [row for message in arrow_batches(df).toLocalIterator() for row in printable_rows(output.read(message))]


def _plain_types(written: Any) -> Iterator[str]:
    """The types without parts in one of Spark's types, by their names in JSON."""
    waiting = [written]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif "fields" in one:
            waiting.extend(field["type"] for field in one["fields"])
        else:
            waiting.extend(one[key] for key in ("elementType", "keyType", "valueType") if key in one)


def _struct(struct: StructType, *, sent: bool) -> StructType:
    return StructType([StructField(f.name, _type(f.dataType, sent), True) for f in struct.fields])


def _type(kind: DataType, sent: bool) -> DataType:
    """The type with room for NULL everywhere: `array()` is one of nothing but NULL, which has to have it.

    `map()` has keys of that type, which Arrow has no map of. It is sent as the list of its entries, of which there are
    none, and is handed out as a map with texts for keys.
    """
    if isinstance(kind, StructType):
        return _struct(kind, sent=sent)
    if isinstance(kind, ArrayType):
        return ArrayType(_type(kind.elementType, sent), True)
    if isinstance(kind, MapType):
        value = _type(kind.valueType, sent)
        if not isinstance(kind.keyType, NullType):
            return MapType(_type(kind.keyType, sent), value, True)
        entry = StructType([StructField("key", NullType(), True), StructField("value", value, True)])
        return ArrayType(entry, True) if sent else MapType(StringType(), value, True)
    return kind
