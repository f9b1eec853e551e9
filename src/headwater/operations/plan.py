"""What a run would do to the lake, with what that reads; and doing it, before the flows begin."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.model import Kind
from headwater.core.record import Record
from headwater.core.spec import Table
from headwater.core.state import RelationRecord
from headwater.core.storage import Files
from headwater.core.units import readable_size
from headwater.flows.ledger import Epoch, Ledger, flow_name
from headwater.formats.base import Address, Capability
from headwater.formats.registry import FORMATS
from headwater.operations.restore import readers
from headwater.project.graph import Dependency, Name, graph_of
from headwater.project.plan import Action, Difference, Effect, PlannedChange, plan
from headwater.query import gathered
from headwater.runner.control import holding_alone
from headwater.runner.leases import held
from headwater.runner.setups.setup import flow_names
from headwater.tables.forward import carry_forward, keep_on
from headwater.warehouse import Warehouse


@dataclass(frozen=True)
class InitialRead(Record):
    """What is read from its beginning; bytes where they can be told without Spark, at most so many."""

    name: str
    bytes: int | None


@dataclass(frozen=True)
class StartOver(Record):
    """A flow that starts over with its next step."""

    epoch: int
    """The epoch begun for that."""
    empty: bool
    """Its table is emptied first."""


@dataclass(frozen=True)
class PlannedAction(Record):
    """What a run would do to a relation."""

    relation: str
    action: str
    """create, change, rebuild, reset, or leave."""
    why: tuple[str, ...]
    reads: tuple[InitialRead, ...] = ()
    needs_apply: bool = False
    """It takes rows away, and is done only if that is asked for."""
    applied_by: str | None = None
    """The command that has it done, where a run would not do it by itself."""
    differences: tuple[Difference, ...] = ()
    """The keys of its definition that are not what they were."""
    downstream: tuple[str, ...] = ()
    """The tables and views that read it, directly or through others, the nearest first."""
    pending: StartOver | None = None


def planned(warehouse: Warehouse) -> list[PlannedAction]:
    """The plan as people and programs read it; after what differs from the project, what else is still to be done."""
    warehouse.require_lake()
    beside_a_runner = _is_run(warehouse)
    waiting = pending(warehouse)
    steps = plan(warehouse.project, warehouse.state.relations())
    found = [
        PlannedAction(
            relation=str(one.name),
            action=one.action.value,
            why=(
                *one.why,
                *(_until_reload(one) if beside_a_runner else ()),
                *_redone(warehouse, one),
                *_remapped(warehouse, one),
                *_read_again(one),
                *_followed(warehouse, one),
            ),
            reads=tuple(_readings(warehouse, one.reads)),
            needs_apply=one.destructive,
            applied_by=_applied_by(warehouse, one, beside_a_runner),
            differences=one.differences,
            downstream=tuple(str(name) for name in downstream(warehouse, one.name)),
            pending=waiting.pop(str(one.name), None),
        )
        for one in steps
    ]
    names = {flow_name(name, kind): Name(kind, name) for kind in Kind for name in warehouse.names(kind)}
    return [
        *found,
        *(
            PlannedAction(
                relation=flow,
                action="rebuild" if told.empty else "reset",
                why=(_waits(told),),
                downstream=tuple(str(name) for name in downstream(warehouse, names[flow])) if flow in names else (),
                pending=told,
            )
            for flow, told in waiting.items()
        ),
    ]


def pending(warehouse: Warehouse) -> dict[str, StartOver]:
    """The flows that start over with their next step: the epoch begun for that, and whether they are emptied."""
    found = {}
    for flow in flow_names(warehouse):
        ledger = Ledger(warehouse.files, flow)
        epoch = ledger.epoch()
        if epoch != Epoch() and ledger.last() is None:
            found[flow] = StartOver(epoch.number, epoch.empty)
    return found


def _waits(told: StartOver) -> str:
    rows = (
        "the table is emptied, and filled with what its source still gives"
        if told.empty
        else ("its source is read from the beginning, into the rows that are there")
    )
    return f"it starts over: with the first step of epoch {told.epoch} {rows}"


def downstream(warehouse: Warehouse, of: Name) -> list[Name]:
    """The tables and views that read a relation, directly or through others, the nearest first."""
    found: dict[Name, None] = {}
    waiting = [of]
    for each in waiting:
        more = [name for name in readers(warehouse, each) if name not in found and name != of]
        found.update(dict.fromkeys(more))
        waiting += more
    return list(found)


def _applied_by(warehouse: Warehouse, step: PlannedChange, beside_a_runner: bool) -> str | None:
    """The command that does a change; None: the next run does it by itself."""
    if step.destructive:
        return apply_command(warehouse, [step])
    return "headwater reload" if beside_a_runner and step.action is not Action.LEAVE else None


def _is_run(warehouse: Warehouse) -> bool:
    """Whether flows of this lake run on this machine: by the project as it was when they began."""
    now = warehouse.state.now()
    leases = [held(record, now) for record in warehouse.state.leases().values()]
    return any(one.live and one.holder.is_on_this_machine for one in leases)


def _until_reload(step: PlannedChange) -> list[str]:
    """What is rebuilt before a runner has read the project again is made by the old definition."""
    if step.action is not Action.CHANGE:
        return []
    return ["a runner is up and goes on by the old definition; `headwater reload` first"]


def _redone(warehouse: Warehouse, step: PlannedChange) -> list[str]:
    """How the rows that a changed query leaves as they are could be rebuilt, and what that would read."""
    if not step.goes_on:
        return []
    inputs = [str(each.of) for each in graph_of(warehouse.project).inputs[step.name]]
    read = [
        reading.name if reading.bytes is None else f"{reading.name} (at most {readable_size(reading.bytes)})"
        for reading in _readings(warehouse, list(dict.fromkeys(inputs)))
    ]
    return [f"headwater flow rebuild {step.name} --yes would make all of its rows by it, from {', '.join(read)}"]


def _remapped(warehouse: Warehouse, step: PlannedChange) -> list[str]:
    """What applies a changed selection or mapping to the rows that are there."""
    if not step.is_remapped:
        return []
    name, record = step.name.name, warehouse.record(*step.name)
    kept = record is not None and json.loads(record.made_from or "{}").get("keep_raw")
    if kept and warehouse.format(*step.name).can(Capability.REPLACE):
        dry = f"headwater topic remap {name} --dry-run shows what it would do to the rows that are there"
        return [f"{dry}, headwater topic remap {name} does it"]
    return [f"headwater flow rebuild {step.name} --yes would make all rows by it, of what the source still gives"]


def _read_again(step: PlannedChange) -> list[str]:
    """What becomes of the rows that a changed source has given."""
    if not step.reads_otherwise or step.action is not Action.CHANGE:
        return []
    rebuild = f"headwater flow rebuild {step.name} --yes would make all rows by it, of what the source still gives"
    return [f"its positions stay: what was read is not read again, and a column keeps its type; {rebuild}"]


def _followed(warehouse: Warehouse, step: PlannedChange) -> list[str]:
    """What else gets other rows when a relation is rebuilt."""
    if step.action is not Action.REBUILD:
        return []
    inputs = graph_of(warehouse.project).inputs
    found, waiting = list[Name](), [step.name]
    while waiting:
        of = waiting.pop()
        more = [name for name in readers(warehouse, of) if name not in found]
        driven = [name for name in more if name not in inputs or _drives(inputs[name], of)]
        found += driven
        waiting += driven
    if not found:
        return []
    names = ", ".join(map(str, found))
    return [f"after that {names}, made from it, {'is' if len(found) == 1 else 'are'} brought up to it or rebuilt too"]


def _drives(inputs: Sequence[Dependency], of: Name) -> bool:
    """Whether what changes in a relation changes who reads it; what is only looked up does not."""
    whole = not any(each.reference.driving for each in inputs)
    found = [each.reference for each in inputs if each.of == of]
    return any(one.driving or one.temporal or (whole and not one.latest) for one in found)


def prepare(warehouse: Warehouse, flows: Collection[str], *, apply: bool) -> None:
    """Before the flows begin: what can be changed in place is; what takes rows away only if `apply` says so."""
    steps = [one for one in plan(warehouse.project, warehouse.state.relations()) if str(one.name) in flows]
    require_applied(warehouse, steps, apply=apply)
    for step in steps:
        _do(warehouse, step)
    _note_unknown(warehouse, flows)


def apply_command(warehouse: Warehouse, steps: Sequence[PlannedChange]) -> str:
    """What does a change that takes rows away: a runner that has one of the flows is asked, else a run is begun."""
    now, leases = warehouse.state.now(), warehouse.state.leases()
    is_run = any(str(one.name) in leases and held(leases[str(one.name)], now).live for one in steps)
    return "headwater reload --apply" if is_run else "headwater run --apply"


def require_applied(warehouse: Warehouse, steps: Sequence[PlannedChange], *, apply: bool) -> None:
    """Refuse what takes rows away, unless `apply` says that it may."""
    refused = [one for one in steps if one.destructive]
    if refused and not apply:
        first = refused[0]
        more = "" if len(refused) == 1 else f" (and {len(refused) - 1} more)"
        raise UsageError(
            Code.DESTRUCTIVE_CHANGE,
            f"{first.name} would be rebuilt{more}: {'; '.join(first.why)}",
            where=warehouse.definition(first.name.kind, first.name.name).where,
            hint=f"`headwater plan` shows all of it; `{apply_command(warehouse, refused)}` does it",
        )


def _do(warehouse: Warehouse, step: PlannedChange) -> None:
    kind, name = step.name
    if kind is Kind.VIEW and step.action is Action.REBUILD:
        return  # its own flow sees that its query is another one
    if step.action is Action.REBUILD:
        flow = flow_name(name, kind)
        with holding_alone(warehouse, flow):
            Ledger(warehouse.files, flow).restart(empty=True)
            if step.remade:
                warehouse.table(kind, name).drop()
                warehouse.state.remove(kind, name)
                gathered.forget(warehouse, kind, name)
            else:
                _remember(warehouse, step)
    elif step.action is Action.CHANGE:
        wanted = next((one for one in step.differences if one.effect is Effect.PARTITION), None)
        if wanted is not None:
            table = warehouse.existing(kind, name)
            table.format.require(Capability.EVOLVE_PARTITIONING)
            table.repartition(cast(Sequence[str], wanted.after))
        definition = warehouse.definition(kind, name)
        if kind is Kind.VIEW:
            with holding_alone(warehouse, flow_name(name, kind)):
                keep_on(warehouse, name)
        elif isinstance(definition, Table) and (definition.sql is not None or definition.transform is not None):
            with holding_alone(warehouse, flow_name(name, kind)):
                carry_forward(warehouse, definition, other=step.goes_on)
        _remember(warehouse, step)


def _remember(warehouse: Warehouse, step: PlannedChange) -> None:
    """The definition that it is kept by from now on."""
    record = warehouse.record(*step.name)
    assert record is not None
    warehouse.remember(*step.name, hidden=record.hidden, shown=record.shown)


def _note_unknown(warehouse: Warehouse, flows: Collection[str]) -> None:
    """What an earlier release made is taken to be as the project says now."""
    for kind in (Kind.TOPIC, Kind.TABLE):
        for record in warehouse.state.relations(kind):
            known = record.name in warehouse.project.relations(kind) and flow_name(record.name, kind) in flows
            told = record.made_from is not None and (kind is not Kind.TOPIC or record.source is not None)
            if known and not told and record.origin == "project":
                warehouse.remember(kind, record.name, hidden=record.hidden, shown=record.shown)


def _readings(warehouse: Warehouse, names: Sequence[str]) -> list[InitialRead]:
    records = {flow_name(record.name, record.kind): record for record in warehouse.state.relations()}
    return [InitialRead(name, _size(warehouse, records[name]) if name in records else None) for name in names]


def _size(warehouse: Warehouse, record: RelationRecord) -> int | None:
    """Of the files of its latest version; where only a folder tells, of the Parquet files that lie there."""
    format, address = FORMATS.get(record.format), Address(record.path, record.table)
    try:
        native = None if format.native is None else format.native(address, warehouse.context)
        if native is not None and native.version() is None:
            return None  # recorded, and not there
        known = None if native is None else native.size()
        if known is not None or record.path is None:
            return known
        files = Files(record.path, warehouse.context.storage)
        return sum(entry.bytes for entry in files.list(recursive=True) if entry.name.endswith(".parquet"))
    except HeadwaterError:
        return None
