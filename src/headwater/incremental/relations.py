"""Relations of the lake as inputs: their states at two versions, and the signed change between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType
from sqlglot import exp

from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.core.model import WEIGHT, At, Commit, Kind, Version
from headwater.flows.retention import is_retention
from headwater.formats.base import Capability
from headwater.formats.key_filter import KeyFilter
from headwater.formats.native import NativeTable
from headwater.formats.spark_table import SparkTable
from headwater.incremental.operator import Moment
from headwater.incremental.schema_growth import Columns, without_later_fields
from headwater.spark.arrow_bridge import local_frame, lying
from headwater.spark.frames import column
from headwater.warehouse import Warehouse, quoted_column, shown, unordered

Positions = Mapping[str, Any]
"""By a relation's name, `topics.orders`: the version read and when it was made."""

NATIVE_BYTES = 64 << 20
"""A look-up or a change that reads no more than this is made in this process, where the format can."""
NATIVE_ROWS = 500_000
_STARTED_OVER = ("RESTORE", "ROLLBACK", "CREATE OR REPLACE TABLE", "REPLACE TABLE")


@dataclass(frozen=True)
class RelationVersion:
    """A version of a relation. A table that was dropped and made again has another one of the same number."""

    version: Version | None
    """None: the table is there, and nothing was written to it yet."""
    made_at: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "at": self.made_at}

    @staticmethod
    def of(position: Any) -> RelationVersion | None:
        if position is None:
            return None
        version = position["version"]
        return RelationVersion(None if version is None else int(version), position.get("at"))


