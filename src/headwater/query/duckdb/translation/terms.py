"""Parts of a query as they are handed to DuckDB: a node, Spark's type, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from headwater.core.errors import Unsupported
from headwater.core.quotes import double_quoted
from headwater.query.duckdb.translation import nodes

if TYPE_CHECKING:
    from headwater.query.duckdb.scans import DuckScan


class Refused(Unsupported):
    """This query is not for DuckDB; the message says why, and Spark can be asked instead."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, hint="--engine spark answers it")
        self.reason = reason
        self.scans: list[DuckScan] = []
        """What was known of the query's tables when it was refused."""


@dataclass(frozen=True)
class Origin:
    """The stored column that a term is, unchanged."""

    scan: DuckScan
    column: str


class _NoValue:
    """A term that is no literal."""

    def __repr__(self) -> str:
        return "no value"


NO_VALUE = _NoValue()


@dataclass(frozen=True)
class Term:
    """An expression of DuckDB with the type that Spark gives it."""

    node: exp.Expr
    """Held by several terms, so it is not changed."""
    type: pa.DataType
    name: str | None = None
    """What Spark calls it where it has no alias; None: not known here."""
    value: Any = NO_VALUE
    """The value of a literal."""
    origin: Origin | None = None
    aggregate: bool = False
    """Whether it has an aggregate (not a window) in it."""
    windowed: bool = False

    @property
    def is_literal(self) -> bool:
        return self.value is not NO_VALUE

    def named(self, name: str | None) -> Term:
        return replace(self, name=name)


def derived(node: exp.Expr, type: pa.DataType, *parts: Term, name: str | None = None) -> Term:
    """A term made of others."""
    return Term(
        node, type, name, aggregate=any(part.aggregate for part in parts), windowed=any(part.windowed for part in parts)
    )


def cast_node(node: exp.Expr, type: pa.DataType) -> exp.Cast:
    """A node in one of Spark's types."""
    return nodes.cast(node, duckdb_type(type))


def literal(value: Any, type: pa.DataType, name: str | None = None) -> Term:
    """A value in DuckDB's words."""
    return Term(literal_node(value, type), type, name, value=value)


def literal_node(value: Any, type: pa.DataType) -> exp.Expr:
    if value is None:
        return exp.Null() if pa.types.is_null(type) else cast_node(exp.Null(), type)
    for is_such, node in _NODES:
        if is_such(type):
            return node(value, type)
    raise Refused(f"there is no literal of type {spark_name(type)}")


def _timestamp(value: datetime, type: pa.DataType) -> exp.Expr:
    if type.tz:
        return cast_node(nodes.string(f"{value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(' ')}+00"), type)
    return cast_node(nodes.string(value.isoformat(" ")), type)


def _whole(value: int, type: pa.DataType) -> exp.Expr:
    # A bare number takes the type of what it is compared with, so that the storage can use it.
    plain = nodes.number(value)
    return plain if pa.types.is_int32(type) and value >= 0 else cast_node(plain, type)


_Node = Callable[[Any, pa.DataType], exp.Expr]
_NODES: tuple[tuple[Callable[[pa.DataType], bool], _Node], ...] = (
    (pa.types.is_boolean, lambda value, _: nodes.boolean(value)),
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, lambda value, type: cast_node(nodes.string(repr(value)), type)),
    (pa.types.is_decimal, lambda value, type: cast_node(nodes.string(f"{value:f}"), type)),
    (pa.types.is_string, lambda value, _: nodes.string(value)),
    (pa.types.is_date, lambda value, type: cast_node(nodes.string(value.isoformat()), type)),
    (pa.types.is_timestamp, _timestamp),
)

_PLAIN = {
    pa.bool_(): ("BOOLEAN", "boolean"),
    pa.int8(): ("TINYINT", "tinyint"),
    pa.int16(): ("SMALLINT", "smallint"),
    pa.int32(): ("INTEGER", "int"),
    pa.int64(): ("BIGINT", "bigint"),
    pa.float32(): ("FLOAT", "float"),
    pa.float64(): ("DOUBLE", "double"),
    pa.string(): ("VARCHAR", "string"),
    pa.binary(): ("BLOB", "binary"),
    pa.date32(): ("DATE", "date"),
    pa.timestamp("us", tz="UTC"): ("TIMESTAMPTZ", "timestamp"),
    pa.timestamp("us"): ("TIMESTAMP", "timestamp_ntz"),
    pa.null(): ('"NULL"', "void"),
}


def duckdb_type(type: pa.DataType) -> str:
    """DuckDB's name of one of Spark's types."""
    if type in _PLAIN:
        return _PLAIN[type][0]
    if pa.types.is_decimal128(type):
        return f"DECIMAL({type.precision},{type.scale})"
    if pa.types.is_struct(type):
        return "STRUCT(" + ", ".join(f"{double_quoted(f.name)} {duckdb_type(f.type)}" for f in type) + ")"
    if pa.types.is_list(type):
        return f"{duckdb_type(type.value_type)}[]"
    if pa.types.is_map(type):
        return f"MAP({duckdb_type(type.key_type)}, {duckdb_type(type.item_type)})"
    raise Refused(f"the type {type} is not one of Spark's")


def spark_name(type: pa.DataType) -> str:
    """A type as Spark's users know it."""
    if type in _PLAIN:
        return _PLAIN[type][1]
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if pa.types.is_struct(type):
        return "struct<" + ",".join(f"{f.name}:{spark_name(f.type)}" for f in type) + ">"
    if pa.types.is_list(type):
        return f"array<{spark_name(type.value_type)}>"
    if pa.types.is_map(type):
        return f"map<{spark_name(type.key_type)},{spark_name(type.item_type)}>"
    return str(type)
