"""A table rebuilt from its topic, while the live one is read as before, and put in its place by one commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import NoReturn

from headwater.core.errors import Code, TerminalError, UsageError
from headwater.core.model import At, Kind, Version
from headwater.core.record import Record
from headwater.core.spec import Table, layout_of
from headwater.flows.ledger import Intent, Ledger, Positions, flow_name
from headwater.flows.retention import removed_before
from headwater.flows.step import Landed, Step, StepEngine
from headwater.formats.base import Address
from headwater.incremental.relations import InputRelation, RelationVersion, relation_of
from headwater.project.graph import Name, graph_of
from headwater.project.transforms import streaming_tables
from headwater.runner.holds import holding
from headwater.runner.setups.setup import Guard
from headwater.runner.setups.tables import applied_input, applied_target, computed_flow, remember_shape
from headwater.spark.session import activate, fork
from headwater.tables.apply.shape import Shape
from headwater.warehouse import Warehouse, fingerprint

REPLAY_SUFFIX = "__replay"


@dataclass(frozen=True)
class RebuiltTable(Record):
    """What a replay made."""

    topic: str
    topic_version: Version
    table: str
    version: Version
    changes: int
    paused: bool
    """The table stays at a state of the past: its flow is paused."""


def replay_into(
    warehouse: Warehouse, topic: str, table: str, until: At | None = None, *, may_remove: bool = False
) -> RebuiltTable:
    """Make a table of a topic's rows from the first on, up to now or to what the topic was at a version or time.

    Where retention has removed rows of the topic, what the table has of them goes: refused unless `may_remove`.
    """
    definition = _made_from(warehouse, topic, table)
    removed = removed_before(warehouse.files, flow_name(topic))
    if removed is not None and not may_remove:
        raise UsageError(
            Code.USAGE,
            f"rows of topic '{topic}' from before {removed} were removed by `retain.rows`: what table '{table}' has of"
            " them would go",
            where=definition.where,
            hint="confirm with --yes",
        )
    flow = flow_name(table, Kind.TABLE)
    with holding(warehouse, flow) as guard:
        spark = fork(warehouse.spark)
        activate(spark)
        relation = relation_of(warehouse, Kind.TOPIC, topic, spark, keeps_removed=True)
        end = (relation if until is None else replace(relation, at=until)).current()
        if end is None:
            raise UsageError(Code.NO_SUCH_RELATION, f"topic '{topic}' has no data yet")
        remake = _applied if definition.apply is not None else _computed
        version, count = remake(warehouse, definition, relation, end, guard)
        if until is not None:
            warehouse.state.set_control(flow, paused=True)
    assert end.version is not None
    return RebuiltTable(topic, end.version, table, version, count, until is not None)


def _computed(
    warehouse: Warehouse, definition: Table, relation: InputRelation, end: RelationVersion, guard: Guard
) -> tuple[Version, int]:
    """By its query or function over all rows, in one commit; the version, and how many rows of the topic it read."""
    flow = computed_flow(warehouse, definition, relation.spark, guard)
    if flow is None or relation.label not in flow.refresher.view_query.driving:
        raise _not_made_from(definition, relation.name)
    done = flow.replay(relation.label, end, f"{relation.label} is replayed")
    assert done.landed.version is not None
    return done.landed.version, relation.rows(end).count()


def _applied(
    warehouse: Warehouse, definition: Table, relation: InputRelation, end: RelationVersion, guard: Guard
) -> tuple[Version, int]:
    """By its changes, in a table alongside the live one; the version, and how many changes there were."""
    name, spark = definition.name, relation.spark
    flow = flow_name(name, Kind.TABLE)
    live = warehouse.table(Kind.TABLE, name, spark)
    staging = live.format.spark(spark, _alongside(live.address), warehouse.context)
    staging.drop()
    shapes: list[Shape] = []
    target = applied_target(warehouse, definition, staging, guard, shapes.append)
    source = applied_input(warehouse, definition, relation, _changed, end)
    positions: Positions = {}
    step = count = 0
    try:
        while (ahead := source.next(positions)) is not None:
            to = source.fix_range(positions, ahead)
            alongside = Step(f"replays.{flow}", Intent(1, step, positions, to, "", datetime.now(timezone.utc)))
            count += target.commit(source.read(positions, to), alongside).rows or 0
            positions, step = to, step + 1
        # An epoch of one step so far, which is this one: cut off before it lands, the flow does it again.
        ledger = Ledger(warehouse.files, flow)
        ledger.restart(empty=True)
        engine = StepEngine(flow, fingerprint(definition), ledger, target, record=warehouse.state.note)
        whole = engine.begin({}, positions)
        if live.exists():
            live.evolve(staging.schema())
        else:
            live.create(staging.schema(), layout_of(definition))
        remember_shape(warehouse, name, shapes[-1])
        guard()
        version = live.replace(staging.read(), whole.commit_tag)
        engine.note(whole, Landed(version, count))
        return version, count
    finally:
        staging.drop()


def _made_from(warehouse: Warehouse, topic: str, table: str) -> Table:
    """The table's definition, if the topic's rows make it."""
    if topic not in warehouse.names(Kind.TOPIC):
        raise warehouse.unknown(Kind.TOPIC, topic)
    definition = warehouse.definition(Kind.TABLE, table)
    assert isinstance(definition, Table)
    project = warehouse.project
    reads = [each.of for each in graph_of(project).inputs[Name(Kind.TABLE, table)]]
    if Name(Kind.TOPIC, topic) not in reads or table in streaming_tables(project):
        raise _not_made_from(definition, topic)
    return definition


def _not_made_from(definition: Table, topic: str) -> UsageError:
    return UsageError(
        Code.USAGE,
        f"table '{definition.name}' can't be replayed from topic '{topic}'",
        where=definition.where,
        hint="a topic can only be replayed into a table that it drives: `apply`, `sql` or a `transform` on changes; "
        f"`headwater flow rebuild tables.{definition.name} --yes` rebuilds it otherwise",
    )


def _changed(reason: str) -> NoReturn:
    raise TerminalError(Code.SOURCE_CHANGED, f"{reason} while it was replayed", hint="replay it again")


def _alongside(address: Address) -> Address:
    if address.table is not None:
        return Address(table=address.table + REPLAY_SUFFIX)
    return Address(path=(address.path or "").rstrip("/") + REPLAY_SUFFIX)
