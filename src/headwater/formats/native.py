"""The seam for native readers: one table of a format without a JVM. Never imports pyspark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from headwater.core.errors import Unsupported
from headwater.core.model import At, Commit, CommitTag, DataFile, TableStats, Version
from headwater.formats.base import Address, LakeContext, Lookup
from headwater.formats.file_scan import ParquetScan
from headwater.formats.locks import writing

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.core.spec import Layout
    from headwater.formats.key_filter import KeyFilter
    from headwater.schema.columns import TableColumn


class NativeTable(ABC):
    """One table without a JVM: exact, or it refuses with the reason (`Unsupported`), and Spark is asked instead.

    Opened by the warehouse for queries, for commands that look something up and for small steps; any thread may use it.
    """

    def __init__(self, address: Address, context: LakeContext) -> None:
        self.address = address
        self.context = context

    @abstractmethod
    def version(self) -> Version | None:
        """The latest version, as Spark's side numbers it; None where there is no table. Called when a query is planned,
        and by `run` and `plan`, to see whether a table is there."""

    @abstractmethod
    def version_at(self, at: At) -> Version:
        """The version that `at` names, as Spark's side finds it. Called when a query names a version or time."""

    @abstractmethod
    def read(self, at: At | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The rows at a version or time, as Spark would give them; timestamps are UTC microseconds. Called by queries
        where `parquet` refuses, and to read the dead letters."""

    def parquet(self, at: At | None = None) -> ParquetScan:
        """The Parquet files on the local file system that hold exactly the rows of a version; Unsupported where rows
        have to go through `read`. Called when DuckDB's plan of a query is made."""
        raise Unsupported(f"{self.address} is not read file by file")

    def size(self) -> int | None:
        """Bytes of the latest version's files, where that is known at once. Called by `plan`, and to choose between
        this side and Spark."""
        return None

    def some(self, at: Version, key_filter: KeyFilter, most: int) -> pa.Table | None:
        """At least the rows of a version that are asked for, and few others; None where more than `most` bytes would
        have to be read for it, or where only Spark can tell. Called by a refresh that looks a few keys up."""
        return None

    def changes(self, start: Version, end: Version, most: int) -> pa.Table | None:
        """What leads from one version to a later one, with WEIGHT; None as in `some`. Called by a refresh, for the
        change of each table that it reads."""
        return None

    # --- what commands look up (`describe`, `history`, `tag`, `parquet stats` …): told as Spark tells it. Called where
    # `Format.lookups` says that the format can; else a command starts Spark.

    def exists(self) -> bool:
        """Whether the table is there. Called by each of these commands first."""
        return self.version() is not None

    def history(self, limit: int | None = None) -> list[Commit]:
        """The versions that can still be read and what made them, newest first. Called by `history`."""
        raise self._not_told(Lookup.HISTORY)

    def committed_at(self, version: Version) -> datetime | None:
        """When a version was made; None where its number alone tells it from any other table's. Called to find out
        whether a recorded version is still the same."""
        raise self._not_told(Lookup.HISTORY)

    def landed(self, commit_tag: CommitTag) -> Version | None:
        """The version that a step made, or None if it has not landed. Called to find out, without Spark, that a view
        has nothing to do."""
        raise self._not_told(Lookup.LANDED)

    def columns(self) -> tuple[TableColumn, ...]:
        """The users' columns, hidden ones of views among them. Called by `describe` and `parquet schema`."""
        raise self._not_told(Lookup.SCHEMA)

    def layout(self) -> Layout:
        """The layout that the table was made with. Called by `describe`."""
        raise self._not_told(Lookup.LAYOUT)

    def files(self) -> list[DataFile]:
        """The live files of the latest version. Called by `describe` and `parquet stats --files`."""
        raise self._not_told(Lookup.FILES)

    def stats(self) -> TableStats:
        """Exact rows, nulls, least and greatest values of the latest version; distinct values are an estimate. Called
        by `parquet stats`."""
        raise self._not_told(Lookup.STATS)

    def _not_told(self, lookup: Lookup) -> Unsupported:
        return Unsupported(f"the {lookup.value} of {self.address} can't be read without Spark")

    # --- writing

    def append(self, rows: pa.Table, commit_tag: CommitTag) -> Version:
        """Add a small batch in one commit that Spark's side knows by its tag; a repeated step changes nothing. Called
        by the small steps of topics and views.

        Columns go by name, as in Spark's append. Where the result would not be exactly Spark's it is refused
        (`Unsupported`) before anything is written, and Spark can be asked instead.
        """
        with writing(self.address):
            return self._append(rows, commit_tag)

    def upsert(self, rows: pa.Table, keys: Sequence[str], commit_tag: CommitTag | None = None) -> Version:
        """Write a few rows by key, at most one per key, or delete those that `_deleted` marks; in one commit, which
        a repeated step does not make again. Called by small refreshes, and to keep and drop dead letters."""
        with writing(self.address):
            return self._upsert(rows, keys, commit_tag)

    def _append(self, rows: pa.Table, commit_tag: CommitTag) -> Version:
        """Called by `append`, under the table's lock."""
        raise Unsupported(f"rows can't be appended to {self.address} without Spark")

    def _upsert(self, rows: pa.Table, keys: Sequence[str], commit_tag: CommitTag | None) -> Version:
        """Called by `upsert`, under the table's lock."""
        raise Unsupported(f"rows can't be upserted into {self.address} without Spark")
