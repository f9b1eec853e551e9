"""The seam for light libraries: one table of a format without a JVM. Never imports pyspark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.core.errors import Unsupported
from headwater.core.model import At, CommitTag, Version
from headwater.formats.base import Address, LakeContext
from headwater.formats.file_scan import ParquetScan
from headwater.formats.locks import writing

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.formats.key_filter import Near


class NativeTable(ABC):
    """One table without a JVM: exact, or it refuses with the reason (`Unsupported`)."""

    def __init__(self, address: Address, around: LakeContext) -> None:
        self.address = address
        self.around = around

    @abstractmethod
    def version(self) -> Version | None:
        """The latest version, as Spark's side numbers it."""

    @abstractmethod
    def version_at(self, at: At) -> Version: ...

    @abstractmethod
    def read(self, at: At | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The rows at a version or time, as Spark would give them; timestamps are UTC microseconds."""

    def parquet(self, at: At | None = None) -> ParquetScan:
        """The Parquet files on the local file system that hold exactly the rows of a version, for engines that read
        Parquet themselves; Unsupported where rows have to go through `read`."""
        raise Unsupported(f"{self.address} is not read file by file")

    def size(self) -> int | None:
        """Bytes of the latest version's files, where that is known at once."""
        return None

    def some(self, at: Version, near: Near, most: int) -> pa.Table | None:
        """At least the rows of a version that are asked for, and few others; None where more than `most` bytes would
        have to be read for it, or where only Spark can tell."""
        return None

    def changes(self, start: Version, end: Version, most: int) -> pa.Table | None:
        """What leads from one version to a later one, with WEIGHT; None as in `some`."""
        return None

    def append(self, rows: pa.Table, mark: CommitTag) -> Version:
        """Add a small batch in one commit that Spark's side knows by its mark; a repeated step changes nothing.

        Columns go by name, as in Spark's append. Where the result would not be exactly Spark's it is refused
        (`Unsupported`) before anything is written, and Spark can be asked instead.
        """
        with writing(self.address):
            return self._append(rows, mark)

    def upsert(self, rows: pa.Table, keys: Sequence[str], mark: CommitTag | None = None) -> Version:
        """Write a few rows by key, at most one per key, or delete those that `_deleted` marks; in one commit, which
        a repeated step does not make again."""
        with writing(self.address):
            return self._upsert(rows, keys, mark)

    def _append(self, rows: pa.Table, mark: CommitTag) -> Version:
        raise Unsupported(f"rows can't be appended to {self.address} without Spark")

    def _upsert(self, rows: pa.Table, keys: Sequence[str], mark: CommitTag | None) -> Version:
        raise Unsupported(f"rows can't be upserted into {self.address} without Spark")
