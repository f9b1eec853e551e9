"""Apache Iceberg as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.catalogs.base import DEFAULT, spark_conf
from headwater.formats.base import Address, Capability, Format, LakeContext, Lookup, TableCut
from headwater.formats.iceberg.names import catalogs, lake_location
from headwater.formats.native import NativeTable
from headwater.spark.session import Extension, SessionNeeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.formats.interop.seam import InteropTarget, SharedVersion
    from headwater.formats.spark_table import SparkTable


def _needs(context: LakeContext) -> SessionNeeds:
    known = catalogs(context)
    connectors = dict.fromkeys(name for spec in known.values() for name in spec.connectors())
    conf: dict[str, str] = {}
    for name, spec in known.items():
        conf.update(spark_conf(name, spec, lake_location(context)))
    # An extension loaded after Iceberg's would take its statements.
    extension = Extension("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions", rank=100)
    return SessionNeeds(("iceberg", *connectors), (extension,), conf)


def _address(context: LakeContext, kind: str, name: str) -> Address:
    return Address(table=f"{DEFAULT}.{kind}.{name}")


def _spark(spark: SparkSession, address: Address, context: LakeContext) -> SparkTable:
    from headwater.formats.iceberg.spark import IcebergTable

    for catalog in catalogs(context).values():
        catalog.prepare(lake_location(context))
    return IcebergTable(ICEBERG, spark, address, context)


def _native(address: Address, context: LakeContext) -> NativeTable:
    from headwater.formats.iceberg.native import IcebergNativeTable

    return IcebergNativeTable(address, context)


def _shared(address: Address, context: LakeContext) -> SharedVersion:
    from headwater.formats.iceberg.shared import shared

    return shared(address, context)


def _interop(address: Address, context: LakeContext) -> InteropTarget:
    from headwater.formats.iceberg.interop import IcebergInterop

    return IcebergInterop(address, context)


def _interop_address(context: LakeContext, kind: str, name: str, root: str) -> Address:
    return Address(table=f"{DEFAULT}.interop_{kind}.{name}")


def _cut(address: Address, context: LakeContext) -> TableCut | None:
    from headwater.formats.iceberg.cut import cut

    return cut(address, context)


_SLOWER = "pyiceberg copies the metadata of all snapshots many times a commit, so that Spark is soon quicker"
_MERGE_ON_READ = ("write.delete.mode", "write.update.mode", "write.merge.mode")

ICEBERG = Format(
    name="iceberg",
    title="Apache Iceberg",
    erases=True,
    capabilities=frozenset(Capability) - {Capability.NATIVE_APPEND},
    codecs=frozenset({"none", "snappy", "gzip", "lz4", "zstd"}),
    widenings=frozenset({("int", "bigint"), ("float", "double"), ("decimal", "decimal")}),
    notes={
        Capability.CHANGES: "from its change scan, or the difference of two states where that fails",
        Capability.CHANGES_MERGE_ON_READ: "as the difference of two states: both are read whole",
        Capability.WIDEN_COLUMNS: "a tinyint or smallint is kept as an int",
        Capability.BLOOM_FILTER: "a column that a dictionary covers whole gets none",
        Capability.STREAM_READ: "through a feed of changes: its own source fails after a MERGE",
        Capability.NATIVE_APPEND: _SLOWER,
        Capability.NATIVE_READ: "by pyiceberg; refused where equality deletes hide rows",
    },
    needs=_needs,
    address=_address,
    spark=_spark,
    native=_native,
    library="pyiceberg",
    cut=_cut,
    shared=_shared,
    interop=_interop,
    interop_address=_interop_address,
    widens_files=True,
    lookups=frozenset(Lookup),
    catalog="lake",
    in_catalogs=True,
    marker="metadata",
    merge_on_read=dict.fromkeys(_MERGE_ON_READ, "merge-on-read"),
    fence="commits that are never tried again on a newer state",
)
