"""The end of a topic: its table, its flow's ledger and, when asked, what it leaves in other places."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.core.errors import Code, UsageError
from headwater.core.model import Kind
from headwater.core.record import Record
from headwater.core.spec import Topic
from headwater.exports.interop.sync import drop_targets
from headwater.flows.ledger import Ledger, flow_name
from headwater.ingest.dead_letters import DeadLetters
from headwater.operations import tags
from headwater.project.graph import Name
from headwater.query import gathered
from headwater.runner.control import holding_alone
from headwater.runner.setups.stream_inputs import restart_streams
from headwater.runner.setups.topics import sharing
from headwater.sources.postgres.cdc import teardown
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.postgres.cdc.copied import require_own_slot
from headwater.views.retired import Retired
from headwater.warehouse import Warehouse


@dataclass(frozen=True)
class DroppedTopic(Record):
    """What became of a topic."""

    topic: str
    dead_letters: int
    """How many were dropped with it."""
    slot: str | None
    """The replication slot of its source, where no other topic needs it any more."""
    slot_dropped: bool
    defined: bool
    """It is still in the project: the next run makes it again."""


@dataclass(frozen=True)
class DroppedTable(Record):
    """What became of a table."""

    table: str
    defined: bool
    """It is still in the project: the next run makes it again."""


def drop(warehouse: Warehouse, name: str, *, dead_letters: bool = False, slot: bool = False) -> DroppedTopic:
    """Drop a topic that no runner holds; `slot`: also the replication slot and publication that only it used."""
    if name not in warehouse.names(Kind.TOPIC):
        raise warehouse.unknown(Kind.TOPIC, name)
    project, flow = warehouse.project, flow_name(name)
    definition = project.topics.get(name)
    source = project.sources.get(definition.from_) if isinstance(definition, Topic) else None
    with holding_alone(warehouse, flow):
        left = None
        if isinstance(source, PostgresCdcSource) and isinstance(definition, Topic):
            shared = sharing(warehouse, definition)
            others = teardown.others(shared.files, shared.flows, flow)
            if slot and others:
                raise UsageError(
                    Code.USAGE,
                    f"the replication slot is still needed by {', '.join(others)}",
                    hint="drop the topic without --drop-slot",
                )
            left = None if others else teardown.names(source, project.name)[0]
            if slot and left is not None:
                require_own_slot(shared.files, left, source.where)
        elif slot:
            raise UsageError(Code.USAGE, f"topic '{name}' has no replication slot", hint="leave --drop-slot out")
        if slot and isinstance(source, PostgresCdcSource):
            teardown.take_down(source, project.name)
        dropped = _drop(warehouse, name, dead_letters)
        if isinstance(source, PostgresCdcSource) and isinstance(definition, Topic):
            teardown.forget(sharing(warehouse, definition).files, flow)
    return DroppedTopic(name, dropped, left, slot, definition is not None)


def drop_table(warehouse: Warehouse, name: str) -> DroppedTable:
    """Drop a table that no runner holds, and all that its flow remembers."""
    if name not in warehouse.names(Kind.TABLE):
        raise warehouse.unknown(Kind.TABLE, name)
    flow = flow_name(name, Kind.TABLE)
    with holding_alone(warehouse, flow):
        drop_targets(warehouse, Kind.TABLE, name)
        restart_streams(warehouse, Name(Kind.TABLE, name))
        Ledger(warehouse.files, flow).restart(empty=True)  # as for a topic
        warehouse.table(Kind.TABLE, name).drop()
        Retired(warehouse.files, flow).drop(warehouse.spark, warehouse.context, at_once=True)
        warehouse.state.remove(Kind.TABLE, name)
        tags.forget(warehouse, Kind.TABLE, name)
        gathered.forget(warehouse, Kind.TABLE, name)
        warehouse.files.delete(f"_headwater/flows/{flow}")
    return DroppedTable(name, name in warehouse.project.tables)


def _drop(warehouse: Warehouse, name: str, dead_letters: bool) -> int:
    flow = flow_name(name)
    drop_targets(warehouse, Kind.TOPIC, name)
    # Cut off in the middle, the next run starts over with an empty table, and goes on with nothing of the old one.
    restart_streams(warehouse, Name(Kind.TOPIC, name))
    Ledger(warehouse.files, flow).restart(empty=True)
    spark = warehouse.spark
    letters = DeadLetters(spark, warehouse.context)
    gone = letters.drop(name, letters.ids(name, whole=True)) if dead_letters else 0
    warehouse.table(Kind.TOPIC, name).drop()
    warehouse.state.remove(Kind.TOPIC, name)
    tags.forget(warehouse, Kind.TOPIC, name)
    gathered.forget(warehouse, Kind.TOPIC, name)
    for folder in (flow, f"replays.{name}"):
        warehouse.files.delete(f"_headwater/flows/{folder}")
    return gone
