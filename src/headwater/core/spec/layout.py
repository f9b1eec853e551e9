"""How a table lies in its files."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headwater.core.spec.base import Frozen, Interval, Names, Options, Size

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
    """When small files are joined."""

    every: Interval = Field(description="How often small files are joined.")


class Retention(Frozen):
    """What is kept of the past."""

    versions: Interval = Field(description="How long old versions can be read.")