@dataclass
class InputRelation:
    """A topic, table or view that something reads: always as people see it.

    Where it is stored is looked up with each `current()`: it may be made, or rebuilt elsewhere, while it is followed.
    """

    warehouse: Warehouse
    kind: Kind
    name: str
    spark: SparkSession
    at: At | None = None
    """Read at this version or time for ever."""
    keeps_removed: bool = False
    """What retention removes stays in what is made of it: such commits are passed over."""
    _found: tuple[SparkTable, str | None] | None = None

    @property
    def table(self) -> SparkTable:
        return self._known()[0]

    @property
    def shown(self) -> str | None:
        """How its stored rows are shown."""
        return self._known()[1]

    def _known(self) -> tuple[SparkTable, str | None]:
        if self._found is None:
            record = self.warehouse.record(self.kind, self.name)
            table = self.warehouse.table(self.kind, self.name, self.spark)
            self._found = (table, None if record is None else record.shown)
        return self._found

    @cached_property
    def label(self) -> str:
        return f"{self.kind.plural}.{self.name}" + ("" if self.at is None else f"@{self.at}")

    def current(self) -> RelationVersion | None:
        """Where it is now; None while there is no table."""
        self._found = None
        if not self.table.exists():
            return None
        return self._version(self.table.version() if self.at is None else self.table.version_at(self.at))

    def _version(self, version: Version | None) -> RelationVersion:
        if version is None:
            return RelationVersion(None)
        made = self.table.committed_at(version)
        return RelationVersion(version, None if made is None else made.isoformat())

    def rows(self, at: RelationVersion) -> DataFrame:
        if at.version is None:
            stored = self.table.spark.createDataFrame([], self.table.schema())
        else:
            stored = self.table.read(at.version)
        return stored if self.shown is None else shown(stored, self.shown)

    def key_filter(self, at: RelationVersion, key_filter: KeyFilter) -> DataFrame | None:
        """A few rows, looked up without Spark; None where Spark is to be asked."""
        native, query = self._native, None if self.shown is None else unordered(self.shown)
        if native is None or at.version is None or (query is not None and _is_cut_off(query)):
            return None
        if query is not None:
            key_filter = key_filter.showing(*(one.name for one in query.find_all(exp.Column)))
        stored = self._handed(native.some(at.version, key_filter, NATIVE_BYTES))
        return stored if stored is None or query is None else shown(stored, query.sql(dialect="spark"))

    def schema(self, at: RelationVersion) -> StructType:
        """Its columns; where it is now they are known without reading it."""
        if self.shown is None and (at.version is None or at.version == self.table.version()):
            return self.table.schema()
        return self.rows(at).schema

    def change(self, start: RelationVersion, end: RelationVersion) -> DataFrame:
        """What leads from one version to another, with WEIGHT."""
        assert end.version is not None
        ranges = self._followed(start, end) or [(end, end)]
        found = reduce(DataFrame.unionByName, [self._change(*each) for each in ranges])
        return found if self.shown is None else shown(found, _of_changes(self.shown).sql(dialect="spark"))

    def _change(self, start: RelationVersion, end: RelationVersion) -> DataFrame:
        assert end.version is not None
        found = self._few_changes(start, end)
        return self.table.changes(start.version, end.version) if found is None else found

    def _followed(self, start: RelationVersion, end: RelationVersion) -> list[tuple[RelationVersion, RelationVersion]]:
        """The range, without the commits of retention where what they remove is kept."""
        if not self.keeps_removed or start.version is None or start == end:
            return [(start, end)]
        versions = self.versions(start, end)
        if self.table.appending(start.version, versions) == len(versions):
            return [(start, end)]
        removing = {commit.version for commit in self.between(start, end) if is_retention(commit.commit_tag)}
        if not removing:
            return [(start, end)]
        ranges, begin, previous = [], start.version, start.version
        for version in versions:
            if version in removing:
                ranges.append((begin, previous))
                begin = version
            previous = version
        ranges.append((begin, previous))
        return [(RelationVersion(one), RelationVersion(other)) for one, other in ranges if one != other]

    def _few_changes(self, start: RelationVersion, end: RelationVersion) -> DataFrame | None:
        native = self._native
        if native is None or start.version is None or end.version is None:
            return None
        return self._handed(native.changes(start.version, end.version, NATIVE_BYTES))

    def _handed(self, found: pa.Table | None) -> DataFrame | None:
        """Rows of this process for Spark, if they are few."""
        return None if found is None or found.num_rows > NATIVE_ROWS else local_frame(self.spark, found)

    @property
    def _native(self) -> NativeTable | None:
        make = self.table.format.native
        return None if make is None else make(self.table.address, self.table.context)

    def loses_rows(self, start: RelationVersion, end: RelationVersion) -> bool:
        """Whether rows of `start` are not in `end` any more. Nothing is read where all commits between only append."""
        if start.version is None or start == end:
            return False
        versions = self.versions(start, end)
        if self.table.appending(start.version, versions) == len(versions):
            return False
        return not self.change(start, end).where(column(WEIGHT) < 0).isEmpty()

    def broken(self, start: RelationVersion, end: RelationVersion) -> str | None:
        """Why the change from `start` can't be followed, in words; None if it can."""
        if start.version is None:
            return None
        try:
            self.table.version_at(start.version)
        except HeadwaterError as error:
            if error.code is not Code.NO_SUCH_VERSION:
                raise
            return f"{self.label} has been rebuilt or its version {start.version} was expired"
        if self._version(start.version) != start:
            return f"{self.label} was dropped and made again"
        if self.shown is not None and _is_cut_off(unordered(self.shown)):
            return f"{self.label} is cut off by LIMIT: what comes in and falls out is not recorded"
        if not self.table.format.can(Capability.CHANGES):
            return self.table.format.refusal(Capability.CHANGES)
        if start != end and not self.versions(start, end):
            return f"{self.label} was set back to an earlier version"
        between = self.between(start, end)
        for commit in between:
            if commit.operation.upper() in _STARTED_OVER:
                return f"{self.label} was restored or replaced (version {commit.version}: {commit.operation})"
        epochs = {
            commit.commit_tag.writer
            for commit in between
            if commit.commit_tag is not None and commit.commit_tag.step == 0
        }
        if epochs and any(commit.commit_tag is None and commit.rows_removed for commit in between):
            return f"{self.label} was emptied and filled again"
        return None

    def versions(self, start: RelationVersion | None, end: RelationVersion) -> list[Version]:
        """The versions after `start` up to `end`, the oldest first; none where `end` does not follow on `start`."""
        after = self.table.versions_after(None if start is None else start.version)
        return after[: after.index(end.version) + 1] if end.version in after else []

    def between(self, start: RelationVersion, end: RelationVersion) -> list[Commit]:
        """What was committed after `start`, up to `end`. Numbers alone tell no order: Iceberg's are random."""
        newest = None if end.version is None else self.table.commits_between(start.version, end.version)
        found = set(self.versions(start, end))
        return [commit for commit in self.table.history(newest) if commit.version in found]


