"""Delta Lake as data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.formats.base import Address, Capability, Format, LakeContext, Lookup, TableCut
from headwater.formats.native import NativeTable
from headwater.spark.session import Extension, SessionNeeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.formats.interop.seam import InteropTarget, SharedVersion
    from headwater.formats.spark_table import SparkTable


LOG_STORE = Path(__file__).with_name("ConditionalLogStore.java")
_S3 = ("s3://", "s3a://")


def _needs(context: LakeContext) -> SessionNeeds:
    on_s3 = context.storage.get("s3") is not None or context.warehouse.startswith(_S3)
    # Delta's own log store for S3 lets two processes both win a commit.
    store = {f"spark.delta.logStore.{scheme}.impl": f"headwater.{LOG_STORE.stem}" for scheme in ("s3", "s3a")}
    return SessionNeeds(
        connectors=("delta",),
        extensions=(Extension("io.delta.sql.DeltaSparkSessionExtension"),),
        conf={
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # one task reads a small table's log, instead of fifty
            "spark.databricks.delta.snapshotPartitions": "1",
            # VACUUM keeps what `expire` was told to keep; its own floor of a week is not ours
            "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            **(store if on_s3 else {}),
        },
        classes=(LOG_STORE,) if on_s3 else (),
    )


def _address(context: LakeContext, kind: str, name: str) -> Address:
    return Address(path=f"{context.warehouse.rstrip('/')}/{kind}/{name}")


def _spark(spark: SparkSession, address: Address, context: LakeContext) -> SparkTable:
    from headwater.formats.delta.spark import DeltaTable

    return DeltaTable(DELTA, spark, address, context)


def _native(address: Address, context: LakeContext) -> NativeTable:
    from headwater.formats.delta.native import DeltaNativeTable

    return DeltaNativeTable(address, context)


def _shared(address: Address, context: LakeContext) -> SharedVersion:
    from headwater.formats.delta.shared import shared

    return shared(address, context)


def _interop(address: Address, context: LakeContext) -> InteropTarget:
    from headwater.formats.delta.interop import DeltaInterop

    return DeltaInterop(address, context)


def _interop_address(context: LakeContext, kind: str, name: str, root: str) -> Address:
    return Address(path=root)


def _cut(address: Address, context: LakeContext) -> TableCut | None:
    from headwater.formats.delta.cut import cut

    return cut(address, context)


_MISSING = {
    Capability.PARTITION_TRANSFORMS: "it partitions by columns only; add the expression as a column",
    Capability.EVOLVE_PARTITIONING: "its partition columns are fixed; rebuild the table",
    Capability.STATISTICS: "its Parquet writer always writes statistics",
}

DELTA = Format(
    name="delta",
    title="Delta Lake",
    erases=True,
    capabilities=frozenset(Capability) - _MISSING.keys(),
    codecs=frozenset({"none", "snappy", "gzip", "lz4", "zstd"}),
    widenings=frozenset({("tinyint", "smallint"), ("tinyint", "int"), ("smallint", "int")}),
    notes={
        **_MISSING,
        Capability.CHANGES: "from the change data feed, or from the files that came and went where it is off",
        Capability.NATIVE_READ: "by deltalake; refused for reader features that it does not read exactly",
        Capability.NATIVE_APPEND: "by deltalake; refused under column mapping and other features only Spark writes",
        Capability.TARGET_FILE_SIZE: "at compaction and clustering",
    },
    needs=_needs,
    address=_address,
    spark=_spark,
    native=_native,
    library="deltalake",
    cut=_cut,
    shared=_shared,
    interop=_interop,
    interop_address=_interop_address,
    lookups=frozenset(Lookup),
    marker="_delta_log",
    merge_on_read={"delta.enableDeletionVectors": "true"},
    fence="the transaction id that each commit carries",
)
