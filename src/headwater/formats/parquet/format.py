"""Plain Parquet as data: append only, with versions from a log of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.core.storage import Files
from headwater.formats.base import Address, Capability, Format, LakeContext, Lookup, TableCut
from headwater.formats.native import NativeTable
from headwater.spark.session import SessionNeeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.formats.interop.seam import SharedVersion
    from headwater.formats.spark_table import SparkTable


def _needs(context: LakeContext) -> SessionNeeds:
    return SessionNeeds()


def _address(context: LakeContext, namespace: str, name: str) -> Address:
    return Address(path=f"{context.warehouse.rstrip('/')}/{namespace}/{name}")


def _spark(spark: SparkSession, address: Address, context: LakeContext) -> SparkTable:
    from headwater.formats.parquet.folder import ParquetFolder, data_files
    from headwater.formats.parquet.spark import ParquetTable

    table = ParquetTable(PARQUET, spark, address, context)
    if not table.exists() and address.path is not None and data_files(Files(address.path, context.storage)):
        return ParquetFolder(FOLDER, spark, address, context)
    return table


def _native(address: Address, context: LakeContext) -> NativeTable:
    from headwater.formats.parquet.native import NativeParquetTable

    return NativeParquetTable(address, context)


def _shared(address: Address, context: LakeContext) -> SharedVersion:
    from headwater.formats.parquet.shared import shared

    return shared(address, context)


def _cut(address: Address, context: LakeContext) -> TableCut | None:
    from headwater.formats.parquet.cut import cut

    return cut(address, context)


_APPEND_ONLY = "its files are only ever added to; Delta, Iceberg, Hudi and Paimon have it"

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_WIDENINGS = frozenset(
    {(narrow, wide) for i, narrow in enumerate(_WHOLE) for wide in _WHOLE[i + 1 :]}
    | {(narrow, "double") for narrow in ("tinyint", "smallint", "int", "float")}
    | {("date", "timestamp_ntz"), ("decimal", "decimal")}
)
"""What a cast does without losing a bit: files are read in their own types, and rows cast."""

PARQUET = Format(
    name="parquet",
    title="Parquet",
    capabilities=frozenset(
        {
            Capability.APPEND,
            Capability.TIME_TRAVEL,
            Capability.CHANGES,
            Capability.COMMIT_TAGS,
            Capability.POSITIONS,
            Capability.ADD_COLUMNS,
            Capability.WIDEN_COLUMNS,
            Capability.PARTITION,
            Capability.COMPACT,
            Capability.EXPIRE,
            Capability.ORPHANS,
            Capability.FILES,
            Capability.STATS,
            Capability.STREAM_READ,
            Capability.STREAM_CHANGES,
            Capability.STREAM_SINK,
            Capability.ROW_GROUP_SIZE,
            Capability.DICTIONARY,
            Capability.BLOOM_FILTER,
            Capability.TARGET_FILE_SIZE,
            Capability.NATIVE_READ,
            Capability.NATIVE_APPEND,
        }
    ),
    codecs=frozenset({"none", "snappy", "gzip", "lz4", "zstd"}),
    widenings=_WIDENINGS,
    notes={
        Capability.UPSERT: _APPEND_ONLY,
        Capability.REPLACE: _APPEND_ONLY,
        Capability.STREAM_UPSERT: _APPEND_ONLY,
        Capability.CHANGES_MERGE_ON_READ: "it has no merge-on-read tables",
        Capability.PARTITION: "an empty text in a partition column becomes NULL: no folder has that name",
        Capability.PARTITION_TRANSFORMS: "its partitions are folders named after columns",
        Capability.EVOLVE_PARTITIONING: "its partitions are folders named after columns",
        Capability.CLUSTER: "it has no z-order of its own",
        Capability.STATISTICS: "the Parquet writer of Spark 3.5 always writes statistics",
        Capability.STREAM_READ: "through a feed: a copy of each version's rows next to the lake's state",
        Capability.NATIVE_APPEND: "by pyarrow; refused with bloom filters or `options` for Spark's writer, and where a "
        "partition column is a decimal or a time",
        Capability.STREAM_CHANGES: "through a feed: a copy of each version's rows next to the lake's state",
    },
    needs=_needs,
    address=_address,
    spark=_spark,
    native=_native,
    cut=_cut,
    shared=_shared,
    not_interop="plain Parquet has no log that could name files of another table",
    lookups=frozenset(Lookup),
    marker="_headwater",
)

FOLDER = replace(
    PARQUET,
    title="A folder of Parquet files",
    capabilities=frozenset({Capability.FILES}),
    notes=dict.fromkeys(Capability, "Headwater did not make it, so there is no log of its versions"),
)
"""Somebody else's folder: `parquet/folder.py` reads it."""
