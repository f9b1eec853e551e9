"""The table that an export writes to: its columns and keys as the database tells them, made and brought up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from headwater.core.errors import Code, TerminalError, UsageError
from headwater.targets.postgres.types import takes, widens

if TYPE_CHECKING:
    from psycopg import Connection

_COLUMNS = """
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = ''
FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE = """
SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
  AND a.attnum = ANY (i.indkey::int2[])
WHERE i.indrelid = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indimmediate
GROUP BY i.indexrelid
"""


@dataclass(frozen=True)
class TargetTable:
    """A table by its full name."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    def sibling(self, name: str) -> TargetTable:
        return TargetTable(self.schema, name)


@dataclass(frozen=True)
class FoundTable:
    """A table as it is."""

    oid: int
    columns: Mapping[str, str]
    """Name → type."""
    needed: frozenset[str]
    """Columns that no row can do without."""
    unique: frozenset[frozenset[str]]
    """The sets of columns that tell its rows apart."""


def find(connection: Connection[Any], table: TargetTable) -> FoundTable | None:
    """The table, if it is there; a view and the like is refused."""
    row = connection.execute(
        "SELECT c.oid::bigint, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s",
        [table.schema, table.name],
    ).fetchone()
    if row is None:
        return None
    oid, kind = row
    if kind not in ("r", "p"):
        raise UsageError(Code.EXPORT_REFUSED, f"{table} is no table", hint="export to a table of another name")
    columns = connection.execute(_COLUMNS, [oid]).fetchall()
    keys = connection.execute(_UNIQUE, [oid]).fetchall()
    return FoundTable(
        oid,
        {name: type_ for name, type_, _ in columns},
        frozenset(name for name, _, needed in columns if needed),
        frozenset(frozenset(names) for (names,) in keys),
    )


def require_fit(
    found: FoundTable, table: TargetTable, columns: Mapping[str, str], key: Sequence[str], *, own: bool
) -> None:
    """Raise if the table can't take the rows. Columns that lack are added, and those of a table of the export's `own`
    are widened."""
    for name, wanted in columns.items():
        there = found.columns.get(name)
        if there is not None and not takes(there, wanted) and not (own and widens(there, wanted)):
            raise TerminalError(
                Code.SCHEMA_MISMATCH,
                f"the column '{name}' of {table} is {there}, and the export's is {wanted}",
                hint=f"cast it: schema: '{name} …', or export to another table",
            )
    left_out = sorted(found.needed - set(columns))
    if left_out:
        raise TerminalError(
            Code.SCHEMA_MISMATCH,
            f"{table} must have a value for '{left_out[0]}', which the export doesn't have",
            hint="give the column a default, or let it be NULL",
        )
    if key and not any(one == frozenset(key) for one in found.unique):
        names = ", ".join(key)
        raise TerminalError(
            Code.DUPLICATE_KEY,
            f"nothing keeps ({names}) unique in {table}, so its rows can't be told apart",
            hint=f"make it a key there: CREATE UNIQUE INDEX ON {table} ({names})",
        )


def create(
    connection: Connection[Any], table: TargetTable, columns: Mapping[str, str], *, unlogged: bool = False
) -> None:
    """A table without a key."""
    body = sql.SQL(", ").join(_column(name, type_) for name, type_ in columns.items())
    kind = sql.SQL("UNLOGGED " if unlogged else "")
    connection.execute(sql.SQL("CREATE {}TABLE {} ({})").format(kind, table.quoted, body))


def add_key(connection: Connection[Any], table: TargetTable, key: Sequence[str], name: str) -> None:
    """Make columns the primary key; what is NULL or there twice is an error of the database."""
    connection.execute(
        sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} PRIMARY KEY ({})").format(
            table.quoted, sql.Identifier(f"{name.encode()[:58].decode(errors='ignore')}_pkey"), names_of(key)
        )
    )


def evolve(connection: Connection[Any], table: TargetTable, found: FoundTable, columns: Mapping[str, str]) -> None:
    """Add the columns that lack, and widen those that have become wider."""
    for name, wanted in columns.items():
        there = found.columns.get(name)
        if there is None:
            connection.execute(sql.SQL("ALTER TABLE {} ADD COLUMN {}").format(table.quoted, _column(name, wanted)))
        elif not takes(there, wanted):
            change = sql.SQL("ALTER TABLE {} ALTER COLUMN {} TYPE {}")
            connection.execute(change.format(table.quoted, sql.Identifier(name), sql.SQL(wanted)))


def drop(connection: Connection[Any], table: TargetTable) -> None:
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table.quoted))


def names_of(columns: Sequence[str], of: str | None = None) -> sql.Composed:
    """Columns, one after another; `of` names their table."""
    parts = (sql.Identifier(name) if of is None else sql.Identifier(of, name) for name in columns)
    return sql.SQL(", ").join(parts)


def insert(table: TargetTable, source: sql.Composable, columns: Sequence[str], key: Sequence[str]) -> sql.Composed:
    """A statement that adds the rows of another table, or with a key puts them in the place of those that are there."""
    names = names_of(columns)
    whole = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(table.quoted, names, names, source)
    if not key:
        return whole
    rest = [name for name in columns if name not in key]
    if not rest:
        return whole + sql.SQL(" ON CONFLICT ({}) DO NOTHING").format(names_of(key))
    sets = sql.SQL(", ").join(
        sql.SQL("{} = EXCLUDED.{}").format(sql.Identifier(name), sql.Identifier(name)) for name in rest
    )
    return whole + sql.SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(names_of(key), sets)


def _column(name: str, type_: str) -> sql.Composed:
    return sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_))
