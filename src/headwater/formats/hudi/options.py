"""What a write tells Hudi: the table's shape, its Parquet files, and what to leave alone."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.model import CommitTag
from headwater.core.spec import Layout
from headwater.formats.hudi.commits import COMMIT_TAG
from headwater.formats.hudi.names import stored_name
from headwater.formats.hudi.stored_layout import TABLE_TYPE

OPERATION = "hoodie.datasource.write.operation"
CODECS = {"none": "uncompressed", "lz4": "lz4_raw"}

_ALWAYS = {
    # a small commit is quicker without the metadata table, and without a server on an open port
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    # only `expire` forgets anything
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    # the newest write of a key wins, whatever its values are
    "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING",
    # rows stay Spark's rows: the way through Avro misreads arrays of one-field structs
    "hoodie.write.record.merge.custom.implementation.classes": (
        "org.apache.hudi.OverwriteWithLatestSparkRecordMerger,org.apache.hudi.DefaultSparkRecordMerger"
    ),
    # the default index doubles a key that changes its partition
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.simple.index.update.partition.path": "true",
    # bloom filters of record keys serve another index; bulk inserts write them all the same, 400 KB a file
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "1",
    "hoodie.index.bloom.fpp": "0.5",
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}

_PARALLELISM = (
    "hoodie.bulkinsert.shuffle.parallelism",
    "hoodie.insert.shuffle.parallelism",
    "hoodie.upsert.shuffle.parallelism",
    "hoodie.global.simple.index.parallelism",
    "hoodie.finalize.write.parallelism",
    "hoodie.markers.delete.parallelism",
    "hoodie.file.listing.parallelism",
    "hoodie.rollback.parallelism",
    "hoodie.clean.parallelism",
    "hoodie.archive.delete.parallelism",
)


def write_options(name: str, layout: Layout, record_key: str | None, parallelism: int) -> dict[str, str]:
    """Settings of any write to a table, its own `options` last."""
    found = {**_ALWAYS, "hoodie.table.name": name, **dict.fromkeys(_PARALLELISM, str(parallelism))}
    found[TABLE_TYPE] = "COPY_ON_WRITE"
    found[OPERATION] = "upsert"
    found["hoodie.datasource.write.partitionpath.field"] = ",".join(map(stored_name, layout.partition_by))
    if record_key is not None:
        found["hoodie.datasource.write.recordkey.field"] = record_key
    found.update(parquet_options(layout))
    return {**found, **layout.options}


def parquet_options(layout: Layout) -> dict[str, str]:
    parquet = layout.parquet
    codec = parquet.compression or "zstd"
    found = {"hoodie.parquet.compression.codec": CODECS.get(codec, codec)}
    if parquet.row_group_size is not None:
        found["hoodie.parquet.block.size"] = str(parquet.row_group_size)
    if parquet.dictionary is not None:
        found["hoodie.parquet.dictionary.enabled"] = str(parquet.dictionary).lower()
    if layout.target_file_size is not None:
        found["hoodie.parquet.max.file.size"] = str(layout.target_file_size)
        found["hoodie.parquet.small.file.limit"] = str(layout.target_file_size * 4 // 5)
    return found


def commit_tag_options(commit_tag: CommitTag | None) -> dict[str, str]:
    """Hudi puts the options under this prefix into the commit's metadata."""
    return (
        {}
        if commit_tag is None
        else {"hoodie.datasource.write.commitmeta.key.prefix": COMMIT_TAG, COMMIT_TAG: commit_tag.to_json()}
    )


def key_generator(partition_by: Sequence[str]) -> str:
    """The type of the generator of record keys and partition paths, fixed when the table is made."""
    return ("NON_PARTITION", "SIMPLE", "COMPLEX")[min(len(partition_by), 2)]


def clustering_options(target_file_size: int, small_file_limit: int, sort_by: Sequence[str]) -> dict[str, str]:
    """Join all files under the limit into files of the target size, by z-order if columns are given."""
    found = {
        "hoodie.clustering.plan.strategy.target.file.max.bytes": str(target_file_size),
        "hoodie.clustering.plan.strategy.small.file.limit": str(small_file_limit),
        "hoodie.clustering.plan.strategy.max.num.groups": "1000000",
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled": str(bool(sort_by)).lower(),
        "hoodie.parquet.max.file.size": str(target_file_size),
    }
    if sort_by:
        found["hoodie.clustering.plan.strategy.sort.columns"] = ",".join(map(stored_name, sort_by))
        found["hoodie.layout.optimize.strategy"] = "z-order"
    return found


def bounding_options(partitions: Sequence[str], max_bytes: int | None) -> dict[str, str]:
    """Cluster files of these partitions alone, and not many more bytes than that."""
    found = {} if "" in partitions else {"hoodie.clustering.plan.strategy.partition.selected": ",".join(partitions)}
    if max_bytes is not None:
        found["hoodie.clustering.plan.strategy.max.bytes.per.group"] = str(max_bytes)
        found["hoodie.clustering.plan.strategy.max.num.groups"] = "1"
    return found


def compaction_options(max_bytes: int | None) -> dict[str, str]:
    """Merge log files from the first one on, and not many more bytes than that."""
    found = {"hoodie.compact.inline.max.delta.commits": "1"}
    if max_bytes is not None:
        found["hoodie.compaction.target.io"] = str(max(1, max_bytes // 2**20))  # in MB
    return found
