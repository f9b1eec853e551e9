"""A copy in a table of any database with a JDBC driver: Spark writes the rows aside, and one transaction moves them.

`headwater_exports` in the same database says how far each copy is: `target_name`, `flow`, `epoch`, `step` and `source`
(JSON; empty where it is too long). It is written in the transaction that moves the rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headwater.core.errors import Code, HeadwaterError, TerminalError, UsageError
from headwater.core.model import DELETED, CommitTag
from headwater.spark.frames import column
from headwater.targets.base import (
    Checksum,
    Destination,
    ExportTarget,
    ForeignReader,
    SourceState,
    StagedCopy,
    TargetKind,
)
from headwater.targets.jdbc.address import parse_address
from headwater.targets.jdbc.connection import JdbcConnection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POSITIONS = "headwater_exports"
_FLAG = "headwater_deleted"
_LONGEST = 4_000
_SNAPSHOT = "snapshot"
_MAKE = (
    "CREATE TABLE {} (target_name VARCHAR(255) NOT NULL PRIMARY KEY, flow VARCHAR(255) NOT NULL, epoch BIGINT,"
    f" step BIGINT, source VARCHAR({_LONGEST}) NOT NULL)"
)


class JdbcTarget(ExportTarget):
    """One table, by one connection."""

    def __init__(self, kind: TargetKind, destination: Destination) -> None:
        super().__init__(kind, destination)
        self._address = parse_address(self.definition.to, destination.context.storage)
        self._schema = StructType()
        self._staged = False

    @cached_property
    def _connection(self) -> JdbcConnection:
        return JdbcConnection(self.destination.spark, self._address)

    @property
    def _table(self) -> str:
        return self._address.table

    @property
    def _positions(self) -> str:
        return f"{self._address.schema}{_POSITIONS}"

    @property
    def _aside(self) -> str:
        return f"{self._address.schema}headwater_stage_{hashlib.sha256(self._table.encode()).hexdigest()[:8]}"

    @property
    def _key(self) -> Sequence[str]:
        return self.definition.primary_key

    def exists(self) -> bool:
        return self._connection.columns(self._table) is not None

    def check(self, schema: StructType) -> None:
        there = self._connection.columns(self._table)
        if there is not None:
            self._require_columns(schema.names, there)

    def _require_columns(self, names: Sequence[str], there: Sequence[str]) -> None:
        for name in names:
            if name != DELETED and name not in there:
                raise TerminalError(
                    Code.SCHEMA_MISMATCH,
                    f"{self._table} has no column '{name}'",
                    hint="add it there, or export fewer columns: columns",
                )

    # --- snapshots

    def stage(self, rows: DataFrame, source: SourceState) -> StagedCopy:
        self._schema = rows.schema
        self._write_aside(rows, self._key)
        return StagedCopy(None, 0, 1)

    def _write_aside(self, rows: DataFrame, key: Sequence[str]) -> None:
        self._drop_aside()
        self._staged = True
        self._connection.create(self.destination.spark, self._aside, rows.schema, key, aside=True)
        options = {**self._address.options(), "dbtable": self._aside, "numPartitions": "1"}
        with self._connection.reaching():
            rows.write.format("jdbc").options(**options).mode("append").save()

    def _drop_aside(self) -> None:
        if self._connection.columns(self._aside) is not None:
            self._connection.run(f"DROP TABLE {self._aside}")

    def readers(self, *, sample: bool = False) -> Iterator[ForeignReader]:
        name, version = self._connection.product
        yield ForeignReader(name, version, frame=self._frame)

    def _frame(self) -> DataFrame:
        """The rows as the driver reads them, with the types that they had."""
        table = self._aside if self._staged else self._table
        options = {**self._address.options(), "dbtable": table}
        found = self.destination.spark.read.format("jdbc").options(**options).load()
        kinds = {field.name: field.dataType for field in self._schema.fields}
        return found.select(*(column(name).cast(kind).alias(name) for name, kind in kinds.items()))

    def publish(self, written: StagedCopy, source: SourceState, checksum: Checksum | None) -> None:
        connection = self._connection
        self._make(self._schema)
        with connection.transaction():
            self._lock()
            if self.definition.if_exists == "overwrite":
                connection.run(f"DELETE FROM {self._table}")
            elif self._key:
                self._delete_same()
            self._insert(self._schema.names)
            self._note(_SNAPSHOT, None, source.to_json())
        self._drop_aside()
        self._staged = False

    def discard(self) -> None:
        if self._staged:
            self._staged = False
            self._drop_aside()

    # --- streams

    def landed(self, commit_tag: CommitTag) -> bool:
        if self._position() is not None and not self.exists():
            raise TerminalError(
                Code.EXPORT_CHANGED,
                f"{self._table} is gone, and would lack what was exported so far",
                hint=f"copy it again from its beginning: headwater flow rebuild {commit_tag.flow} --yes",
            )
        return self._has(commit_tag)

    def _has(self, tag: CommitTag) -> bool:
        position = self._position()
        if position is None:
            return False
        flow, epoch, step = position
        if flow != tag.flow:
            message = f"{self._table} is the copy of {flow}"
            raise TerminalError(Code.EXPORT_CHANGED, message, hint="export to another table")
        return (epoch, step) >= (tag.epoch, tag.step)

    def apply(self, change: DataFrame, commit_tag: CommitTag, *, first: bool) -> StagedCopy:
        connection = self._connection
        if self._has(commit_tag):
            return StagedCopy(0, 0, 0)
        before = self._position()
        claimed = self._holder() == commit_tag.flow
        if not claimed and self.exists() and self.definition.if_exists == "fail":
            raise UsageError(
                Code.ALREADY_EXISTS,
                f"there is a table {self._table} already",
                hint="export to another one, or say what to do with it: if_exists: append or overwrite",
            )
        deletes = DELETED in change.columns
        columns = [field for field in change.schema.fields if field.name != DELETED]
        self._schema = StructType(columns)
        self._make(self._schema, None if claimed else commit_tag.flow)
        # A flag of a type that all databases have.
        flag = F.when(column(DELETED), 1).otherwise(0) if deletes else F.lit(0)
        self._write_aside(change.select(*(column(one.name) for one in columns), flag.alias(_FLAG)), self._key)
        with connection.transaction():
            self._lock()
            if self._has(commit_tag):  # somebody else has taken it meanwhile
                return StagedCopy(0, 0, 0)
            if first and (self._is_over(before, commit_tag) or self.definition.if_exists == "overwrite"):
                connection.run(f"DELETE FROM {self._table}")
            if self._key:
                self._delete_same()
            rows = self._insert(self._schema.names, f" WHERE {connection.quoted(_FLAG)} = 0")
            self._note(commit_tag.flow, commit_tag, commit_tag.positions)
        self._staged = False
        self._drop_aside()
        return StagedCopy(rows, 0, 1)

    def _is_over(self, before: tuple[str, int, int] | None, tag: CommitTag) -> bool:
        """Whether the flow was started over: its table begins empty."""
        return before is not None and before[0] == tag.flow and before[1] != tag.epoch

    def visible(self) -> Mapping[str, object]:
        if self._connection.columns(self._positions) is None:
            return {}
        found = self._connection.row(f"SELECT source FROM {self._positions} WHERE target_name = ?", [self._table], 1)
        return {} if found is None else dict(json.loads(found[0]))

    def close(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    # --- statements

    def _make(self, schema: StructType, flow: str | None = None) -> None:
        """Make what is not there; databases commit that by itself. `flow` is noted first, so that the table is known
        for its own if its step is tried again."""
        connection = self._connection
        if connection.columns(self._positions) is None:
            connection.run(_MAKE.format(self._positions))
        if flow is not None:
            with connection.transaction():
                self._note(flow, None, {})
        there = connection.columns(self._table)
        if there is None:
            fields = [StructField(field.name, field.dataType) for field in schema.fields]
            connection.create(self.destination.spark, self._table, StructType(fields), self._key)
        else:
            self._require_columns(schema.names, there)

    def _lock(self) -> None:
        """Whoever else writes to the table waits for this transaction's end."""
        self._connection.run(f"UPDATE {self._positions} SET flow = flow WHERE target_name = ?", [self._table])

    def _position(self) -> tuple[str, int, int] | None:
        """Flow, epoch and step; None: no stream has written to it."""
        if self._connection.columns(self._positions) is None:
            return None
        found = self._connection.row(
            f"SELECT flow, epoch, step FROM {self._positions} WHERE target_name = ?", [self._table], 3
        )
        return None if found is None or found[1] is None else (str(found[0]), int(found[1]), int(found[2]))

    def _holder(self) -> str | None:
        """The flow whose copy the table is, or was to be."""
        if self._connection.columns(self._positions) is None:
            return None
        found = self._connection.row(f"SELECT flow FROM {self._positions} WHERE target_name = ?", [self._table], 1)
        return None if found is None else str(found[0])

    def _delete_same(self) -> None:
        same = " AND ".join(
            f"s.{self._connection.quoted(k)} = {self._table}.{self._connection.quoted(k)}" for k in self._key
        )
        self._connection.run(f"DELETE FROM {self._table} WHERE EXISTS (SELECT 1 FROM {self._aside} s WHERE {same})")

    def _insert(self, names: Sequence[str], where: str = "") -> int:
        listed = ", ".join(self._connection.quoted(name) for name in names)
        try:
            return self._connection.run(
                f"INSERT INTO {self._table} ({listed}) SELECT {listed} FROM {self._aside}{where}"
            )
        except HeadwaterError as error:
            if self._key and self._has_twins():
                raise TerminalError(
                    Code.DUPLICATE_KEY,
                    f"primary_key: several rows of the export have the same {', '.join(self._key)}",
                    hint="name the columns that tell the rows apart",
                ) from error
            raise

    def _has_twins(self) -> bool:
        keys = ", ".join(self._connection.quoted(name) for name in self._key)
        twins = f"SELECT COUNT(*) FROM {self._aside} GROUP BY {keys} HAVING COUNT(*) > 1"
        return self._connection.row(twins, [], 1) is not None

    def _note(self, flow: str, tag: CommitTag | None, source: Mapping[str, object]) -> None:
        text = json.dumps(dict(source), sort_keys=True)
        epoch, step = (None, None) if tag is None else (tag.epoch, tag.step)
        connection, positions = self._connection, self._positions
        connection.run(f"DELETE FROM {positions} WHERE target_name = ?", [self._table])
        listed, values = ["target_name", "flow", "source"], [self._table, flow, text if len(text) <= _LONGEST else "{}"]
        if tag is not None:
            listed += ["epoch", "step"]
        marks = ", ".join("?" for _ in listed[:3])
        numbers = "" if tag is None else f", {int(epoch or 0)}, {int(step or 0)}"
        connection.run(f"INSERT INTO {positions} ({', '.join(listed)}) VALUES ({marks}{numbers})", values)
