"""Signed changes between two snapshots: the append scan, the change scan, or the difference of two states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.core.errors import Unsupported
from headwater.core.model import WEIGHT, Version
from headwater.formats.iceberg.metadata import Metadata
from headwater.schema.types import has_map
from headwater.spark.frames import column, diff, signed

if TYPE_CHECKING:
    from headwater.formats.iceberg.spark import IcebergTable


def changes(table: IcebergTable, metadata: Metadata, start: Version | None, end: Version) -> DataFrame:
    """The rows that came and went in (start, end], in the schema of `end`. Both must be readable."""
    if start is None:
        return signed(table.at(metadata, end), 1)
    if start == end:
        return signed(table.at(metadata, end), 1).where(F.lit(False))
    columns = _columns_now(metadata, end)
    if columns is None:  # columns were renamed, dropped or changed inside since
        _refuse_renames(table, metadata, start, end)
        new = table.at(metadata, end)
        return diff(_shaped(table.at(metadata, start), new), new)
    path = metadata.between(start, end)
    if path is not None and all(snapshot.operation in ("append", "replace") for snapshot in path):
        found = signed(table.scan({"start-snapshot-id": start, "end-snapshot-id": end}), 1)
    elif path is not None and not any(s.has_deletes for s in (*path, metadata.snapshots[start])):
        # Also those of `start`: a commit that takes delete files away is more than the change scan can read.
        found = _netted(
            table.scan(
                # Iceberg's change scan fails on aggregates that it is asked to answer from metadata.
                {"start-snapshot-id": start, "end-snapshot-id": end, "aggregate-push-down-enabled": "false"},
                "changes",
            )
        )
    else:
        found = diff(table.scan({"snapshot-id": start}), table.scan({"snapshot-id": end}))
    return found.select(*(column(name) for name in (*columns, WEIGHT)))


def _columns_now(metadata: Metadata, end: Version) -> list[str] | None:
    """The columns of `end` if each is a column now, of the same type; scans give the present schema."""
    now = {f["id"]: f for f in metadata.fields(None)}
    fields = metadata.fields(metadata.schema_at(end))
    if any(now.get(f["id"]) is None or now[f["id"]]["name"] != f["name"] for f in fields):
        return None
    if any(now[f["id"]]["type"] != f["type"] for f in fields):
        return None
    return [f["name"] for f in fields]


def _refuse_renames(table: IcebergTable, metadata: Metadata, start: Version, end: Version) -> None:
    """Two old schemas can only be matched by name; where a name has moved that would be wrong."""
    before = {f["id"]: f["name"] for f in metadata.fields(metadata.schema_at(start))}
    for f in metadata.fields(metadata.schema_at(end)):
        if before.get(f["id"], f["name"]) != f["name"]:
            raise Unsupported(
                f"column '{before[f['id']]}' of {table.address} became '{f['name']}' between versions {start} "
                f"and {end}, and the schema has changed again since",
                hint="ask for the changes up to the latest version, or read the two versions",
            )


def _shaped(old: DataFrame, new: DataFrame) -> DataFrame:
    """Old rows with the columns of the new ones, nested ones too; what they lack is NULL."""
    merged = new.where(F.lit(False)).unionByName(old, allowMissingColumns=True)
    return merged.select(*(column(name) for name in new.columns))


def _netted(raw: DataFrame) -> DataFrame:
    """Weights of the change scan, without the rows that a rewritten file carried over."""
    names = [name for name in raw.columns if name not in _SCAN_COLUMNS]
    columns = [column(name) for name in names]
    weight = F.when(F.col("_change_type") == "INSERT", 1).otherwise(-1)
    if has_map(raw.schema):  # maps can't be grouped: a carried row comes as +1 and -1
        return raw.select(*columns, weight.alias(WEIGHT))
    sums = raw.select(*columns, weight.alias(WEIGHT)).groupBy(*columns).agg(F.sum(WEIGHT).alias(WEIGHT))
    total = F.col(WEIGHT)
    repeated = F.array_repeat(F.signum(total).cast("int"), F.abs(total).cast("int"))
    return sums.where(total != 0).select(*columns, F.explode(repeated).alias(WEIGHT))


_SCAN_COLUMNS = ("_change_type", "_change_ordinal", "_commit_snapshot_id")
