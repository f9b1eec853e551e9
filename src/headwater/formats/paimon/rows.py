"""Rows of a Paimon table: by Paimon's reader where it is exact, by Spark's own where it is not.

The Parquet reader of Paimon 0.9 gives NULL for a struct whose fields are all NULL, and stops at a NULL struct
that holds another one. What Paimon writes is right. So files with structs are read by Spark, which can be
done where rows need no merging; a table with keys keeps its structs in ORC files instead (`options.py`).
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from headwater.core.errors import Unsupported
from headwater.core.model import Version
from headwater.formats.paimon.nested import conformed
from headwater.formats.paimon.snapshots import PaimonSnapshot
from headwater.formats.paimon.store import PaimonFile, PaimonStore
from headwater.spark.frames import column

_AS_WRITTEN = {
    "__globPaths__": "false",  # the paths are files', whatever characters are in them
    "datetimeRebaseMode": "CORRECTED",  # Paimon writes the proleptic calendar and does not say so
}


def has_struct(data_type: DataType) -> bool:
    """Whether a struct lies in the type, at any depth; a table's schema is not one itself."""
    if isinstance(data_type, ArrayType):
        return _is_or_has_struct(data_type.elementType)
    if isinstance(data_type, MapType):
        return _is_or_has_struct(data_type.keyType) or _is_or_has_struct(data_type.valueType)
    return isinstance(data_type, StructType) and any(_is_or_has_struct(f.dataType) for f in data_type.fields)


def _is_or_has_struct(data_type: DataType) -> bool:
    return isinstance(data_type, StructType) or has_struct(data_type)


def structs_in_parquet(store: PaimonStore, java: Any) -> bool:
    """Whether Paimon's own reader can't be trusted with the table."""
    return dict(java.options()).get("file.format") == "parquet" and has_struct(store.schema_of(java))


def rows_at(store: PaimonStore, version: Version) -> DataFrame:
    """The rows of a version, in the schema of that version."""
    pinned = store.java().copy({"scan.snapshot-id": str(version)})
    if not structs_in_parquet(store, pinned):
        return store.frame(pinned)
    if list(pinned.primaryKeys()) or dict(pinned.options()).get("deletion-vectors.enabled") == "true":
        raise Unsupported(
            f"Apache Paimon 0.9 can't read structs exactly from the Parquet files of {store.location()}, "
            "whose rows must be merged",
            hint="write that table with `file.format: orc`",
        )
    return rows_of(store, store.files(version), pinned)


def latest_rows(store: PaimonStore, latest: PaimonSnapshot) -> DataFrame:
    """The rows of the latest snapshot, with the columns that the table has got since."""
    return evolved(store, rows_at(store, latest.id), latest.schema_id, store.java())


def evolved(store: PaimonStore, frame: DataFrame, schema_id: int, java: Any) -> DataFrame:
    """Rows of one schema of the table in the schema of the Java table. Paimon knows a column by its id."""
    if schema_id == java.schema().id():
        return frame
    names = {int(f.id()): str(f.name()) for f in java.schema().fields()}
    ids = {str(f.name()): int(f.id()) for f in java.schemaManager().schema(schema_id).fields()}
    known = [column(name).alias(names[ids[name]]) for name in frame.columns if ids[name] in names]
    return conformed(frame.select(*known), store.schema_of(java))


def rows_of(store: PaimonStore, files: list[PaimonFile], java: Any) -> DataFrame:
    """The rows of some files of a table without keys, in the schema of the Java table."""
    target = store.schema_of(java)
    parquet: dict[int, list[PaimonFile]] = {}
    others: list[PaimonFile] = []
    for file in files:
        if file.path.endswith(".parquet"):
            parquet.setdefault(file.schema_id, []).append(file)
        else:
            others.append(file)
    frames = [_parquet(store, group, schema_id, java) for schema_id, group in parquet.items()]
    if others:
        frames.append(store.frame_of_splits(others, java))
    if not frames:
        return store.spark.createDataFrame([], target)
    return reduce(DataFrame.unionByName, frames)


def _parquet(store: PaimonStore, files: list[PaimonFile], schema_id: int, java: Any) -> DataFrame:
    """Files that were written under one schema."""
    written = store.schema_of(java.copy(java.schemaManager().schema(schema_id)))
    schema = StructType([StructField(f.name, f.dataType) for f in written.fields])
    found = store.spark.read.schema(schema).options(**_AS_WRITTEN).parquet(*(f.path for f in files))
    return evolved(store, found, schema_id, java)
