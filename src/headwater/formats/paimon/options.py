"""A layout as Paimon's table options, and back."""

from __future__ import annotations

from pyspark.sql.types import StructType

from headwater.core.errors import Unsupported
from headwater.core.spec import Layout, ParquetOptions
from headwater.formats.paimon.rows import has_struct
from headwater.formats.paimon.schema_files import LAYOUT

NEVER = str(2**31 - 1)
CODECS = {"none": "uncompressed", "lz4": "lz4_raw", None: "zstd"}


def of_layout(schema: StructType, layout: Layout) -> dict[str, str]:
    parquet = layout.parquet
    options = {
        LAYOUT: layout.model_dump_json(),
        "file.format": "parquet",
        "file.compression": CODECS.get(parquet.compression, parquet.compression or ""),
        # left alone, Paimon forgets versions after an hour, at whichever commit comes then
        "snapshot.num-retained.min": NEVER,
        "snapshot.num-retained.max": NEVER,
        "snapshot.time-retained": "36500 d",
    }
    if layout.keys:
        # a fixed bucket finds a key by its hash alone; larger tables set `options: {bucket: …}`
        options |= {"bucket": "1", "changelog-producer": "lookup"}
    else:
        options |= {"bucket": "-1"}
    if parquet.row_group_size is not None:
        options["parquet.block.size"] = str(parquet.row_group_size)
    if parquet.dictionary is not None:
        options["parquet.enable.dictionary"] = str(parquet.dictionary).lower()
    if layout.target_file_size is not None:
        options["target-file-size"] = f"{layout.target_file_size} b"
    if layout.keys and has_struct(schema):
        options |= for_structs(layout)
    return options | layout.options


def for_structs(layout: Layout) -> dict[str, str]:
    """What a table with keys needs for structs: Paimon 0.9 can't merge them from Parquet files exactly."""
    chosen = layout.options.get("file.format", "orc")
    if chosen == "parquet" or layout.parquet != ParquetOptions():
        raise Unsupported(
            "Apache Paimon 0.9 can't merge structs from Parquet files exactly: a table with keys and structs is "
            "kept in ORC files, to which `parquet:` does not apply",
            hint="leave `parquet:` out, or the keys, or the structs",
        )
    return {"file.format": chosen}


def primary_key(layout: Layout) -> tuple[str, ...]:
    """Paimon's key: ours, and the partition columns, which it can't do without."""
    if not layout.keys:
        return ()
    return (*layout.keys, *(name for name in layout.partition_by if name not in layout.keys))
