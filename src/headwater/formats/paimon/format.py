"""Apache Paimon as data: what it can do, what it needs of a session, where its tables lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.core.storage import to_spark_uri
from headwater.formats.base import Address, Capability, Format, LakeContext, Lookup, TableCut
from headwater.formats.native import NativeTable
from headwater.formats.paimon.names import CATALOG
from headwater.spark.session import Extension, SessionNeeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.formats.interop.seam import SharedVersion
    from headwater.formats.spark_table import SparkTable

_MISSING = {
    Capability.PARTITION_TRANSFORMS: "it partitions by columns only; add the expression as a column",
    Capability.EVOLVE_PARTITIONING: "its partition columns are fixed; rebuild the table",
    Capability.BLOOM_FILTER: "its Parquet writer makes none; Paimon's own index does the same: "
    "`options: {file-index.bloom-filter.columns: …}`",
    Capability.STATISTICS: "its Parquet writer always writes statistics",
    Capability.NATIVE_APPEND: "what pypaimon writes, Paimon 0.9 can't read",
}


def _needs(context: LakeContext) -> SessionNeeds:
    prefix = f"spark.sql.catalog.{CATALOG}"
    return SessionNeeds(
        connectors=("paimon",),
        # after Delta's and before Iceberg's: were it the last, it would take Iceberg's CALLs
        extensions=(Extension("org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions", rank=50),),
        conf={
            prefix: "org.apache.paimon.spark.SparkCatalog",
            f"{prefix}.warehouse": f"{to_spark_uri(context.warehouse.rstrip('/'))}/paimon",
            # a cached table keeps its old schema after another session has changed it
            f"{prefix}.cache-enabled": "false",
        },
    )


def _address(context: LakeContext, kinds: str, name: str) -> Address:
    return Address(table=f"{CATALOG}.{kinds}.{name}")


def _spark(spark: SparkSession, address: Address, context: LakeContext) -> SparkTable:
    from headwater.formats.paimon.spark import PaimonTable

    return PaimonTable(PAIMON, spark, address, context)


def _native(address: Address, context: LakeContext) -> NativeTable:
    from headwater.formats.paimon.native import PaimonNativeTable

    return PaimonNativeTable(address, context)


def _shared(address: Address, context: LakeContext) -> SharedVersion:
    from headwater.formats.paimon.shared import shared

    return shared(address, context)


def _cut(address: Address, context: LakeContext) -> TableCut | None:
    from headwater.formats.paimon.cut import cut

    return cut(address, context)


PAIMON = Format(
    name="paimon",
    title="Apache Paimon",
    capabilities=frozenset(Capability) - _MISSING.keys(),
    codecs=frozenset({"none", "snappy", "gzip", "lz4", "zstd"}),
    widenings=frozenset(
        {
            ("tinyint", "smallint"),
            ("tinyint", "int"),
            ("tinyint", "bigint"),
            ("smallint", "int"),
            ("smallint", "bigint"),
            ("int", "bigint"),
            ("int", "double"),
            ("float", "double"),
            ("decimal", "decimal"),
        }
    ),
    notes={
        **_MISSING,
        Capability.UPSERT: "keys can't be NULL, nor the partition columns of a table with keys; "
        "such a table keeps structs in ORC files",
        Capability.CHANGES: "from Paimon's own log; where that is not exact, as the difference of two states",
        Capability.ADD_COLUMNS: "a column inside a struct rewrites a table with keys: Paimon 0.9 can't merge "
        "files that lack it",
        Capability.WIDEN_COLUMNS: "not of keys, partition columns or columns inside a struct",
        Capability.NATIVE_READ: "by pypaimon, on local file systems",
        Capability.CLUSTER: "tables without keys; the others are always sorted by key",
        Capability.EXPIRE: "from the oldest version on: the first one that must stay keeps all after it",
        Capability.ORPHANS: "data files; manifests and indexes are left to Paimon",
        Capability.STREAM_READ: "from `changes`: Paimon's own source reads everything again after a restart",
    },
    needs=_needs,
    address=_address,
    spark=_spark,
    native=_native,
    library="pypaimon",
    lookups=frozenset(Lookup),
    cut=_cut,
    shared=_shared,
    not_interop="its files have names, levels and statistics that only it writes",
    catalog=CATALOG,
    # Without a changelog producer a write leaves its rows to be merged by readers.
    merge_on_read={"changelog-producer": "none"},
)
