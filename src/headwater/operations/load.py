"""Rows put into reference tables by hand: from a file, or by INSERT."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from headwater.core.errors import Code, UsageError
from headwater.core.model import Kind, Version
from headwater.core.record import Record
from headwater.core.spec import Table, layout_of
from headwater.flows.ledger import flow_name
from headwater.runner.holds import holding
from headwater.runner.leases import require_free
from headwater.schema.types import parse_ddl
from headwater.spark.session import activate, fork
from headwater.tables.reference import check_rows, loaded
from headwater.tables.seeds import make_room
from headwater.warehouse import Warehouse


@dataclass(frozen=True)
class Loaded(Record):
    """What was put into a table."""

    table: str
    rows: int
    version: Version


def load(warehouse: Warehouse, name: str, file: str, content: bytes, *, replace: bool = False) -> Loaded:
    """Put the rows of a file into a reference table: by key where it has keys; or make them its whole content."""
    definition = reference(warehouse, name)
    require_free(warehouse.state, flow_name(name, Kind.TABLE))
    spark = fork(warehouse.spark)
    activate(spark)
    rows = loaded(spark, file, content, definition.keys, parse_ddl(spark, definition.schema_))
    return _put(warehouse, definition, rows, replace)


def insert(warehouse: Warehouse, name: str, rows: DataFrame) -> Loaded:
    """Put rows into a reference table; one of a key that is there takes the place of the old one."""
    definition = reference(warehouse, name)
    check_rows(rows, definition.keys, f"tables.{name}")
    return _put(warehouse, definition, rows, replace=False)


def _put(warehouse: Warehouse, definition: Table, rows: DataFrame, replace: bool) -> Loaded:
    name = definition.name
    with holding(warehouse, flow_name(name, Kind.TABLE)) as guard:
        table = warehouse.table(Kind.TABLE, name, rows.sparkSession)
        make_room(table, rows, layout_of(definition), lambda: warehouse.remember(Kind.TABLE, name))
        guard()
        write = table.replace if replace else table.upsert if definition.keys else table.append
        return Loaded(name, rows.count(), write(rows))


def reference(warehouse: Warehouse, name: str) -> Table:
    """The definition of a table that is filled by hand; another one is refused."""
    if name not in warehouse.names(Kind.TABLE):
        raise warehouse.unknown(Kind.TABLE, name)
    definition = warehouse.definition(Kind.TABLE, name)
    assert isinstance(definition, Table)
    kept_by = next((key for key in ("from", "sql", "transform") if definition.origins[key] is not None), None)
    if kept_by is not None:
        raise UsageError(
            Code.USAGE,
            f"table '{name}' is kept by its `{kept_by}`: rows can't be put into it by hand",
            where=definition.where,
            hint="a reference table has `keys`, and no `from`, `sql` or `transform`",
        )
    return definition
