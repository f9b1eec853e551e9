"""A table made anew from its topic, beside the live one, and put in its place by one commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import NoReturn

from headwater.errors import Code, TerminalError, UsageError
from headwater.flows import Intent, Ledger, Positions, flow_name
from headwater.formats.base import Address
from headwater.model import At, Kind, Mark, Version
from headwater.project.graph import Name, graph_of
from headwater.runtime.holding import holding
from headwater.runtime.tables import applied_from, applied_input, applied_target, remember_shape
from headwater.session import activate, fork
from headwater.spec import Table, layout_of
from headwater.tables.apply.shape import Shape
from headwater.warehouse import Warehouse, fingerprint

BESIDE = "__replay"


@dataclass(frozen=True)
class Replayed:
    """What a replay made."""

    topic: str
    topic_version: Version
    table: str
    version: Version
    changes: int
    paused: bool
    """The table stays at a state of the past: its flow is paused."""


def replay_into(warehouse: Warehouse, topic: str, table: str, until: At | None = None) -> Replayed:
    """Apply a topic's changes from the first on, up to now or to what the topic was at a version or time."""
    definition = _applied(warehouse, topic, table)
    flow = flow_name(table, Kind.TABLE)
    with holding(warehouse, flow) as guard:
        spark = fork(warehouse.spark)
        activate(spark)
        relation = applied_from(warehouse, table, spark)
        end = (relation if until is None else replace(relation, at=until)).place()
        if end is None:
            raise UsageError(Code.NO_SUCH_RELATION, f"topic '{topic}' has no data yet")
        live = warehouse.table(Kind.TABLE, table, spark)
        beside = live.format.spark(spark, _beside(live.address), warehouse.around)
        beside.drop()
        shapes: list[Shape] = []
        target = applied_target(warehouse, definition, beside, guard, shapes.append)
        source = applied_input(warehouse, definition, relation, _changed, end)
        positions: Positions = {}
        step = count = 0
        try:
            while (ahead := source.next(positions)) is not None:
                to = source.settle(positions, ahead)
                mark = Mark(f"replays.{flow}", 1, step, to)
                intent = Intent(1, step, positions, to, "", datetime.now(timezone.utc))
                count += target.commit(source.read(positions, to), intent, mark).rows or 0
                positions, step = to, step + 1
            # An epoch of one step so far, which is this one: cut off before it lands, the flow does it again.
            ledger = Ledger(warehouse.files, flow)
            epoch = ledger.restart(empty=True).number
            intent = Intent(epoch, 0, {}, positions, fingerprint(definition), datetime.now(timezone.utc))
            ledger.write(intent)
            if live.exists():
                live.evolve(beside.schema())
            else:
                live.create(beside.schema(), layout_of(definition))
            remember_shape(warehouse, table, shapes[-1])
            guard()
            version = live.replace(beside.read(), intent.mark(flow))
        finally:
            beside.drop()
        if until is not None:
            warehouse.state.set_control(flow, paused=True)
    assert end.version is not None
    return Replayed(topic, end.version, table, version, count, until is not None)


def _applied(warehouse: Warehouse, topic: str, table: str) -> Table:
    if topic not in warehouse.names(Kind.TOPIC):
        raise warehouse.unknown(Kind.TOPIC, topic)
    definition = warehouse.definition(Kind.TABLE, table)
    assert isinstance(definition, Table)
    reads = [each.of for each in graph_of(warehouse.project).inputs[Name(Kind.TABLE, table)]]
    if definition.apply is None or reads != [Name(Kind.TOPIC, topic)]:
        raise UsageError(
            Code.USAGE,
            f"table '{table}' does not apply the changes of topic '{topic}'",
            where=definition.where,
            hint=f"`from: topic('{topic}')` with `apply` does; others are made anew by headwater flow rebuild",
        )
    return definition


def _changed(reason: str) -> NoReturn:
    raise TerminalError(Code.SOURCE_CHANGED, f"{reason} while it was replayed", hint="replay it again")


def _beside(address: Address) -> Address:
    if address.table is not None:
        return Address(table=address.table + BESIDE)
    return Address(path=(address.path or "").rstrip("/") + BESIDE)
