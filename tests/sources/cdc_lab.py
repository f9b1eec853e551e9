"""A Postgres database whose changes are followed, the readers of its flows, and what its tables should have become."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession

from headwater.core.errors import Where
from headwater.core.spec.base import placed
from headwater.core.storage import Files
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.postgres.cdc.reader import PostgresCdcReader
from headwater.sources.reader import Position, ReaderContext, Sharing

Row = dict[str, Any]


@dataclass
class Crm:
    """One source: its database, and the lake's folders that its flows share."""

    dsn: str
    folder: Path
    connection: psycopg.Connection[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        self.connection = psycopg.connect(self.dsn, autocommit=True)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)  # type: ignore[call-overload]

    def one(self, sql: str) -> Any:
        row = self.connection.execute(sql).fetchone()  # type: ignore[call-overload]
        return row if row is None or len(row) > 1 else row[0]

    def slots(self) -> dict[str, int]:
        """Slot → how far it has let go."""
        sql = "SELECT slot_name, (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots WHERE database = %s"
        return dict(self.connection.execute(sql, [self.connection.info.dbname]).fetchall())

    def settled_slots(self, count: int) -> set[str]:
        """The slots when there are so many: the server ends what it did for a closed connection a little later."""
        until = time.monotonic() + 20
        while len(self.slots()) != count and time.monotonic() < until:
            time.sleep(0.02)
        return set(self.slots())

    def end(self) -> None:
        self.connection.close()
        self.connect()  # the server may have been restarted
        mine = "FROM pg_replication_slots WHERE database = current_database()"
        until = time.monotonic() + 20
        while self.one(f"SELECT count(*) {mine}"):  # a server may still be at work for somebody who has gone
            assert time.monotonic() < until, self.slots()
            self.run(
                f"SELECT pg_terminate_backend(active_pid) {mine} AND active",
                f"SELECT pg_drop_replication_slot(slot_name) {mine} AND NOT active",
            )
        self.connection.close()


@dataclass
class Follower:
    """The flow of one table, as far as its reader is concerned."""

    spark: SparkSession
    crm: Crm
    table: str
    tables: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    position: Position = None
    epoch: int = 1
    reader: PostgresCdcReader = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, **settings: Any) -> None:
        """A new process: only the position and what is in the lake are left."""
        self.settings = {**self.settings, **settings}
        given = {"type": "postgres_cdc", "dsn": self.crm.dsn, "tables": self.tables, **self.settings}
        spec = placed(PostgresCdcSource.model_validate(given), "crm", Where("headwater.yml", 3))
        flows = tuple(f"topics.{table}" for table in self.tables)
        root = self.crm.folder / self.table
        notes = Files(str(root if self.epoch == 1 else root / f"epoch-{self.epoch}"))
        sharing = Sharing("shop", Files(str(self.crm.folder / "shared")), flows, self.table)
        context = ReaderContext(self.spark, f"topics.{self.table}", notes, str, {}, Files(str(root)), sharing=sharing)
        self.reader = PostgresCdcReader(spec, context)

    def take(self, *, commit: bool = True) -> list[Row] | None:
        """The next range's records: those of a step that landed, or of one that did not."""
        ahead = self.reader.next(self.position)
        if ahead is None:
            return None
        end = json.loads(json.dumps(self.reader.fix_range(self.position, ahead)))
        rows = self.read(end)
        if commit:
            self.reader.committed(end)
            self.position = end
        return rows

    def read(self, end: Position) -> list[Row]:
        records = self.reader.read(self.position, end).collect()
        rows = [{**json.loads(bytes(row["_raw"])), "at": row["_position"], "xid": row["_xid"]} for row in records]
        return sorted(rows, key=lambda row: str(row["at"]))

    def all(self) -> list[Row]:
        """Everything up to the end of the log as it is now."""
        self.reader.freeze()
        found: list[Row] = []
        while (rows := self.take()) is not None:
            found += rows
        self.reader._frozen = None
        return found

    def close(self) -> None:
        self.reader.close()


def told(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """The changes in short: op, before, after."""
    return [(row["op"], row.get("before"), row.get("after")) for row in rows]


def applied(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, Row]:
    """What a table's changes, in order of their positions, make of it."""
    state: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: str(row["_position"])):
        op, before, after = row["_op"], row["before"], row["after"]
        if op == "t":
            state.clear()
        elif op == "d":
            del state[key(before)]
        elif op == "u":
            old = state.pop(key(before) if before is not None else key(after))
            state[key(after)] = {**after, **{name: old[name] for name in row["_unchanged"]}}
        else:
            assert key(after) not in state, f"{op} of a row that is there: {after}"
            state[key(after)] = dict(after)
    return state
