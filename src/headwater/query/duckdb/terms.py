"""Parts of a query as they are handed to DuckDB: text, Spark's type, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.core.errors import Unsupported

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

    sql: str
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


def derived(sql: str, type: pa.DataType, *parts: Term, name: str | None = None) -> Term:
    """A term made of others."""
    return Term(
        sql, type, name, aggregate=any(part.aggregate for part in parts), windowed=any(part.windowed for part in parts)
    )


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def literal(value: Any, type: pa.DataType, name: str | None = None) -> Term:
    """A value in DuckDB's words."""
    return Term(_literal(value, type), type, name, value=value)


def _literal(value: Any, type: pa.DataType) -> str:
    if value is None:
        return "NULL" if pa.types.is_null(type) else f"CAST(NULL AS {duckdb_type(type)})"
    for is_such, written in _WRITTEN:
        if is_such(type):
            return written(value, type)
    raise Refused(f"there is no literal of type {spark_name(type)}")


def _timestamp(value: datetime, type: pa.DataType) -> str:
    if type.tz:
        return f"TIMESTAMPTZ '{value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(' ')}+00'"
    return f"TIMESTAMP '{value.isoformat(' ')}'"


def _double(value: float, type: pa.DataType) -> str:
    return f"CAST('{value!r}' AS {duckdb_type(type)})"


def _whole(value: int, type: pa.DataType) -> str:
    # A bare number takes the type of what it is compared with, so that the storage can use it.
    return str(value) if pa.types.is_int32(type) and value >= 0 else f"CAST({value} AS {duckdb_type(type)})"


def _date(value: date, type: pa.DataType) -> str:
    return f"DATE '{value.isoformat()}'"


def _decimal(value: Decimal, type: pa.DataType) -> str:
    return f"CAST('{value:f}' AS {duckdb_type(type)})"


_Written = Callable[[Any, pa.DataType], str]
_WRITTEN: tuple[tuple[Callable[[pa.DataType], bool], _Written], ...] = (
    (pa.types.is_boolean, lambda value, _: "true" if value else "false"),
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _double),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_string, lambda value, _: text(value)),
    (pa.types.is_date, _date),
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
        return "STRUCT(" + ", ".join(f"{identifier(f.name)} {duckdb_type(f.type)}" for f in type) + ")"
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
