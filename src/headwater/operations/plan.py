"""What a run would do to the lake, with what that reads; and doing it, before the flows begin."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.model import Kind
from headwater.core.spec import Table
from headwater.core.state import RelationRecord
from headwater.core.storage import Files
from headwater.flows.flow import Ledger, flow_name
from headwater.formats.base import Address, Capability
from headwater.formats.registry import FORMATS
from headwater.operations.restore import readers
from headwater.project.graph import Dependency, Name, graph_of
from headwater.project.plan import Action, Effect, PlannedChange, plan
from headwater.query import gathered
from headwater.runner.control import holding_alone
from headwater.views.forward import carry_forward, keep_on
from headwater.warehouse import Warehouse


@dataclass(frozen=True)
class InitialRead:
    """What is read from its beginning; bytes where they can be told without Spark, at most so many."""

    name: str
    bytes: int | None


def planned(warehouse: Warehouse) -> list[dict[str, Any]]:
    """The plan as people and programs read it."""
    return [
        {
            "relation": str(one.name),
            "action": one.action.value,
            "why": [*one.why, *_redone(warehouse, one), *_followed(warehouse, one)],
            "reads": [{"name": r.name, "bytes": r.bytes} for r in _readings(warehouse, one.reads)],
            "needs_apply": one.destructive,
        }
        for one in plan(warehouse.project, warehouse.state.relations())
    ]


def _redone(warehouse: Warehouse, step: PlannedChange) -> list[str]:
    """How the rows that a changed query leaves as they are could be made anew, and what that would read."""
    if not step.goes_on:
        return []
    inputs = [str(each.of) for each in graph_of(warehouse.project).inputs[step.name]]
    read = [
        reading.name if reading.bytes is None else f"{reading.name} (at most {reading.bytes:,} bytes)"
        for reading in _readings(warehouse, list(dict.fromkeys(inputs)))
    ]
    return [f"headwater flow rebuild {step.name} --yes would make all of its rows by it, from {', '.join(read)}"]


def _followed(warehouse: Warehouse, step: PlannedChange) -> list[str]:
    """What else gets other rows when a relation is made anew."""
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
    return [f"after that {names}, made from it, {'is' if len(found) == 1 else 'are'} brought up to it or made anew too"]


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


def require_applied(
    warehouse: Warehouse, steps: Sequence[PlannedChange], *, apply: bool, command: str = "headwater run --apply"
) -> None:
    """Refuse what takes rows away, unless `apply` says that it may; `command` is the one that would do it."""
    refused = [one for one in steps if one.destructive]
    if refused and not apply:
        first = refused[0]
        more = "" if len(refused) == 1 else f" (and {len(refused) - 1} more)"
        raise UsageError(
            Code.DESTRUCTIVE_CHANGE,
            f"{first.name} would be rebuilt{more}: {'; '.join(first.why)}",
            where=warehouse.definition(first.name.kind, first.name.name).where,
            hint=f"headwater plan shows all of it; {command} does it",
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
            table.repartition(wanted.after)
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
            if known and record.made_from is None and record.origin == "project":
                warehouse.remember(kind, record.name, hidden=record.hidden, shown=record.shown)


def _readings(warehouse: Warehouse, names: Sequence[str]) -> list[InitialRead]:
    records = {flow_name(record.name, record.kind): record for record in warehouse.state.relations()}
    return [InitialRead(name, _size(warehouse, records[name]) if name in records else None) for name in names]


def _size(warehouse: Warehouse, record: RelationRecord) -> int | None:
    """Of the files of its latest version; where only a folder tells, of the Parquet files that lie there."""
    format, address = FORMATS.get(record.format), Address(record.path, record.table)
    try:
        light = None if format.light is None else format.light(address, warehouse.around)
        if light is not None and light.version() is None:
            return None  # recorded, and not there
        known = None if light is None else light.size()
        if known is not None or record.path is None:
            return known
        files = Files(record.path, warehouse.around.storage)
        return sum(entry.bytes for entry in files.list(recursive=True) if entry.name.endswith(".parquet"))
    except HeadwaterError:
        return None
