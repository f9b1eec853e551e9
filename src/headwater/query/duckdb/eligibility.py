"""Whether DuckDB may answer a query, and the plan if so; else the reason why not."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.core.logs import log_defect
from headwater.core.model import At, Kind, Version
from headwater.formats.file_scan import ScannedFile
from headwater.query.duckdb.relations import Catalogue, reading
from headwater.query.duckdb.scans import DuckScan, PinnedRelation
from headwater.query.duckdb.translation.expressions import Clock
from headwater.query.duckdb.translation.generator import text_of
from headwater.query.duckdb.translation.nodes import columns_of
from headwater.query.duckdb.translation.selects import Queries
from headwater.query.duckdb.translation.terms import Refused, duckdb_type
from headwater.query.system.registry import system_table
from headwater.query.system.table import SystemRows
from headwater.sql.parse import STUMBLES
from headwater.sql.references import parse_query, referring, resolve
from headwater.sql.rewrite import time_travel
from headwater.warehouse import Warehouse, without_later_columns

if TYPE_CHECKING:
    import pyarrow as pa

LARGE_SCAN = 64 * 1024**3
"""Bytes of Parquet from which on a query is Spark's, which can spread it."""

SMALL_ROWS = 200_000
_KEPT_PLANS = 256

REASON = "every table is read exactly without Spark, and every function was compared with Spark's"


@dataclass(frozen=True)
class Chosen:
    """What one scan will read."""

    scan: DuckScan
    files: list[ScannedFile]
    by_partition: int
    by_bounds: int


@dataclass
class QueryPlan:
    """A query as DuckDB gets it."""

    query: exp.Query
    """With a place for each scan."""
    schema: pa.Schema
    scans: list[Chosen]
    readings: Mapping[tuple[Kind, str, At | None], PinnedRelation] = field(default_factory=dict)
    lasting: bool = True
    """Whether it is the same at another time."""
    asked_again: bool = False
    """Whether it was found among the plans that were kept."""

    @cached_property
    def versions(self) -> dict[str, Version | None]:
        """Of each relation that is read; one at several versions has the newest one here."""
        return {found.label: found.version for found in self.readings.values()}

    def sql(self, registered: Mapping[str, str]) -> str:
        """The text for DuckDB; `registered` names the rows that were read for a scan."""
        scans = {one.scan.alias: one.scan.query(one.files, registered.get(one.scan.alias)) for one in self.scans}
        return text_of(self.query, scans)

    @property
    def text(self) -> str:
        """The query for people: a scan is shown by its alias."""
        return text_of(self.query)

    @cached_property
    def folders(self) -> frozenset[str]:
        """Where the files of its relations lie."""
        return frozenset().union(*(found.folders for found in self.readings.values()))

    @cached_property
    def plain_sql(self) -> str:
        """The text for a query that reads nothing but files."""
        return self.sql({})

    @cached_property
    def is_small(self) -> bool:
        """Whether the result is small for certain: no more rows than a small table has."""
        files = self.scans[0].scan.reading.files if len(self.scans) == 1 else None
        return files is not None and files.rows is not None and files.rows <= SMALL_ROWS

    @property
    def bytes(self) -> int:
        return sum(file.bytes for one in self.scans for file in one.files)


