"""Puts the flows of tables together: those that apply the changes of a topic, and those that are loaded from a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import Code, TransientError, Where
from headwater.core.model import Kind
from headwater.core.spec import Table, layout_of
from headwater.core.storage import Files
from headwater.flows.flow import Flow, Steps
from headwater.flows.ledger import Ledger, flow_name
from headwater.flows.retention import require_whole
from headwater.formats.spark_table import SparkTable
from headwater.incremental.relations import InputRelation, RelationVersion, relation_of
from headwater.project.graph import Name, graph_of
from headwater.runner.preflight import empty, require_fence
from headwater.runner.setups.setup import FlowSetup, Guard, setup_of_table
from headwater.schema.types import parse_ddl
from headwater.tables.apply.input import VersionsInput
from headwater.tables.apply.shape import Shape
from headwater.tables.apply.target import ApplyTarget
from headwater.tables.reference import loaded
from headwater.tables.seeds import SeedInput, SeedTarget
from headwater.views.flow import ViewFlow, open_table
from headwater.views.transformed import open_transform
from headwater.warehouse import Warehouse, fingerprint


def table_setup(warehouse: Warehouse, name: str) -> FlowSetup:
    """How a table is run that applies changes, is kept by a query, or is loaded from a file."""
    return setup_of_table(warehouse, name, partial(table_flow, warehouse, name))


def table_flow(warehouse: Warehouse, name: str, spark: SparkSession, guard: Guard) -> Steps:
    """The flow that keeps such a table, in a session of its own."""
    definition = warehouse.project.tables[name]
    require_fence(warehouse, definition)
    computed = computed_flow(warehouse, definition, spark, guard)
    if computed is not None:
        return computed.steps
    flow = flow_name(name, Kind.TABLE)
    ledger = Ledger(warehouse.files, flow)
    table = warehouse.table(Kind.TABLE, name, spark)
    if definition.seed is not None:  # its first step has all of it: nothing goes before that has come
        return _seeded(warehouse, definition, table, ledger, guard)
    _begin(flow, ledger, table)

    source_of = applied_from(warehouse, name, spark)

    def again(reason: str) -> NoReturn:
        guard()
        require_whole(warehouse.files, flow, [source_of.label], reason)
        epoch = ledger.restart(empty=True).number
        message = f"{reason}: {flow} is emptied and filled again, in epoch {epoch}"
        raise TransientError(Code.SOURCE_CHANGED, message)

    target = applied_target(warehouse, definition, table, guard, partial(remember_shape, warehouse, name))
    source = applied_input(warehouse, definition, source_of, again, owes=target.owes)
    return Flow(flow, fingerprint(definition), source, target, ledger, guard, record=warehouse.state.note)


def computed_flow(warehouse: Warehouse, definition: Table, spark: SparkSession, guard: Guard) -> ViewFlow | None:
    """The flow that keeps a table by a query or a function; None where something else keeps it."""
    if definition.sql is not None:
        return open_table(warehouse, definition, spark, guard)
    if definition.transform is not None:
        return open_transform(warehouse, definition, spark, guard)
    return None


def applied_from(warehouse: Warehouse, name: str, spark: SparkSession) -> InputRelation:
    """What a table applies the changes of."""
    (read,) = graph_of(warehouse.project).inputs[Name(Kind.TABLE, name)]
    return relation_of(warehouse, read.of.kind, read.of.name, spark, keeps_removed=True)


def applied_target(
    warehouse: Warehouse, definition: Table, table: SparkTable, guard: Guard, made: Callable[[Shape], None]
) -> ApplyTarget:
    return ApplyTarget(table, definition, layout_of(definition), _where_of(warehouse, definition.name), guard, made)


def applied_input(
    warehouse: Warehouse,
    definition: Table,
    relation: InputRelation,
    again: Callable[[str], NoReturn],
    end: RelationVersion | None = None,
    owes: Callable[[], bool] = lambda: False,
) -> VersionsInput:
    where = _where_of(warehouse, definition.name)
    return VersionsInput(relation, definition, where, again, end, warehouse.committed, owes)


def _seeded(
    warehouse: Warehouse, definition: Table, table: SparkTable, ledger: Ledger, guard: Guard
) -> Flow[DataFrame]:
    assert definition.seed is not None
    name, project = definition.name, warehouse.project
    folder, _, file = project.location(definition.seed).rpartition("/")
    where = project.where(f"tables.{name}.seed")
    declared = parse_ddl(table.spark, definition.schema_)
    source = SeedInput(
        Files(folder or "/", dict(warehouse.context.storage)),
        file,
        where,
        lambda content: loaded(table.spark, definition.seed or file, content, definition.keys, declared, where),
        fingerprint(definition),
    )
    target = SeedTarget(
        table,
        layout_of(definition),
        where,
        guard,
        lambda: warehouse.remember(Kind.TABLE, name),
        rebuilds=ledger.epoch().empty,
    )
    flow = flow_name(name, Kind.TABLE)
    return Flow(flow, fingerprint(definition), source, target, ledger, guard, record=warehouse.state.note)


def _begin(flow: str, ledger: Ledger, table: SparkTable) -> None:
    """Before an epoch's first step has landed the table is emptied, if the epoch is to begin so."""
    last = ledger.last()
    if not ledger.epoch().empty or not table.exists():
        return
    if last is None or (last.step == 0 and table.landed(last.commit_tag(flow)) is None):
        empty(table)


def _where_of(warehouse: Warehouse, name: str) -> Callable[[str], Where]:
    return lambda key: warehouse.project.where(f"tables.{name}.{key}")


def remember_shape(warehouse: Warehouse, name: str, shape: Shape) -> None:
    record = warehouse.record(Kind.TABLE, name)
    if record is None or (record.shown, record.hidden) != (shape.shown, shape.hidden):
        warehouse.remember(Kind.TABLE, name, hidden=shape.hidden, shown=shape.shown)
