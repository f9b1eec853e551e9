"""The columns that people see of a relation, in their order; known without Spark where nothing is computed in them."""

from __future__ import annotations

import json

from headwater.core.model import Kind
from headwater.schema.columns import TableColumn, columns_of
from headwater.warehouse import Warehouse

_PARTS = ("limit", "offset", "group", "having", "distinct", "qualify", "joins")


def shown_columns(warehouse: Warehouse, kind: Kind, name: str) -> tuple[TableColumn, ...]:
    stored = warehouse.lookup(kind, name).columns()
    record = warehouse.record(kind, name)
    if record is None or record.shown is None:
        return stored
    names, known = selected_columns(record.shown), {column.name: column for column in stored}
    if names is None or not known.keys() >= {*names}:
        return columns_of(json.loads(warehouse.rows(kind, name).schema.json()))
    return tuple(known[name] for name in names)


def selected_columns(shown: str) -> list[str] | None:
    """The stored columns that a query over them shows; None where it makes others."""
    import sqlglot
    from sqlglot import exp

    query = sqlglot.parse_one(shown, dialect="spark")
    if not isinstance(query, exp.Select) or not all(isinstance(one, exp.Column) for one in query.selects):
        return None
    return [one.name for one in query.selects]


def shown_rows(shown: str) -> str | None:
    """The condition of the rows that a query over the stored ones shows, for DuckDB; None where it is another query."""
    import sqlglot
    from sqlglot import exp

    query = sqlglot.parse_one(shown, dialect="spark")
    if any(query.args.get(part) is not None for part in _PARTS):
        return None
    where = query.args.get("where")
    plain = (exp.Column, exp.Identifier, exp.Is, exp.Null, exp.Not, exp.And, exp.Or, exp.Paren, exp.Boolean)
    if where is None:
        return "TRUE"
    condition = where.this
    if not all(isinstance(node, plain) for node in condition.walk()):
        return None
    for column in condition.find_all(exp.Column):
        column.this.set("quoted", True)
    return str(condition.sql(dialect="duckdb"))
