"""What a lake has, and what made each version of it, as rows: `SHOW …`, `history`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.core.model import Kind
from headwater.core.spec import RelationSpec, Topic, View
from headwater.formats.base import Address
from headwater.query.records import result_of
from headwater.query.result import Result
from headwater.query.system.registry import SYSTEM_TABLES
from headwater.sql.names import SYSTEM
from headwater.sql.statements import Show
from headwater.warehouse import Warehouse

HISTORY = (
    "version", "committed_at", "operation", "rows_added", "rows_removed", "flow", "epoch", "step", "positions",
)  # fmt: skip


def shown(
    warehouse: Warehouse, statement: Show, known: Mapping[Kind, Sequence[str]], *, read_only: bool = False
) -> Result:
    """The relations of a kind, or the exports; who may only read is told no folder of this machine."""
    if isinstance(statement.what, Kind):
        kind = statement.what
        columns = ["name", "from", "format", "location", "created_at", "description"]
        columns[1] = {Kind.TOPIC: "from", Kind.TABLE: "made_by", Kind.VIEW: "refresh"}[kind]
        rows = [_summary(warehouse, kind, name) for name in known[kind]]
        for row in rows if read_only else ():
            row["location"] = _inside(warehouse, warehouse.address(kind, str(row["name"])))
        return result_of(rows, columns)
    if statement.what == "system":
        rows = [
            {"name": f"{SYSTEM}.{one.name}", "columns": len(one.columns), "description": one.description}
            for one in SYSTEM_TABLES.values()
        ]
        return result_of(rows, ["name", "columns", "description"])
    exports = warehouse.project.exports.items()
    hidden = ("/", ".", "file:") if read_only else ()
    rows = [
        {
            "name": name,
            "from": e.from_,
            "format": e.format,
            "to": None if e.to.startswith(hidden) else e.to,
            "mode": e.mode,
        }
        for name, e in exports
    ]
    return result_of(rows, ["name", "from", "format", "to", "mode"])


def _summary(warehouse: Warehouse, kind: Kind, name: str) -> dict[str, object]:
    record = warehouse.record(kind, name)
    defined = name in warehouse.project.relations(kind) or (record is not None and record.statement)
    definition = warehouse.definition(kind, name) if defined else None
    refresh = definition.refresh if isinstance(definition, View) else None
    return {
        "name": name,
        "from": definition.from_ if isinstance(definition, Topic) else None,
        "made_by": None if definition is None else _origin(definition),
        "refresh": None if refresh is None else f"{refresh.mode}, {refresh.policy}",
        "format": warehouse.format(kind, name).name,
        "location": str(warehouse.address(kind, name)),
        "created_at": None if record is None else record.created_at,
        "description": "" if definition is None else definition.description,
    }


def _inside(warehouse: Warehouse, address: Address) -> str | None:
    """A table's name in its catalog, or its path below the warehouse; None outside of it."""
    if address.path is None:
        return address.table
    root = warehouse.context.warehouse.removeprefix("file://").rstrip("/") + "/"
    path = address.path.removeprefix("file://")
    return path.removeprefix(root) if path.startswith(root) else None


def _origin(definition: RelationSpec) -> str | None:
    """What makes a table: `sql`, `transform`, `seed`, `from`, or nothing but hands."""
    origins = getattr(definition, "origins", {})
    return next((key for key, value in origins.items() if value is not None), None)
