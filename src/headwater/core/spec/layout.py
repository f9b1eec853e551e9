"""How a table lies in its files."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from headwater.core.spec.base import Count, Frozen, Interval, Names, Options, Share, Size

Codec = Literal["none", "snappy", "gzip", "lz4", "zstd", "brotli"]


class ParquetOptions(Frozen):
    """How the Parquet files of a table are written; None leaves the format's default."""

    compression: Codec | None = Field(default=None, description="The codec: none, snappy, gzip, lz4, zstd or brotli.")
    row_group_size: Size | None = Field(default=None, description="Bytes of a row group.")
    dictionary: bool | None = Field(default=None, description="Whether columns are dictionary-encoded.")
    bloom_filter: Names = Field(default=(), description="Columns that get a bloom filter.")
    statistics: bool | None = Field(default=None, description="Whether min, max and null counts are written.")


class Layout(Frozen):
    """What a format needs to know to create a table."""

    keys: Names = ()
    partition_by: Names = ()
    z_order_by: Names = ()
    looked_up_by: Names = ()
    """Other columns that files are passed over by: their bounds are kept however wide the table is."""
    target_file_size: Size | None = None
    parquet: ParquetOptions = ParquetOptions()
    options: Options = Field(default_factory=dict)


class Compaction(Frozen):
    """When small files are joined; a partition is looked at by itself."""

    every: Interval = Field(
        default=timedelta(hours=1), description="A partition is compacted so long after its first small file …"
    )
    small_files: Count = Field(default=12, description="… or as soon as it has so many of them.")
    small_below: Share = Field(default=0.7, description="A file is small below this share of the target size.")
    deleted_rows: Share = Field(
        default=0.1, description="A file is rewritten when more than this share of its rows is deleted."
    )
    target_file_size: Size | None = Field(
        default=None, description="Size that files are compacted to; the relation's `target_file_size` if unset."
    )


class Clustering(Frozen):
    """When files are sorted by columns that queries filter by."""

    by: Names = Field(default=(), description="Columns to cluster by; `z_order_by` if unset.")
    every: Interval = Field(default=timedelta(days=1), description="What is new is clustered so long after it came.")


class Retention(Frozen):
    """How much of the past to keep."""

    versions: Interval | None = Field(
        default=timedelta(days=30), description="How long old versions can be read; null: for ever."
    )
    rows: Interval | None = Field(
        default=None, description="How long the rows of a topic stay after they were ingested; for ever if unset."
    )
    dead_letters: Interval | None = Field(
        default=None, description="How long dead letters are kept; for ever if unset."
    )