def _of_changes(shown: str) -> exp.Select:
    """What is shown of a view, for the signed changes of what is stored."""
    return unordered(shown).select(quoted_column(WEIGHT))


def _is_cut_off(query: exp.Select) -> bool:
    return any(query.args.get(name) is not None for name in ("limit", "offset"))


def relation_of(
    warehouse: Warehouse,
    kind: Kind,
    name: str,
    spark: SparkSession,
    at: At | None = None,
    *,
    keeps_removed: bool = False,
) -> InputRelation:
    """A relation that is known, whether it has data or not."""
    if name not in warehouse.names(kind):
        raise warehouse.unknown(kind, name)
    return InputRelation(warehouse, kind, name, spark, at, keeps_removed)


@dataclass
class States:
    """The sources of a query at two versions each: what the operators read."""

    relations: Mapping[str, InputRelation]
    """By the name that the query's text has for them."""
    start: Mapping[str, RelationVersion]
    end: Mapping[str, RelationVersion]
    """By the relation's label."""
    grown: Mapping[str, Columns] = field(default_factory=dict)
    """By the relation's label: columns whose structs have more fields by now than the query knows."""
    _rows: dict[tuple[str, RelationVersion], DataFrame] = field(default_factory=dict)

    def rows(self, source: str, at: Moment) -> DataFrame:
        relation, version = self._at(source, at)
        key = (source, version)
        if key not in self._rows:
            self._rows[key] = self._known(relation, relation.rows(version))
        return self._rows[key]

    def key_filter(self, source: str, at: Moment, key_filter: KeyFilter) -> DataFrame | None:
        relation, version = self._at(source, at)
        found = relation.key_filter(version, key_filter)
        return None if found is None else self._known(relation, found)

    def _at(self, source: str, at: Moment) -> tuple[InputRelation, RelationVersion]:
        relation = self.relations[source]
        versions = self.start if at is Moment.OLD else self.end
        return relation, versions.get(relation.label) or self.end[relation.label]

    def change(self, source: str) -> DataFrame | None:
        relation = self.relations[source]
        start, end = self.start[relation.label], self.end[relation.label]
        return None if start == end else _weighted(self._known(relation, relation.change(start, end)))

    def _known(self, relation: InputRelation, rows: DataFrame) -> DataFrame:
        return without_later_fields(rows, self.grown.get(relation.label, {}))


def _weighted(df: DataFrame) -> DataFrame:
    if lying(df) is not None and df.schema[WEIGHT].dataType == LongType():
        return df
    names = [name for name in df.columns if name != WEIGHT]
    return df.select(*map(column, names), column(WEIGHT).cast("bigint").alias(WEIGHT))


def current_versions(relations: Sequence[InputRelation]) -> dict[str, RelationVersion]:
    """Where all of them are now; NO_SUCH_RELATION names the first that has no data."""
    versions: dict[str, RelationVersion] = {}
    for relation in relations:
        if relation.label in versions:
            continue
        current = relation.current()
        if current is None:
            raise TerminalError(
                Code.NO_SUCH_RELATION,
                f"{relation.kind.value} '{relation.name}' has no data yet",
                hint=relation.warehouse.how_to_fill(relation.kind, relation.name),
            )
        versions[relation.label] = current
    return versions
