"""Columns that are not what they were: what has gone or changed, and structs that only have more fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headwater.schema.cast import conformed
from headwater.spark.frames import column

Difference = tuple[tuple[str, ...], DataType, "DataType | None"]
"""The names down to it, its type, and its type now: None if it has gone."""
Columns = Mapping[str, DataType]


def differences(was: DataType, now: DataType, path: tuple[str, ...] = ()) -> Iterator[Difference]:
    """What was there and is not there as it was, at any depth; what came is no difference."""
    if isinstance(was, StructType) and isinstance(now, StructType):
        named = str if path else str.lower  # fields are told apart by their case too
        have = {named(f.name): f.dataType for f in now.fields}
        for f in was.fields:
            found, here = have.get(named(f.name)), (*path, f.name)
            if found is None:
                yield here, f.dataType, None
            else:
                yield from differences(f.dataType, found, here)
    elif isinstance(was, ArrayType) and isinstance(now, ArrayType):
        yield from differences(was.elementType, now.elementType, path)
    elif isinstance(was, MapType) and isinstance(now, MapType) and was.keyType == now.keyType:
        yield from differences(was.valueType, now.valueType, path)
    elif was.simpleString() != now.simpleString():
        yield path, was, now


def grown(was: StructType, now: StructType) -> Columns:
    """The columns whose structs have got fields, and are the same but for these: with the type that they had."""
    have = {f.name.lower(): f.dataType for f in now.fields}
    return {
        f.name: f.dataType
        for f in was.fields
        if (found := have.get(f.name.lower())) is not None
        and found.simpleString() != f.dataType.simpleString()
        and next(differences(f.dataType, found), None) is None
    }


def without_later_fields(rows: DataFrame, to: Columns) -> DataFrame:
    """Rows without the fields that some of their columns got."""
    if not to:
        return rows
    known = {name.lower(): data_type for name, data_type in to.items()}
    return rows.select(
        *(
            conformed(column(f.name), f.dataType, known.get(f.name.lower(), f.dataType)).alias(f.name)
            for f in rows.schema.fields
        )
    )


def has_fields(schema: StructType | None) -> bool:
    """Whether a column has something in it that can grow."""
    return schema is not None and any(isinstance(f.dataType, (StructType, ArrayType, MapType)) for f in schema.fields)
