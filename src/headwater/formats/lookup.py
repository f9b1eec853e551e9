"""What commands ask of a table besides its rows: answered by its native reader, by Spark only where that can't."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from headwater.core.errors import Unsupported
from headwater.core.model import At, Commit, CommitTag, DataFile, TableStats, Version
from headwater.core.progress import say
from headwater.formats.base import Format, Lookup
from headwater.schema.columns import TableColumn, columns_of

if TYPE_CHECKING:
    from headwater.core.spec import Layout
    from headwater.formats.native import NativeTable
    from headwater.formats.spark_table import SparkTable

T = TypeVar("T")


class TableLookup:
    """One table that is there. Answers are the same whoever gives them."""

    def __init__(self, format: Format, native: NativeTable | None, spark: Callable[[], SparkTable]) -> None:
        """`spark` opens the table through Spark, which it may have to start."""
        self.format = format
        self.native = native
        self._spark = spark
        self._opened: SparkTable | None = None

    def version(self) -> Version | None:
        return self._ask(None, lambda table: table.version(), lambda table: table.version())

    def version_at(self, at: At) -> Version:
        return self._ask(None, lambda table: table.version_at(at), lambda table: table.version_at(at))

    def history(self, limit: int | None = None) -> list[Commit]:
        return self._ask(Lookup.HISTORY, lambda table: table.history(limit), lambda table: table.history(limit))

    def committed_at(self, version: Version) -> datetime | None:
        return self._ask(
            Lookup.HISTORY, lambda table: table.committed_at(version), lambda table: table.committed_at(version)
        )

    def landed(self, commit_tag: CommitTag) -> Version | None:
        return self._ask(Lookup.LANDED, lambda table: table.landed(commit_tag), lambda table: table.landed(commit_tag))

    def columns(self) -> tuple[TableColumn, ...]:
        """All that are stored, hidden ones of views among them."""
        return self._ask(Lookup.SCHEMA, lambda table: table.columns(), _spark_columns)

    def layout(self) -> Layout:
        return self._ask(Lookup.LAYOUT, lambda table: table.layout(), lambda table: table.layout())

    def files(self) -> list[DataFile]:
        return self._ask(Lookup.FILES, lambda table: table.files(), lambda table: table.files())

    def stats(self) -> TableStats:
        return self._ask(Lookup.STATS, lambda table: table.stats(), lambda table: table.stats())

    def _ask(self, lookup: Lookup | None, native: Callable[[NativeTable], T], spark: Callable[[SparkTable], T]) -> T:
        reason = None
        if self.native is not None and (lookup is None or lookup in self.format.lookups):
            try:
                return native(self.native)
            except Unsupported as refused:
                reason = refused.problem.message
        if self._opened is None:
            what = "version" if lookup is None else lookup.value
            say(f"{reason or f'the {what} of {self.format.title} tables is known to Spark alone'}: asking Spark")
            self._opened = self._spark()
        return spark(self._opened)


def _spark_columns(table: SparkTable) -> tuple[TableColumn, ...]:
    return columns_of(json.loads(table.schema().json()))
