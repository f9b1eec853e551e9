"""Schemas of a plain Parquet table on Spark's side: what it takes, and what evolving makes of them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, TypeVar

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headwater.core.errors import Code, Problem, ProjectError
from headwater.core.spec import Layout
from headwater.formats.parquet.log import TableState

_FOLDABLE = (
    StringType,
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    DecimalType,
    DateType,
    TimestampType,
    TimestampNTZType,
)
"""Types whose every value (but the empty text) comes back from a folder's name as it went in."""

T = TypeVar("T", bound=DataType)


def schema_of(state: TableState) -> StructType:
    return StructType.fromJson(dict(state.schema))


def as_json(schema: StructType) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(schema.json())
    return found


def loosened(t: T) -> T:
    """Everything nullable: nothing in the files keeps a NULL out, so the schema does not promise it."""
    found: DataType = t
    if isinstance(t, StructType):
        found = StructType([StructField(f.name, loosened(f.dataType), True, f.metadata) for f in t.fields])
    elif isinstance(t, ArrayType):
        found = ArrayType(loosened(t.elementType), True)
    elif isinstance(t, MapType):
        found = MapType(loosened(t.keyType), loosened(t.valueType), True)
    return found  # type: ignore[return-value]


def evolved(old: T, new: DataType) -> T:
    """The old type with what the new one adds, in the new one's types; nothing is dropped."""
    found = new
    if isinstance(old, StructType) and isinstance(new, StructType):
        wanted = {f.name: f for f in new.fields}
        kept = [
            StructField(f.name, evolved(f.dataType, wanted[f.name].dataType), f.nullable, f.metadata)
            if f.name in wanted
            else f
            for f in old.fields
        ]
        found = StructType(kept + [f for f in new.fields if f.name not in old.names])
    elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
        found = ArrayType(evolved(old.elementType, new.elementType), old.containsNull)
    elif isinstance(old, MapType) and isinstance(new, MapType):
        found = MapType(evolved(old.keyType, new.keyType), evolved(old.valueType, new.valueType), old.valueContainsNull)
    return found  # type: ignore[return-value]


def check_schema(schema: StructType, layout: Layout) -> None:
    """Refuse, all at once, what Parquet files and folders can't hold exactly."""
    problems = [
        Problem(Code.SCHEMA_MISMATCH, f"two columns differ only in case: '{name}'", hint="rename one of them")
        for name, count in Counter(f.name.lower() for f in schema.fields).items()
        if count > 1
    ]
    for f in schema.fields:
        if isinstance(f.dataType, NullType):
            message = f"Parquet can't hold column '{f.name}' of type {f.dataType.simpleString()}"
            problems.append(Problem(Code.SCHEMA_MISMATCH, message, hint="cast it to another type"))
        elif f.name in layout.partition_by and not isinstance(f.dataType, _FOLDABLE):
            message = f"Parquet can't partition by '{f.name}': no folder is named after a {f.dataType.typeName()}"
            problems.append(Problem(Code.UNSUPPORTED, message, hint="partition by a text, number, date or time"))
    if schema.fields and set(schema.names) <= set(layout.partition_by):
        message = "partition_by names every column, and a Parquet file needs one of its own"
        problems.append(Problem(Code.UNSUPPORTED, message, hint="partition by fewer columns"))
    if problems:
        raise ProjectError(problems)
