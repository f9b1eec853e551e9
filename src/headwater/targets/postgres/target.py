"""A copy in a table of Postgres: a step is one transaction, with the step's position in it; a snapshot appears at once.

A snapshot is written to a table aside and read back there. One transaction then gives it its name or, where the table
is there already, replaces or joins its rows: rights, indexes and views on it stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
from psycopg import sql
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Code, HeadwaterError, TerminalError, UsageError
from headwater.core.logs import get_logger
from headwater.core.model import DELETED, CommitTag
from headwater.core.storage import Files
from headwater.spark.frames import column
from headwater.targets.base import (
    Checksum,
    Destination,
    ExportTarget,
    ForeignReader,
    RejectedRow,
    SourceState,
    StagedCopy,
    TargetKind,
)
from headwater.targets.json_columns import with_sorted_maps
from headwater.targets.postgres import step as steps
from headwater.targets.postgres.address import parse_address
from headwater.targets.postgres.connection import open_connection, reaching, row_error
from headwater.targets.postgres.lines import lines, refusals_of, text_of
from headwater.targets.postgres.reader import read_table
from headwater.targets.postgres.records import SNAPSHOT, Records, StoredPosition
from headwater.targets.postgres.tables import (
    FoundTable,
    TargetTable,
    add_key,
    create,
    drop,
    evolve,
    find,
    insert,
    require_fit,
)
from headwater.targets.postgres.types import column_type
from headwater.targets.spool import RowSpool

if TYPE_CHECKING:
    from psycopg import Connection
    from pyspark.sql import DataFrame

_SHOWN = 3

log = get_logger(__name__)


class PostgresTarget(ExportTarget):
    """One table, by one connection."""

    def __init__(self, kind: TargetKind, destination: Destination) -> None:
        super().__init__(kind, destination)
        self._address = parse_address(self.definition.to, destination.sources)
        self._spool = RowSpool(Files(destination.context.warehouse, destination.context.storage), self.definition.to)
        self._open: Connection[Any] | None = None
        self._columns: Mapping[str, str] = {}
        self._found: FoundTable | None = None
        self._staged = False

    @property
    def _connection(self) -> Connection[Any]:
        """Another one after the last was lost."""
        if self._open is None or self._open.closed:
            self._open = open_connection(self._address)
        return self._open

    @cached_property
    def _table(self) -> TargetTable:
        if self._address.schema is not None:
            return TargetTable(self._address.schema, self._address.table)
        row = self._connection.execute("SELECT current_schema()").fetchone()
        return TargetTable((row and row[0]) or "public", self._address.table)

    @property
    def _aside(self) -> TargetTable:
        digest = hashlib.sha256(self._table.name.encode()).hexdigest()[:16]
        return self._table.sibling(f"_headwater_staging_{digest}")

    @property
    def _key(self) -> Sequence[str]:
        return self.definition.primary_key

    @property
    def _records(self) -> Records:
        return Records(self._connection, self._table)

    def exists(self) -> bool:
        with reaching(self._address):
            return find(self._connection, self._table) is not None

    def check(self, schema: StructType) -> None:
        columns = _columns_of(schema)
        with reaching(self._address):
            found = find(self._connection, self._table)
            before = self._records.position()
        if found is not None:
            require_fit(found, self._table, columns, self._key, own=before is not None and before.made)

    def prepared(self, rows: DataFrame) -> DataFrame:
        """Maps by the order of their keys: jsonb keeps no other."""
        return with_sorted_maps(rows)

    # --- snapshots

    def stage(self, rows: DataFrame, source: SourceState) -> StagedCopy:
        self._columns = _columns_of(rows.schema)
        with self._spool.holding(lines(rows, self._key)), reaching(self._address):
            self._refuse_unheld()
            connection, aside, table = self._connection, self._aside, self._table
            self._found = find(connection, table)
            drop(connection, aside)
            self._staged = True
            with connection.transaction():
                create(connection, aside, self._columns, unlogged=self._found is not None)
                count = steps.copy_in(connection, aside.quoted, list(self._columns), text_of(self._spool))
                if self._key:
                    self._add_key(aside, table if self._found is None else aside)
        return StagedCopy(count, self._size(aside), 1)

    def _refuse_unheld(self) -> None:
        """A snapshot has all rows, or is none."""
        refused = []
        for one in refusals_of(self._spool):
            refused.append(one)
            if len(refused) > _SHOWN:
                break
        if refused:
            shown = "; ".join(f"{key}: {reason}" for key, reason in refused[:_SHOWN])
            raise TerminalError(
                Code.EXPORT_REFUSED,
                f"Postgres can't hold some rows, such as {shown}",
                hint="leave them out: filter, or change the values: from: 'SELECT …'",
            )

    def _add_key(self, table: TargetTable, named: TargetTable) -> None:
        """`named`: the table that the key has its name from."""
        try:
            add_key(self._connection, table, self._key, named.name)
        except psycopg.errors.UniqueViolation as error:
            raise TerminalError(
                Code.DUPLICATE_KEY,
                f"primary_key: several rows of the export have the same {', '.join(self._key)}:"
                f" {error.diag.message_detail}",
                hint="name the columns that tell the rows apart",
            ) from error
        except psycopg.errors.NotNullViolation as error:
            message = f"primary_key: a row of the export has no {error.diag.column_name}"
            raise TerminalError(Code.NULL_KEY, message, hint="leave such rows out: filter") from error

    def _size(self, table: TargetTable) -> int:
        row = self._connection.execute(
            "SELECT pg_total_relation_size(%s::regclass)", [table.quoted.as_string(self._connection)]
        ).fetchone()
        return 0 if row is None else int(row[0])

    def readers(self, *, sample: bool = False) -> Iterator[ForeignReader]:
        with reaching(self._address):
            version = self._connection.info.parameter_status("server_version") or "?"
            if not self._staged and not self._key and self._records.refuse_any():
                return  # without keys it can't be told which rows are meant to lack
        yield ForeignReader("PostgreSQL", version, batches=lambda schema: self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with reaching(self._address):
            source: sql.Composable = (self._aside if self._staged else self._table).quoted
            if not self._staged and self._key and self._records.refuse_any():
                source = self._records.without_refused(self._key)
            yield from read_table(self._connection, source, schema)

    def comparable(self, rows: DataFrame) -> DataFrame:
        with reaching(self._address):
            keys = [json.dumps(reject.key) for reject in self._records.rejected()] if self._key else []
        if not keys:
            return rows
        own = StructType([rows.schema[name] for name in self._key])
        texts = rows.sparkSession.createDataFrame([(key,) for key in keys], "key string")
        parsed = texts.select(F.from_json("key", own).alias("key"))
        refused = parsed.select(
            *(F.col("key").getField(name).alias(f"_refused_{at}") for at, name in enumerate(self._key))
        )
        same = (column(name).eqNullSafe(F.col(f"_refused_{at}")) for at, name in enumerate(self._key))
        return rows.join(refused, reduce(and_, same), "left_anti")

    def publish(self, written: StagedCopy, source: SourceState, checksum: Checksum | None) -> None:
        connection, aside, table = self._connection, self._aside, self._table
        with reaching(self._address), connection.transaction():
            records = self._records
            records.make()
            before = records.position(lock=True)
            found = find(connection, table)
            made = found is None or (before is not None and before.made)
            if found is None:
                connection.execute(
                    sql.SQL("ALTER TABLE {} RENAME TO {}").format(aside.quoted, sql.Identifier(table.name))
                )
            else:
                require_fit(found, table, self._columns, self._key, own=made)
                evolve(connection, table, found, self._columns)
                if self.definition.if_exists == "overwrite":
                    connection.execute(sql.SQL("DELETE FROM {}").format(table.quoted))
                self._move(insert(table, aside.quoted, list(self._columns), self._key))
                drop(connection, aside)
            records.write(SNAPSHOT, None, source.to_json(), made=made, oid=self._oid())
            records.clear()
        self._staged = False

    def _move(self, statement: sql.Composed) -> None:
        try:
            self._connection.execute(statement)
        except psycopg.Error as error:
            reason = row_error(error)
            if reason is None:
                raise
            raise TerminalError(
                Code.EXPORT_REFUSED,
                f"{self._table} refuses a row: {reason}; the table is as before",
                hint="change the table's constraints, or leave the rows out: filter",
            ) from error

    def discard(self) -> None:
        self._spool.clear()
        if self._staged:
            self._staged = False
            try:
                with reaching(self._address):
                    drop(self._connection, self._aside)
            except HeadwaterError as error:  # the next snapshot does it
                log.warning("a table was left behind", table=str(self._aside), error=str(error))

    # --- streams

    def landed(self, commit_tag: CommitTag) -> bool:
        with reaching(self._address):
            position = self._records.position()
            if position is None:
                return False
            self._require_own(position, commit_tag)
            return position.has(commit_tag)

    def _require_own(self, position: StoredPosition, tag: CommitTag) -> None:
        """Raise if the table is not the one that this flow has written to."""
        self._require_flow(position, tag)
        found = find(self._connection, self._table)
        if found is None or found.oid != position.oid:
            gone = "is gone" if found is None else "was made again by somebody else"
            raise TerminalError(
                Code.EXPORT_CHANGED,
                f"{self._table} {gone}, and would lack what was exported so far",
                hint=f"copy it again from its beginning: headwater flow rebuild {tag.flow} --yes",
            )

    def _require_flow(self, position: StoredPosition, tag: CommitTag) -> None:
        if position.flow != tag.flow:
            raise TerminalError(
                Code.EXPORT_CHANGED,
                f"{self._table} is the copy of {position.flow}",
                hint="export to another table",
            )

    def apply(self, change: DataFrame, commit_tag: CommitTag, *, first: bool) -> StagedCopy:
        deletes = DELETED in change.columns
        columns = {name: type_ for name, type_ in _columns_of(change.schema).items() if name != DELETED}
        with self._spool.holding(lines(change, self._key)), reaching(self._address):
            with self._connection.transaction():
                return self._take(columns, commit_tag, first=first, deletes=deletes)

    def _take(self, columns: Mapping[str, str], tag: CommitTag, *, first: bool, deletes: bool) -> StagedCopy:
        connection, table, records = self._connection, self._table, self._records
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        records.make()
        # Whoever else takes a step of this flow waits here, and then sees that it has landed.
        before = records.position(lock=True)
        if before is not None and before.flow == tag.flow and before.has(tag):
            return StagedCopy(0, 0, 0)
        made = self._made(columns, tag, before, first=first)
        step = steps.StepRows(table, columns, self._key, f"{tag.epoch}/{tag.step}")
        rows = None
        if not self._key and not records.count():
            rows = steps.append(connection, step, text_of(self._spool))
        refused = 0
        if rows is None:
            staged = steps.StagedStep(connection, records, step)
            rows = staged.load(text_of(self._spool), deletes=deletes)
            refused = staged.apply()
        refused += records.refuse(refusals_of(self._spool), step.name)
        records.write(tag.flow, tag, dict(tag.positions), made=made, oid=self._oid())
        return StagedCopy(rows - refused, 0, 0)

    def _made(self, columns: Mapping[str, str], tag: CommitTag, before: StoredPosition | None, *, first: bool) -> bool:
        """Have the table as the step needs it; returns whether it is the export's own."""
        connection, table = self._connection, self._table
        found = find(connection, table)
        of_stream = before is not None and before.flow != SNAPSHOT
        if before is not None and of_stream:
            # A flow that is copied from its beginning once more takes any table, also where the last one is gone.
            (self._require_flow if first else self._require_own)(before, tag)
        elif found is not None and self.definition.if_exists == "fail":
            raise UsageError(
                Code.ALREADY_EXISTS,
                f"there is a table {table} already",
                hint="export to another one, or say what to do with it: if_exists: append or overwrite",
            )
        if found is None:
            create(connection, table, columns)
            if self._key:
                self._add_key(table, table)
            return True
        made = before is not None and before.made and before.oid == found.oid
        require_fit(found, table, columns, self._key, own=made)
        evolve(connection, table, found, columns)
        if first and (self.definition.if_exists == "overwrite" or (of_stream and made)):
            connection.execute(sql.SQL("DELETE FROM {}").format(table.quoted))
            self._records.clear()
        return made

    def _oid(self) -> int:
        found = find(self._connection, self._table)
        assert found is not None
        return found.oid

    def visible(self) -> Mapping[str, object]:
        with reaching(self._address):
            position = self._records.position()
        return {} if position is None else position.source

    def rejected(self) -> Sequence[RejectedRow]:
        with reaching(self._address):
            return self._records.rejected()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


def _columns_of(schema: StructType) -> dict[str, str]:
    return {field.name: column_type(field.dataType, field.name) for field in schema.fields}
