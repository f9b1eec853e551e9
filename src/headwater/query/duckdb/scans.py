"""Where rows come from: a table's Parquet files, or rows that its light reader has read; pinned to one version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.core.model import Kind, Version
from headwater.formats.file_scan import ParquetScan, ScannedFile
from headwater.query.duckdb.footers import bound_nan, hold_as_they_are
from headwater.query.duckdb.terms import Origin, Refused, duckdb_type, identifier, literal, text
from headwater.query.predicates import Bounds, Predicate, may_hold

if TYPE_CHECKING:
    import pyarrow as pa

MOST_FILES = 5000
"""Above this the list of files alone is a burden; Spark reads such tables better."""


@dataclass(frozen=True)
class PinnedRelation:
    """One relation at one version."""

    kind: Kind
    name: str
    format: str
    version: Version | None
    schema: pa.Schema
    files: ParquetScan | None
    """None: only the light reader knows its rows."""
    read: Callable[[Sequence[str]], pa.Table] | None = None
    """The rows themselves, where there are no files to hand over."""
    why_rows: str | None = None
    """Why there are none."""
    folders: frozenset[str] = frozenset()
    """Where its files lie."""

    @property
    def reader(self) -> str:
        return "parquet files" if self.files is not None else "rows of the light reader"


@dataclass(eq=False)
class DuckScan:
    """One place in a query that reads a relation."""

    reading: PinnedRelation
    alias: str
    predicates: list[Predicate] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    """Which of the columns the query needs, by their place."""
    place: int = -1
    """The how-manieth relation of the query's text it is."""
    shown: bool = False
    """Whether people see other columns of it than are stored."""

    @property
    def columns(self) -> list[str]:
        names = self.reading.schema.names
        return [names[index] for index in self.used]

    def chosen(self) -> tuple[list[ScannedFile], int, int]:
        """The files that may hold a row that is wanted, and how many went by partition and by bounds."""
        files = self.reading.files
        if files is None:
            return [], 0, 0
        kept, by_partition, by_bounds = [], 0, 0
        for file in files.files:
            if not self.wanted(file, only_partition=True):
                by_partition += 1
            elif not self.wanted(file, only_partition=False):
                by_bounds += 1
            else:
                kept.append(file)
        return kept, by_partition, by_bounds

    def wanted(self, file: ScannedFile, *, only_partition: bool, by: Sequence[Predicate] | None = None) -> bool:
        """Whether a file may hold a row that meets the conditions, or some of them."""

        def known(origin: Any) -> Bounds | None:
            if not isinstance(origin, Origin) or origin.scan is not self:
                return None
            if origin.column in file.partition:
                value = file.partition[origin.column]
                return Bounds(value, value, 1 if value is None else 0, 1)
            found = None if only_partition else file.bounds.get(origin.column)
            return None if found is None else Bounds(found.min, found.max, found.nulls, file.rows)

        return all(may_hold(predicate, known) for predicate in (self.predicates if by is None else by))

    def sql(self, files: Sequence[ScannedFile], registered: str | None) -> str:
        """What stands in FROM."""
        if registered is not None:
            picked = [f"{identifier(name)} AS c{at}" for at, name in zip(self.used, self.columns, strict=True)]
            return f"SELECT {', '.join(picked) or '1'} FROM {registered}"
        found = self.reading.files
        if found is None:
            raise Refused("the rows were not read")
        if not files:
            empty = [f"{literal(None, self.reading.schema.field(at).type).sql} AS c{at}" for at in self.used]
            return f"SELECT {', '.join(empty) or '1'} WHERE false"
        if len(files) > MOST_FILES:
            raise Refused(f"{len(files)} files of {self.reading.kind.value} '{self.reading.name}' are Spark's to read")
        stored = [at for at in self.used if self.reading.schema.names[at] not in found.partition_columns]
        guarded = (
            not bound_nan(files) if any(_has_floats(self.reading.schema.field(at).type) for at in stored) else False
        )
        picked = [
            f"{self._stored(at, guarded) if at in stored else self._partition(files, at)} AS c{at}" for at in self.used
        ]
        listed = ", ".join(text(file.path) for file in files)
        names = [self.reading.schema.names[at] for at in stored]
        alike = hold_as_they_are(files, self.reading.schema, names, found.field_ids)
        columns = "" if alike else self._columns(found, stored)
        return f"SELECT {', '.join(picked) or '1'} FROM read_parquet([{listed}]{columns}, hive_partitioning=false)"

    def _stored(self, at: int, guarded: bool) -> str:
        field = self.reading.schema.field(at)
        # What stands in TRY is judged by its values alone, never by a file's bounds.
        return f"TRY({identifier(field.name)})" if guarded and _has_floats(field.type) else identifier(field.name)

    def _columns(self, found: ParquetScan, stored: Iterable[int]) -> str:
        """The table's own columns: files from before a column was added or widened are brought to it."""
        entries = []
        for at in stored:
            name, type_ = self.reading.schema.names[at], self.reading.schema.field(at).type
            key = text(name) if found.field_ids is None else str(found.field_ids[name])
            entries.append(f"{key}: {{name: {text(name)}, type: {text(duckdb_type(type_))}, default_value: NULL}}")
        return f", schema=MAP {{{', '.join(entries)}}}" if entries else ""

    def _partition(self, files: Sequence[ScannedFile], at: int) -> str:
        field = self.reading.schema.field(at)
        values = [literal(file.partition.get(field.name), field.type).sql for file in files]
        if len(set(values)) == 1:
            return values[0]
        return (
            f"list_extract(CAST([{', '.join(values)}] AS {duckdb_type(field.type)}[]), CAST(file_index AS BIGINT) + 1)"
        )


def _has_floats(type: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_nested(type):
        return any(_has_floats(type.field(at).type) for at in range(type.num_fields))
    return bool(pa.types.is_floating(type))
