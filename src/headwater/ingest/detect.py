"""The schema of JSON records, from the records."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from headwater.formats.base import Format
from headwater.formats.frames import can_widen

CORRUPT = "_headwater_corrupt"


def detect(lines: DataFrame, hints: StructType | None = None) -> StructType:
    """What Spark finds in a frame of JSON texts (one string column), with the hinted types put in.

    A field that is null in every record has no type yet, and no column.
    """
    spark = lines.sparkSession
    jvm: Any = spark._jvm
    texts = getattr(lines._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    reader = spark._jsparkSession.read().option("columnNameOfCorruptRecord", CORRUPT)
    found = reader.option("dropFieldIfAllNull", "true").json(texts).schema()
    schema = StructType.fromJson(json.loads(found.json()))
    return hinted(StructType([f for f in schema.fields if f.name != CORRUPT]), hints)


def hinted(schema: StructType, hints: StructType | None) -> StructType:
    """The schema with some columns' types as they were told."""
    if hints is None:
        return schema
    told = {f.name: f for f in hints.fields}
    return StructType([told.pop(f.name, f) for f in schema.fields] + list(told.values()))


def parse_hints(spark: SparkSession, ddl: str | None) -> StructType | None:
    """`amount decimal(12,2), at timestamp` as a schema."""
    if not ddl:
        return None
    parsed: Any = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl)  # type: ignore[union-attr]
    return StructType.fromJson(json.loads(parsed.json()))


def joined(known: StructType, found: StructType, format: Format) -> StructType:
    """What is known, with what is new in `found`; a type changes only where the format widens it in place."""
    new = {f.name: f for f in found.fields}
    fields = [
        StructField(f.name, _joined_type(f.dataType, new.pop(f.name).dataType, format)) if f.name in new else f
        for f in known.fields
    ]
    return StructType(fields + [StructField(f.name, f.dataType) for f in new.values()])


def _joined_type(known: DataType, found: DataType, format: Format) -> DataType:
    if isinstance(known, StructType) and isinstance(found, StructType):
        return joined(known, found, format)
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(_joined_type(known.elementType, found.elementType, format))
    return found if can_widen(format, known, found) else known
