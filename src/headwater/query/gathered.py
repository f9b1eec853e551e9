"""Statistics of columns that were gathered by a scan, kept in the lake, and what they say of a later version.

`_headwater/statistics/<kind>.<name>.json`: those of another relation that had the name are told by what it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.core.model import ColumnStats, Kind, TableStats, Version
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from headwater.query.duckdb.scans import PinnedRelation

UNIQUE = 0.8
"""A column with this share of its rows as values is taken to have a new one in most rows: the count is an estimate."""
SHRUNK, GROWN = 0.5, 10
"""Below and above these multiples of the rows of then, statistics say nothing of the rows of now."""


@dataclass(frozen=True)
class Gathered:
    """What was found in one version of a relation."""

    version: Version
    gathered_at: str
    rows: int
    bytes: int
    files: int
    columns: tuple[ColumnStats, ...]
    of: Mapping[str, Any]
    """Which relation it was."""


@dataclass(frozen=True)
class Figures:
    """What is thought of a column of the version that is read."""

    distinct: int | None
    nulls: float
    """The share of rows."""
    min: Any = None
    max: Any = None
    bytes: int | None = None


@dataclass(frozen=True)
class Fitted:
    """Gathered statistics, brought to the version that is read."""

    version: Version
    """At which they were gathered."""
    rows: int
    """Of the version that is read, if it has been counted; else of that one."""
    exact: bool = False
    """Whether nothing was committed in between."""
    columns: Mapping[str, Figures] = field(default_factory=dict)
    unfit: str = ""
    """Why they are not used."""

    def column(self, name: str) -> Figures | None:
        return self.columns.get(name.lower())


class Statistics:
    """The gathered statistics of a query's relations, each looked up once."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._found: dict[tuple[Kind, str], Gathered | None] = {}

    def found(self, reading: PinnedRelation) -> Fitted | None:
        """What was gathered of a relation, fit for use or not."""
        if reading.kind is None:
            return None
        key = (reading.kind, reading.name)
        if key not in self._found:
            self._found[key] = gathered(self._warehouse, *key)
        known = self._found[key]
        return None if known is None else _fitted(known, reading)

    def of(self, reading: PinnedRelation) -> Fitted | None:
        """What can be used."""
        fitted = self.found(reading)
        return None if fitted is None or fitted.unfit else fitted


def identity(warehouse: Warehouse, kind: Kind, name: str) -> dict[str, Any]:
    """What tells a relation from another one that has had its name: its place, when it was made, and its query."""
    record = warehouse.record(kind, name)
    if record is None:
        address = warehouse.address(kind, name)
        return {"path": address.path, "table": address.table}
    definition = json.loads(record.made_from or record.statement or "{}")
    return {
        "path": record.path,
        "table": record.table,
        "created_at": record.created_at.isoformat(),
        "sql": definition.get("sql"),
    }


def keep(warehouse: Warehouse, kind: Kind, name: str, stats: TableStats, of: Mapping[str, Any]) -> None:
    """Instead of those that were gathered before; `of` is the relation's identity from before they were gathered."""
    if stats.version is None:
        return  # a table that nothing was ever written to
    made = Gathered(
        stats.version,
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        stats.rows,
        stats.bytes,
        stats.files,
        tuple(replace(one, min=_described(one.min), max=_described(one.max)) for one in stats.columns),
        of,
    )
    warehouse.files.write_atomic(_path(kind, name), json.dumps(asdict(made), indent=2))


def gathered(warehouse: Warehouse, kind: Kind, name: str) -> Gathered | None:
    """What was gathered last of this very relation."""
    text = warehouse.files.find(_path(kind, name))
    if text is None:
        return None
    try:
        found = json.loads(text)
        columns = tuple(_column(ColumnStats(**one)) for one in found.pop("columns"))
        known = Gathered(**found, columns=columns)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return None  # of another release, or damaged: they can be gathered again
    return known if known.of == identity(warehouse, kind, name) else None


def forget(warehouse: Warehouse, kind: Kind, name: str) -> None:
    """The relation is dropped."""
    warehouse.files.delete(_path(kind, name))


def _fitted(known: Gathered, reading: PinnedRelation) -> Fitted:
    exact = known.version == reading.version
    counted = None if reading.files is None else reading.files.rows
    now = known.rows if counted is None else counted
    if not SHRUNK * known.rows <= now <= GROWN * known.rows:
        return Fitted(known.version, now, unfit=f"it had {known.rows} rows then, and has {now} now")
    types = {field.name.lower(): _family(field.type) for field in reading.schema}
    columns = {
        one.column.lower(): _figures(one, known.rows, now)
        for one in known.columns
        if types.get(one.column.lower()) == _spark_family(one.type)
    }
    return Fitted(known.version, now, exact, columns)


def _figures(one: ColumnStats, then: int, now: int) -> Figures:
    nulls = one.nulls or 0
    distinct, present = one.distinct, then - nulls
    if distinct is not None:
        distinct = min(distinct, present)
        if distinct >= UNIQUE * present and then:
            distinct = round(distinct * now / then)
        distinct = min(distinct, now)
    return Figures(distinct, nulls / then if then else 0.0, one.min, one.max, one.bytes)


def _path(kind: Kind, name: str) -> str:
    return f"_headwater/statistics/{kind.plural}.{name}.json"


# --- values in JSON: the column's type says what a text stands for


def _described(value: Any) -> Any:
    if isinstance(value, datetime):
        # Spark gives a moment in this machine's zone, without naming it.
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, (date, Decimal)):
        return value.isoformat() if isinstance(value, date) else str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) else None


def _column(one: ColumnStats) -> ColumnStats:
    return replace(one, min=_value(one.min, one.type), max=_value(one.max, one.type))


def _value(told: Any, type_: str) -> Any:
    if not isinstance(told, str) or type_ == "string":
        return told
    if type_ == "date":
        return date.fromisoformat(told)
    if type_ == "timestamp":
        return datetime.fromisoformat(told)
    return Decimal(told) if type_.startswith("decimal") else None


_FAMILIES = {
    "tinyint": "number", "smallint": "number", "int": "number", "bigint": "number", "float": "number",
    "double": "number", "string": "text", "boolean": "boolean", "date": "date", "timestamp": "time",
}  # fmt: skip


def _spark_family(type_: str) -> str:
    return "number" if type_.startswith("decimal") else _FAMILIES.get(type_, "other")


def _family(type_: pa.DataType) -> str:
    """A type may have been widened since; one that became another has other values."""
    of = pa.types
    if of.is_integer(type_) or of.is_floating(type_) or of.is_decimal(type_):
        return "number"
    if of.is_string(type_) or of.is_large_string(type_):
        return "text"
    if of.is_boolean(type_):
        return "boolean"
    if of.is_date(type_):
        return "date"
    return "time" if of.is_timestamp(type_) and type_.tz is not None else "other"
