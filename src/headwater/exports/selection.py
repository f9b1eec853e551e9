"""What an export copies: the rows of a relation or a query, as the export's keys want them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import Code, TerminalError, UsageError, did_you_mean
from headwater.core.model import At, Kind, Version
from headwater.core.spec import Export
from headwater.flows.ledger import flow_name
from headwater.spark.errors import reason, without_plan
from headwater.spark.frames import column
from headwater.sql.names import resolve
from headwater.sql.parse import parse_query
from headwater.sql.references import Reference, is_query, parse_reference
from headwater.sql.rewrite import with_relations
from headwater.targets.overrides import overrides_in
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Selected:
    """The rows at fixed versions of what they are read from."""

    rows: DataFrame
    label: str
    """`topics.orders`, or `query`."""
    versions: Mapping[str, Version | None]


def relation_named(warehouse: Warehouse, text: str) -> tuple[Kind, str]:
    """The relation that a `from:` names."""
    reference = parse_reference(text)
    return resolve(reference, {kind: warehouse.names(kind) for kind in Kind}), reference.name


def select(warehouse: Warehouse, definition: Export, spark: SparkSession) -> Selected:
    """What an export copies, as it is now."""
    if is_query(definition.from_):
        found = _of_query(warehouse, definition.from_, spark)
    else:
        kind, name = relation_named(warehouse, definition.from_)
        version = warehouse.existing(kind, name, spark).version()
        rows = warehouse.rows(kind, name, spark, version)
        label = flow_name(name, kind)
        found = Selected(rows, label, {label: version})
    return Selected(projected(found.rows, definition), found.label, found.versions)


def projected(rows: DataFrame, definition: Export, *, keep: tuple[str, ...] = ()) -> DataFrame:
    """The rows that `filter` lets through, with the columns and types that the export wants; `keep` are columns of ours
    that go along."""
    given = rows.columns
    if definition.filter is not None:
        try:
            rows = rows.where(definition.filter)
        except AnalysisException as error:
            message = f"filter: {without_plan(reason(error))}"
            raise UsageError(Code.INVALID_SQL, message) from error
    names = list(definition.columns) or [name for name in given if name not in keep]
    for name in names:
        if name not in given:
            raise UsageError(Code.UNKNOWN_COLUMN, f"columns: no column '{name}'", hint=did_you_mean(name, given))
    overrides = overrides_in(definition.schema_)
    for name in overrides:
        if name not in names:
            raise UsageError(Code.UNKNOWN_COLUMN, f"schema: no column '{name}'", hint=did_you_mean(name, names))
    columns = [overrides[name].applied() if name in overrides else column(name) for name in names]
    made = rows.select(*columns, *(column(name) for name in keep if name in given))
    twice = [name for at, name in enumerate(made.columns) if name in made.columns[:at]]
    if twice:
        raise UsageError(Code.SCHEMA_MISMATCH, f"two columns of the copy have the name '{twice[0]}'")
    return made


def _of_query(warehouse: Warehouse, sql: str, spark: SparkSession) -> Selected:
    """A query's rows, over the present versions of what it reads."""
    known = {kind: warehouse.names(kind) for kind in Kind}
    versions: dict[str, Version | None] = {}

    def place(reference: Reference, at: At | None) -> str:
        kind = resolve(reference, known)
        label = flow_name(reference.name, kind)
        table = warehouse.existing(kind, reference.name, spark)
        version = table.version() if at is None else table.version_at(at)
        versions.setdefault(label if at is None else f"{label}@{at}", version)
        name = f"export_{len(versions)}_{reference.name}"
        warehouse.rows(kind, reference.name, spark, version).createOrReplaceTempView(name)
        return name

    try:
        return Selected(spark.sql(with_relations(parse_query(sql), place)), "query", versions)
    except AnalysisException as error:
        raise UsageError(Code.INVALID_SQL, f"from: {without_plan(reason(error))}") from error


def require_columns(schema: StructType, definition: Export) -> None:
    """Raise where a key of the export names a column that the copy does not have."""
    for key, names in (("primary_key", definition.primary_key), ("z_order_by", definition.z_order_by)):
        for name in names:
            if name not in schema.names:
                hint = did_you_mean(name, schema.names)
                raise UsageError(Code.UNKNOWN_COLUMN, f"{key}: the copy has no column '{name}'", hint=hint)
    if not schema.names:
        raise TerminalError(Code.SCHEMA_MISMATCH, "there is no column to export")
