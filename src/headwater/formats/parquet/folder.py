"""Somebody else's folder of Parquet files: it can be read as it is now, and nothing more."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.core.errors import Code, TerminalError
from headwater.core.model import At, Commit, DataFile, Version
from headwater.core.spec import Layout
from headwater.core.storage import FileEntry, Files
from headwater.formats.base import Address, Format, LakeContext
from headwater.formats.spark_table import SparkTable


class ParquetFolder(SparkTable):
    """By path, without a log: no versions, no changes, and no writing."""

    def __init__(self, format: Format, spark: SparkSession, address: Address, context: LakeContext) -> None:
        super().__init__(format, spark, address, context)
        self._folder = Files(address.path or "", context.storage)

    def exists(self) -> bool:
        return True

    def _create(self, schema: StructType, layout: Layout) -> None:
        raise self._not_ours()

    def drop(self) -> None:
        raise self._not_ours()

    def schema(self) -> StructType:
        return self._read(None).schema

    def layout(self) -> Layout:
        return Layout()

    def version(self) -> Version | None:
        return None

    def version_at(self, at: At) -> Version:
        raise self._no_such_version(at)

    def history(self, limit: int | None = None) -> list[Commit]:
        return []

    def _read(self, version: Version | None) -> DataFrame:
        return self.spark.read.parquet(self._folder.spark_pattern())

    def _files(self, version: Version | None) -> list[DataFile]:
        return [DataFile(self._folder.join(entry.path), entry.bytes) for entry in data_files(self._folder)]

    def _not_ours(self) -> TerminalError:
        return TerminalError(Code.USAGE, f"{self.address} holds Parquet files that Headwater did not make")


def data_files(folder: Files) -> list[FileEntry]:
    """The Parquet files that readers of a folder see."""
    return [
        entry
        for entry in folder.list(recursive=True)
        if entry.name.endswith(".parquet") and not any(part[0] in "._" for part in entry.path.split("/"))
    ]
