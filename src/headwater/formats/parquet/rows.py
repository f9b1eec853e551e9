"""Rows of listed files, in the table's schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.core.storage import Files
from headwater.formats.parquet.log import Schema, TableLogFile, TableState
from headwater.spark.frames import column

_OPTIONS = {
    "timeZone": "UTC",  # of partition folders named after timestamps
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}


def read_files(
    spark: SparkSession, files: Files, state: TableState, chosen: Iterable[TableLogFile], folder: str = ""
) -> DataFrame:
    """The rows of the chosen files, whose paths go from `folder`, with the schema of the state.

    Spark's Parquet reader can't widen a type while it reads, so that files are read in the types that they
    were written in, and the rows are cast.
    """
    schema = StructType.fromJson(dict(state.schema))
    generations: dict[int, list[TableLogFile]] = defaultdict(list)
    for file in chosen:
        generations[file.generation].append(file)
    parts = []
    for generation, members in sorted(generations.items()):
        written = StructType.fromJson(narrowed(state.schema, state.generations[generation]))
        reader = spark.read.schema(written).options(basePath=files.spark_uri(folder), **_OPTIONS)
        paths = [files.spark_pattern(f"{folder}/{file.path}" if folder else file.path) for file in members]
        parts.append(reader.parquet(*paths).select(*(column(f.name).cast(f.dataType) for f in schema.fields)))
    if not parts:
        return spark.createDataFrame([], schema)
    return reduce(DataFrame.union, parts).select(*(column(name) for name in schema.names))


def narrowed(schema: Schema, generation: Schema) -> dict[str, Any]:
    """The schema's columns, in the types that they had in a generation; those it lacks as they are."""
    return {**schema, "fields": [_field(f, generation["fields"]) for f in schema["fields"]]}


def _field(field: Schema, known: list[Schema]) -> dict[str, Any]:
    older = next((f for f in known if f["name"] == field["name"]), None)
    return dict(field) if older is None else {**field, "type": _type(field["type"], older["type"])}


def _type(new: Any, old: Any) -> Any:
    if not isinstance(new, dict) or not isinstance(old, dict):
        return old
    if new["type"] == "struct":
        return narrowed(new, old)
    if new["type"] == "array":
        return {**new, "elementType": _type(new["elementType"], old["elementType"])}
    if new["type"] == "map":
        pairs = {key: _type(new[key], old[key]) for key in ("keyType", "valueType")}
        return {**new, **pairs}
    return old
