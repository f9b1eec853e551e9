"""Where rows come from: a table's Parquet files, or rows that its native reader has read; pinned to one version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headwater.core.model import Kind, Version
from headwater.formats.file_scan import ParquetScan, ScannedFile
from headwater.query.duckdb.footers import bound_nan, hold_as_they_are
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.terms import Origin, Refused, cast_node, duckdb_type, literal_node
from headwater.query.predicates import Bounds, Predicate, may_hold
from headwater.sql.names import SYSTEM

_PATTERN = re.compile(r"([*?\[])")
"""What DuckDB takes for a pattern in the name of a file; in brackets of its own it stands for itself."""
MOST_FILES = 5000
"""Above this the list of files alone is a burden; Spark reads such tables better."""


@dataclass(frozen=True)
class PinnedRelation:
    """One relation at one version."""

    kind: Kind | None
    """None: a table of the schema `system`."""
    name: str
    format: str
    version: Version | None
    schema: pa.Schema
    files: ParquetScan | None
    """None: only the native reader knows its rows."""
    read: Callable[[Sequence[str]], pa.Table] | None = None
    """The rows themselves, where there are no files to hand over."""
    why_rows: str | None = None
    """Why there are none."""
    folders: frozenset[str] = frozenset()
    """Where its files lie."""

    @property
    def label(self) -> str:
        """As SQL names it: `topics.orders`, `system.steps`."""
        return f"{SYSTEM if self.kind is None else self.kind.plural}.{self.name}"

    @property
    def reader(self) -> str:
        return "parquet files" if self.files is not None else "rows of the native reader"


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

    def query(self, files: Sequence[ScannedFile], registered: str | None) -> exp.Select:
        """What it reads, for its place in FROM: the rows of some files, or those that were registered."""
        schema = self.reading.schema
        if registered is not None:
            return self._select([nodes.stored(schema.names[at]) for at in self.used], nodes.table(registered))
        found = self.reading.files
        if found is None:
            raise Refused("the rows were not read")
        if not files:
            empty = [literal_node(None, schema.field(at).type) for at in self.used]
            return self._select(empty, where=nodes.boolean(False))
        if len(files) > MOST_FILES:
            raise Refused(f"{len(files)} files of {self.reading.label} are Spark's to read")
        stored = [at for at in self.used if schema.names[at] not in found.partition_columns]
        guarded = any(_has_floats(schema.field(at).type) for at in stored) and not bound_nan(files)
        picked = [self._stored(at, guarded) if at in stored else self._partition(files, at) for at in self.used]
        arguments: list[exp.Expr] = [nodes.array(nodes.string(_PATTERN.sub(r"[\1]", file.path)) for file in files)]
        alike = hold_as_they_are(files, schema, [schema.names[at] for at in stored], found.field_ids)
        if stored and not alike:
            arguments.append(nodes.option("schema", self._columns(found, stored)))
        arguments.append(nodes.option("hive_partitioning", nodes.boolean(False)))
        return self._select(picked, nodes.table(nodes.function("read_parquet", *arguments)))

    def _select(
        self, values: Sequence[exp.Expr], source: exp.Expr | None = None, where: exp.Expr | None = None
    ) -> exp.Select:
        picked = [nodes.named(value, at) for at, value in zip(self.used, values, strict=True)]
        return nodes.select(picked or [nodes.number(1)], source, where)

    def _stored(self, at: int, guarded: bool) -> exp.Expr:
        field = self.reading.schema.field(at)
        column = nodes.stored(field.name)
        # What stands in TRY is judged by its values alone, never by a file's bounds.
        return nodes.function("try", column) if guarded and _has_floats(field.type) else column

    def _columns(self, found: ParquetScan, stored: Iterable[int]) -> exp.ToMap:
        """The table's own columns: files from before a column was added or widened are brought to it."""
        entries: list[tuple[exp.Expr, exp.Expr]] = []
        for at in stored:
            name, type_ = self.reading.schema.names[at], self.reading.schema.field(at).type
            key = nodes.string(name) if found.field_ids is None else nodes.number(found.field_ids[name])
            told = {"name": nodes.string(name), "type": nodes.string(duckdb_type(type_)), "default_value": exp.Null()}
            entries.append((key, nodes.struct((nodes.string(word), value) for word, value in told.items())))
        return exp.ToMap(this=nodes.struct(entries))

    def _partition(self, files: Sequence[ScannedFile], at: int) -> exp.Expr:
        field = self.reading.schema.field(at)
        values = [file.partition.get(field.name) for file in files]
        if len({repr(value) for value in values}) == 1:
            return literal_node(values[0], field.type)
        listed = cast_node(nodes.array(literal_node(value, field.type) for value in values), pa.list_(field.type))
        place = exp.Add(this=nodes.cast(nodes.variable("file_index"), "BIGINT"), expression=nodes.number(1))
        return nodes.function("list_extract", listed, place)


def _has_floats(type: pa.DataType) -> bool:
    if pa.types.is_nested(type):
        return any(_has_floats(type.field(at).type) for at in range(type.num_fields))
    return bool(pa.types.is_floating(type))
