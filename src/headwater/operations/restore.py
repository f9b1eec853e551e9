"""A table set back to what it was: one commit more, so that nothing of the past is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.core.errors import Code, UsageError
from headwater.core.model import At, Kind, Version
from headwater.core.record import Record
from headwater.flows.ledger import flow_name
from headwater.project.graph import Name, graph_of
from headwater.project.runnable import kept_tables
from headwater.runner.holds import holding
from headwater.spark.session import activate, fork
from headwater.sql.names import Reference
from headwater.sql.references import parse_query, references
from headwater.warehouse import Warehouse


@dataclass(frozen=True)
class Restored(Record):
    """What a restore did, or would do."""

    table: str
    from_version: Version
    to_version: Version
    version: Version | None
    """The version that it made; None: it has not been done."""
    consequences: tuple[str, ...]


def restore(warehouse: Warehouse, name: str, at: At, *, do: bool) -> Restored:
    """Make a table's rows those of an earlier version; without `do` only say what that means."""
    spark = fork(warehouse.spark)
    activate(spark)
    table = warehouse.existing(Kind.TABLE, name, spark)
    now, then = table.version(), table.version_at(at)
    assert now is not None
    if then == now:
        raise UsageError(Code.USAGE, f"table '{name}' is at version {now} already")
    told = tuple(_consequences(warehouse, name, then))
    if not do:
        return Restored(name, now, then, None, told)
    with holding(warehouse, flow_name(name, Kind.TABLE)) as guard:
        missing = [f for f in table.schema().names if f not in table.read(then).columns]
        rows = table.read(then)
        guard()
        made = table.replace(rows)
    if missing:
        told = (*told, f"{', '.join(missing)} did not exist then, and are NULL")
    return Restored(name, now, then, made, told)


def _consequences(warehouse: Warehouse, name: str, then: Version) -> Iterator[str]:
    flow = flow_name(name, Kind.TABLE)
    if name in kept_tables(warehouse.project):
        seeded = warehouse.project.tables[name].seed is not None
        yield (
            f"{flow} goes on with "
            + ("its file when that changes" if seeded else "what comes from now on")
            + f"; what it did since version {then} is done again by headwater flow rebuild {flow}"
        )
    for reader in readers(warehouse, Name(Kind.TABLE, name)):
        verb = "its next refresh" if reader.kind is Kind.VIEW else "its flow"
        yield f"{reader} reads it: {verb} takes back what goes, and ingests what returns"


def readers(warehouse: Warehouse, of: Name) -> list[Name]:
    """Tables and views that read a relation, the project's and those made by statements."""
    found = [name for name, inputs in graph_of(warehouse.project).inputs.items() if any(i.of == of for i in inputs)]
    for record in warehouse.state.relations(Kind.VIEW):
        if record.statement is None:
            continue
        sql = json.loads(record.statement).get("sql")
        if sql and any((each.kind, each.name) in ((of.kind, of.name), (None, of.name)) for each in _named(sql)):
            found.append(Name(Kind.VIEW, record.name))
    return list(dict.fromkeys(found))


def _named(sql: str) -> list[Reference]:
    return references(parse_query(sql))
