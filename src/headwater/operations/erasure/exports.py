"""Copies of erased rows: streams take the removal in, or are copied again; snapshots, which nobody keeps, are named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.core.errors import HeadwaterError
from headwater.core.record import Record
from headwater.core.spec import Export
from headwater.exports.definitions import streams
from headwater.exports.selection import relation_named
from headwater.flows.ledger import Ledger, flow_name
from headwater.incremental.relations import relation_of
from headwater.project.graph import Name
from headwater.runner.setups.exports import export_setups
from headwater.runner.setups.setup import FlowSetup, Guard, export_flow
from headwater.warehouse import Warehouse

DELETED, COPIED, LEFT = "rows deleted", "copied again", "left as it is"


@dataclass(frozen=True)
class ErasedExport(Record):
    """A copy of what was erased."""

    export: str
    """Its flow, `exports.x`, or the id of its job."""
    destination: str
    outcome: str
    """`rows deleted`: its present rows are without them, by key; `copied again`: it was made again; `left as it is`: a
    snapshot, or a copy that could not be reached, which may hold them."""
    error: str | None = None


def streams_of(warehouse: Warehouse, relations: Sequence[Name]) -> dict[str, Export]:
    """The streaming exports of some relations, by their flows."""
    found = {}
    for name, definition in streams(warehouse).items():
        if Name(*relation_named(warehouse, definition.from_)) in relations:
            found[export_flow(name)] = definition
    return found


def erase_in_stream(warehouse: Warehouse, flow: str, definition: Export, guard: Guard) -> ErasedExport:
    """Let a streaming export take the removal in. Older versions of its target are the owner's to expire."""
    from headwater.operations.erasure.readers import take_all

    setup: FlowSetup = next(one for one in export_setups(warehouse) if one.flow == flow)
    outcome = DELETED if definition.primary_key else COPIED
    try:
        if not definition.primary_key:
            Ledger(warehouse.files, flow).restart(empty=True)
        take_all(warehouse, setup, guard)
        if not _reads_now(
            warehouse, flow, definition
        ):  # nothing of the copy changed, and it still reads an old version
            outcome = COPIED
            Ledger(warehouse.files, flow).restart(empty=True)
            take_all(warehouse, setup, guard)
    except HeadwaterError as error:
        return ErasedExport(flow, definition.to, LEFT, str(error.problem.message))
    return ErasedExport(flow, definition.to, outcome)


def _reads_now(warehouse: Warehouse, flow: str, definition: Export) -> bool:
    """Whether the stream's last step names the present version of what it copies."""
    last = Ledger(warehouse.files, flow).last()
    kind, name = relation_named(warehouse, definition.from_)
    now = relation_of(warehouse, kind, name, warehouse.spark).current()
    return last is None or now is None or last.end[flow_name(name, kind)]["version"] == now.version


def snapshots_of(warehouse: Warehouse, relations: Sequence[Name]) -> Iterator[ErasedExport]:
    """Snapshots that were taken of some relations, the newest of each destination."""
    labels = {flow_name(name.name, name.kind) for name in relations}
    seen = set[str]()
    for job in reversed(warehouse.state.exports()):
        read = set(json.loads(job.position or "{}")) | {job.source}
        if job.mode == "snapshot" and job.rows and read & labels and job.destination not in seen:
            seen.add(job.destination)
            yield ErasedExport(job.id, job.destination, LEFT)
