"""The statements of Headwater's SQL, as data. `parsing.py` makes them of a text; `runtime/` executes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlglot import exp

from headwater.core.model import Kind
from headwater.core.spec.relations import Refresh
from headwater.sql.names import Reference
from headwater.sql.places import Span

EXPORTS = "exports"


@dataclass(frozen=True)
class Select:
    """A query: SELECT, VALUES, a set operation, with or without CTEs."""

    sql: str
    """As it was written."""
    query: exp.Query = field(compare=False, repr=False)


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [PARTITIONED BY (…)] AS query [WITH (…)]."""

    name: str
    select: Select
    refresh: Refresh
    replace: bool = False
    if_not_exists: bool = False
    format: str | None = None
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class RefreshView:
    """REFRESH MATERIALIZED VIEW name [FULL]."""

    view: Reference
    full: bool = False


@dataclass(frozen=True)
class DropView:
    """DROP MATERIALIZED VIEW [IF EXISTS] name."""

    view: Reference
    if_exists: bool = False


@dataclass(frozen=True)
class ExplainView:
    """EXPLAIN MATERIALIZED VIEW name."""

    view: Reference


@dataclass(frozen=True)
class ExportStatement:
    """EXPORT topic('x') TO ICEBERG 'rest://…' [PARTITIONED BY (…)] [WITH (…)]."""

    what: Reference
    format: str
    destination: str
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    """Where the text has the format, the destination and each option."""


@dataclass(frozen=True)
class Explain:
    """EXPLAIN [ANALYZE] of a query, a new view or an export."""

    what: Select | CreateView | ExportStatement
    analyze: bool = False


@dataclass(frozen=True)
class Show:
    """SHOW TOPICS | TABLES | VIEWS | EXPORTS | SYSTEM TABLES."""

    what: Kind | Literal["exports", "system"]


@dataclass(frozen=True)
class Describe:
    """DESCRIBE name, DESCRIBE HISTORY name."""

    what: Reference
    history: bool = False


@dataclass(frozen=True)
class Insert:
    """INSERT INTO table [(columns)] query."""

    table: Reference
    select: Select
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetOption:
    """SET name = value; without a value the option is shown, without a name all are."""

    name: str | None = None
    value: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


Statement = (
    Select
    | CreateView
    | RefreshView
    | DropView
    | ExplainView
    | Explain
    | ExportStatement
    | Show
    | Describe
    | Insert
    | SetOption
)