class _Plans:
    """Plans of queries that were asked before: good while every table has the version that they were made for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[Catalogue, QueryPlan]] = OrderedDict()

    def get(self, catalogue: Catalogue, sql: str) -> QueryPlan | None:
        with self._lock:
            found = self._kept.get((catalogue.home, sql))
        if found is None or not found[0].same(catalogue):
            return None
        made = found[1]
        for key, before in made.readings.items():
            now = reading(catalogue, *key)
            if now.files is None or now.files is not before.files:
                return None
        made.asked_again = True
        return made

    def put(self, catalogue: Catalogue, sql: str, made: QueryPlan) -> None:
        if not made.lasting or any(found.files is None for found in made.readings.values()):
            return
        with self._lock:
            self._kept[(catalogue.home, sql)] = (catalogue, made)
            self._kept.move_to_end((catalogue.home, sql))
            while len(self._kept) > _KEPT_PLANS:
                self._kept.popitem(last=False)


_plans = _Plans()


def plan_query(warehouse: Warehouse, sql: str) -> QueryPlan:
    """How DuckDB would answer a query; Refused with the reason if Spark has to."""
    catalogue = Catalogue(warehouse)
    found = _plans.get(catalogue, sql)
    if found is None:
        try:
            found = _planned(catalogue, sql)
        except RecursionError:
            raise Refused("it is nested too deeply") from None
        except STUMBLES as error:  # Spark can answer it all the same
            raise Refused(f"its translation for DuckDB failed, as {log_defect(error)} says") from error
        _plans.put(catalogue, sql, found)
    return found


def _planned(catalogue: Catalogue, sql: str) -> QueryPlan:
    import pyarrow as pa

    if "\\" in sql:
        raise Refused("a backslash in the text is left to Spark")
    query = parse_query(sql)
    places = {
        id(table): (number, reference, time_travel(table)) for number, (table, reference) in enumerate(referring(query))
    }
    readings: dict[tuple[Kind, str, At | None], PinnedRelation] = {}
    system: dict[str, PinnedRelation] = {}

    def find(table: exp.Table) -> DuckScan | tuple[exp.Query, DuckScan]:
        if id(table) not in places:
            raise Refused("a table function is left to Spark")
        number, reference, at = places[id(table)]
        if reference.system:
            return DuckScan(system.setdefault(reference.name, _system(catalogue, reference.name)), "", place=number)
        if reference.driving or reference.temporal or reference.changes is not None:
            raise Refused("stream(), changes() and FOR SYSTEM_TIME are left to Spark")
        kind = resolve(reference, catalogue.names)
        key = (kind, reference.name, at)
        if key not in readings:
            readings[key] = reading(catalogue, *key)
            for field in readings[key].schema:
                duckdb_type(field.type)  # refuses a type that is not one of Spark's
        record = catalogue.record(kind, reference.name)
        shown = None if record is None else record.shown
        scan = DuckScan(readings[key], "", place=number, shown=shown is not None)
        return scan if shown is None else (_shown(shown, readings[key].schema.names), scan)

    clock = Clock(datetime.now(timezone.utc))
    queries = Queries(find, clock)
    try:
        made = queries.query(query, {})
    except Refused as refused:
        refused.scans = queries.scans
        raise
    chosen = []
    used = columns_of(made.node, (scan.alias for scan in queries.scans))
    for scan in queries.scans:
        scan.used = used[scan.alias]
        if isinstance(scan.reading.read, SystemRows):
            scan.reading.read.want(scan.columns)
        chosen.append(Chosen(scan, *scan.chosen()))
    schema = pa.schema([pa.field(str(column.name), column.type) for column in made.columns])
    found = QueryPlan(made.node, schema, chosen, readings, lasting=not (clock.asked or system))
    if found.bytes > LARGE_SCAN:
        _require_not_too_large(catalogue, found)
    return found


def _system(catalogue: Catalogue, name: str) -> PinnedRelation:
    table = system_table(name)
    rows = SystemRows(catalogue.warehouse, table)
    return PinnedRelation(None, name, "system", None, table.schema, None, rows, "it is no table of files")


def _require_not_too_large(catalogue: Catalogue, found: QueryPlan) -> None:
    """Files may be large of which the query needs few columns."""
    from headwater.query.estimates import bytes_read
    from headwater.query.gathered import Statistics

    statistics = Statistics(catalogue.warehouse)
    size = sum(bytes_read(one, statistics.of(one.scan.reading)) for one in found.scans)
    if size <= LARGE_SCAN:
        return
    refused = Refused(f"{size >> 30} GiB are to be read, which Spark can spread")
    refused.scans = [one.scan for one in found.scans]  # the order of its joins goes by them
    raise refused


def _shown(text: str, columns: Iterable[str]) -> exp.Query:
    if "\\" in text:
        raise Refused("what the view shows has a backslash")
    try:
        found = sqlglot.parse_one(without_later_columns(text, columns), dialect="spark")
    except SqlglotError as error:
        raise Refused("what the view shows can't be parsed") from error
    if not isinstance(found, exp.Query) or len(list(found.find_all(exp.Table))) != 1:
        raise Refused("what the view shows is more than a query of its table")
    return found
