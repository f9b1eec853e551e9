"""Who still needs which old version: the one place that expiry asks, and that says it to people.

Flows hold the versions that their last step has read from and to, streams the one that they go on from, labels the
versions that they stand for. Whoever leaves no such trace in the lake (an open query, a reader of the files in another
format) registers what it holds: `Warehouse.state.put_hold`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from headwater.core.model import Kind, Version
from headwater.core.record import Record
from headwater.exports.interop.targets import records
from headwater.flows.ledger import Ledger, Positions, flow_name
from headwater.formats.feed_folders import feed_versions
from headwater.operations.tags import tags_of
from headwater.runner.setups.setup import flow_names
from headwater.warehouse import Warehouse


@dataclass(frozen=True)
class Hold(Record):
    """A version of a relation that is not to be expired, and who needs it."""

    relation: str
    version: Version
    holder: str
    """`flow views.hourly`, `label audit`, `a query since 12:04:05 UTC`."""


HoldsOf = Callable[[Warehouse], Iterator[Hold]]


def _flows(warehouse: Warehouse) -> Iterator[Hold]:
    """A flow that is behind reads the changes from where its last step has come to."""
    for flow in flow_names(warehouse):
        last = Ledger(warehouse.files, flow).last()
        for positions in () if last is None else (last.start, last.end):
            for relation, position in positions.items():
                if isinstance(position, dict) and position.get("version") is not None:
                    yield Hold(relation, int(position["version"]), f"flow {flow}")
            yield from _streamed(warehouse, flow, positions)


def _streamed(warehouse: Warehouse, flow: str, positions: Positions) -> Iterator[Hold]:
    """A streaming query says of Delta tables which version comes next; not which of its inputs that is."""
    offsets = positions.get("offsets")
    next_ones = [
        one["reservoirVersion"] for one in offsets or () if isinstance(one, dict) and "reservoirVersion" in one
    ]
    if not next_ones:
        return
    from headwater.project.graph import Name, graph_of  # with a parser of SQL

    name = flow.partition(".")[2]
    for each in graph_of(warehouse.project).inputs.get(Name(Kind.TABLE, name), ()):
        yield Hold(str(each.of), max(min(next_ones) - 1, 0), f"flow {flow}")


def _streams(warehouse: Warehouse) -> Iterator[Hold]:
    """A stream that reads files made for it goes on from the version that the last of them were made of."""
    for record in warehouse.state.relations():
        address = warehouse.address(record.kind, record.name)
        for consumer, version in feed_versions(address, warehouse.context).items():
            yield Hold(flow_name(record.name, record.kind), version, f"stream {consumer}")


def _labels(warehouse: Warehouse) -> Iterator[Hold]:
    for record in warehouse.state.relations():
        for tag in tags_of(warehouse, record.kind, record.name):
            yield Hold(flow_name(record.name, record.kind), tag.version, f"label {tag.label}")


def _registered(warehouse: Warehouse) -> Iterator[Hold]:
    for record in warehouse.state.holds():
        yield Hold(flow_name(record.name, record.kind), record.version, record.holder)


def _interop(warehouse: Warehouse) -> Iterator[Hold]:
    """Tables of other formats name the files of the versions that they were made of."""
    for record in records(warehouse.files):
        for version in record.held:
            yield Hold(record.relation, version, f"interop {record.format}")


HOLDERS: tuple[HoldsOf, ...] = (_flows, _streams, _labels, _registered, _interop)
"""Every kind of holder; another one has its line here."""


@dataclass(frozen=True)
class Holds:
    """What was held at a moment."""

    by_relation: dict[str, list[Hold]]

    @staticmethod
    def of(warehouse: Warehouse) -> Holds:
        """Ask all that may hold something."""
        holds: defaultdict[str, list[Hold]] = defaultdict(list)
        for holder in HOLDERS:
            for hold in holder(warehouse):
                if hold not in holds[hold.relation]:
                    holds[hold.relation].append(hold)
        return Holds(dict(holds))

    def on(self, kind: Kind, name: str) -> list[Hold]:
        """Those on a relation, the oldest version first."""
        return sorted(self.by_relation.get(flow_name(name, kind), ()), key=lambda hold: (hold.version, hold.holder))

    def versions(self, kind: Kind, name: str) -> frozenset[Version]:
        """The versions of a relation that are not to be expired."""
        return frozenset(hold.version for hold in self.on(kind, name))


def expire(warehouse: Warehouse, kind: Kind, name: str, older_than: datetime) -> list[Version]:
    """Forget the versions older than a time that nobody needs; returns those that went."""
    table = warehouse.existing(kind, name)
    return list(table.expire(older_than, keep=Holds.of(warehouse).versions(kind, name)).versions)
