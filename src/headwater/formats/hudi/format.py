"""Apache Hudi as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.formats.base import Address, Capability, Format, LakeContext, Lookup, TableCut
from headwater.formats.native import NativeTable
from headwater.spark.session import SessionNeeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.formats.interop.seam import SharedVersion
    from headwater.formats.spark_table import SparkTable

_MISSING = {
    Capability.PARTITION_TRANSFORMS: "a partition path holds column values; add a column such as event_date",
    Capability.EVOLVE_PARTITIONING: "the partition path is part of every record's place; rebuild the table",
    Capability.BLOOM_FILTER: "Headwater does not set them for Hudi",
    Capability.STATISTICS: "its writers always write Parquet statistics",
    Capability.NATIVE_APPEND: "the `hudi` package only reads",
}

_NOTES = {
    Capability.UPSERT: "copy-on-write; key columns may not be NULL",
    Capability.CHANGES: "the rows of the files that a commit added, less those of the files that it rewrote",
    Capability.CHANGES_MERGE_ON_READ: "the difference of two snapshots",
    Capability.ADD_COLUMNS: "seen at once; the files follow with the next commit",
    Capability.CLUSTER: "clustering, without Hudi's SQL extension",
    Capability.EXPIRE: "cleaning and archiving happen here only, never alongside a commit",
}


def _needs(context: LakeContext) -> SessionNeeds:
    return SessionNeeds(
        connectors=("hudi",),
        conf={
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        },
        # To tell how large a record is, its library would halt this JVM and have another one look into it.
        properties={"jol.skipHotspotSAAttach": "true"},
    )


def _address(context: LakeContext, kind: str, name: str) -> Address:
    return Address(path=f"{context.warehouse.rstrip('/')}/{kind}/{name}")


def _spark(spark: SparkSession, address: Address, context: LakeContext) -> SparkTable:
    from headwater.formats.hudi.spark import HudiSparkTable

    return HudiSparkTable(HUDI, spark, address, context)


def _native(address: Address, context: LakeContext) -> NativeTable:
    from headwater.formats.hudi.native import HudiNativeTable

    return HudiNativeTable(address, context)


def _shared(address: Address, context: LakeContext) -> SharedVersion:
    from headwater.formats.hudi.shared import shared

    return shared(address, context)


def _cut(address: Address, context: LakeContext) -> TableCut | None:
    from headwater.formats.hudi.cut import cut

    return cut(address, context)


HUDI = Format(
    name="hudi",
    title="Apache Hudi",
    capabilities=frozenset(Capability) - frozenset(_MISSING),
    codecs=frozenset({"none", "snappy", "gzip", "lz4", "zstd"}),
    widenings=frozenset(
        {
            ("tinyint", "smallint"),
            ("tinyint", "int"),
            ("smallint", "int"),
            ("int", "bigint"),
            ("float", "double"),
            ("decimal", "decimal"),
        }
    ),
    notes={**_MISSING, **_NOTES},
    needs=_needs,
    address=_address,
    spark=_spark,
    native=_native,
    library="hudi",
    lookups=frozenset(Lookup),
    cut=_cut,
    shared=_shared,
    not_interop="its files have names and columns of their own, which tell its file groups and records",
    marker=".hoodie",
    merge_on_read={"hoodie.datasource.write.table.type": "MERGE_ON_READ"},
)
