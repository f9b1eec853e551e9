"""One DuckDB per process; each query has a connection of its own, and can be stopped."""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from headwater.errors import Code, TerminalError
from headwater.formats.arrow import conformed
from headwater.query.duckdb.choosing import REASON, Plan
from headwater.query.duckdb.terms import duckdb_type
from headwater.query.limits import Limits, Stopping

if TYPE_CHECKING:
    from headwater.model import Version

BATCH_ROWS = 64 * 1024
HELD_BACK = 64 * 1024 * 1024
"""How much of a result is held until it is known to be whole: what fails before is answered by Spark instead."""

MOST_MEMORY = "25%"
"""Of the machine's: what does not fit goes to disk, and what can't go there is Spark's. Flows may run here too."""

warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")

_lock = threading.Lock()
_shared: duckdb.DuckDBPyConnection | None = None
_idle: list[Kept] = []
_MOST_IDLE = 8
_MOST_PREPARED = 64


class Kept:
    """A connection that outlives its query, with the statements that were prepared on it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._names: OrderedDict[str, str] = OrderedDict()
        self._numbers = 0

    def execute(self, sql: str, *, often: bool) -> duckdb.DuckDBPyConnection:
        """Run a text; one that is asked often is parsed and planned once. It names its files, which never change."""
        if not often:
            return self.connection.execute(sql)
        name = self._names.get(sql)
        if name is None:
            self._numbers += 1
            name = f"prepared_{self._numbers}"
            self.connection.execute(f"PREPARE {name} AS {sql}")
            self._names[sql] = name
            while len(self._names) > _MOST_PREPARED:
                self.connection.execute(f"DEALLOCATE {self._names.popitem(last=False)[1]}")
        self._names.move_to_end(sql)
        return self.connection.execute(f"EXECUTE {name}")


class TurnToSpark(Exception):
    """DuckDB could not answer, and nothing has been handed out yet."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def connect(memory: int | None = None) -> Kept:
    """A connection for one query; with a limit of memory it has a DuckDB of its own."""
    global _shared
    if memory is not None:
        found = _opened()
        found.execute(f"SET memory_limit = '{max(memory, 1024 * 1024)}B'")
    else:
        with _lock:
            if _idle:
                return _idle.pop()
            if _shared is None:
                _shared = _opened()
            found = _shared.cursor()
    found.execute("SET TimeZone = 'UTC'; SET parquet_metadata_cache = true")
    return Kept(found)


def release(kept: Kept, limits: Limits) -> None:
    """Keep a connection for the next query, if nothing hangs on it."""
    with _lock:
        if limits.memory is None and len(_idle) < _MOST_IDLE:
            _idle.append(kept)
            return
    kept.connection.close()


def _forget_if_broken(error: BaseException) -> None:
    """A DuckDB that failed inside refuses all that follows: the next query opens another."""
    global _shared
    if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):
        with _lock:
            _shared = None
            _idle.clear()


def _opened() -> duckdb.DuckDBPyConnection:
    folder = Path(tempfile.gettempdir()) / f"headwater-duckdb-{os.getpid()}"
    return duckdb.connect(
        ":memory:",
        config={
            "temp_directory": str(folder),
            "memory_limit": MOST_MEMORY,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        },
    )


class DuckDBAnswer:
    """A running query. Made whole, or its first rows, before it is handed out."""

    engine = "duckdb"

    def __init__(self, plan: Plan, limits: Limits, stopping: Stopping) -> None:
        self.reason = REASON
        self.versions: dict[str, Version | None] = plan.versions
        self.schema = plan.schema
        self._stopping = stopping
        self._limits = limits
        self._kept = connect(limits.memory)
        self._connection = self._kept.connection
        self._held: list[pa.RecordBatch] = []
        self._rest: Iterator[pa.RecordBatch] | None = None
        self._ready: Any = None
        """A small result that DuckDB holds whole."""
        self._registered: list[str] = []
        try:
            self._begin(plan)
        except BaseException:
            self._connection.close()
            raise

    def _begin(self, plan: Plan) -> None:
        with self._stopping.stopping(self._connection.interrupt):
            try:
                names = register(self._connection, plan)
                self._registered = list(names.values())
                sql = plan.sql(names) if names else plan.plain_sql
                self._rest = self._run(sql, plan)
                held = 0
                while self._ready is None and held < HELD_BACK:
                    batch = None if self._rest is None else next(self._rest, None)
                    if batch is None:
                        self._rest = None
                        self._let_go()
                        break
                    self._held.append(self._finished(batch))
                    held += batch.nbytes
            except duckdb.InterruptException:
                raise TerminalError(Code.CANCELLED, "the query was stopped") from None
            except (duckdb.Error, pa.ArrowException) as error:
                _forget_if_broken(error)
                self._stopping.check()
                if isinstance(error, duckdb.OutOfMemoryException) and self._limits.memory is not None:
                    raise self._too_much() from error
                raise TurnToSpark(_first_line(error)) from error

    def _run(self, sql: str, plan: Plan) -> Iterator[pa.RecordBatch] | None:
        # `execute` holds the whole result, `sql` streams it; where it is small the first is quicker.
        if plan.is_small:
            held: Any = self._kept.execute(sql, often=plan.asked_again)
            if _all_plain(self.schema, held.description):
                self._ready = held
                return None
            return _batches(held)
        return _batches(self._connection.sql(sql))

    def rows(self) -> list[tuple[Any, ...]] | None:
        """All rows as values, if they lie ready and are what Arrow would make of them; once."""
        if self._ready is None:
            return None
        ready, self._ready = self._ready, None
        found: list[tuple[Any, ...]] = ready.fetchall()
        self._let_go()
        return found

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._ready is not None:
            self._rest, self._ready = _batches(self._ready), None
        yield from self._held
        self._held = []
        while self._rest is not None:
            with self._stopping.stopping(self._connection.interrupt):
                try:
                    batch = next(self._rest, None)
                except (duckdb.Error, pa.ArrowException, OSError) as error:
                    _forget_if_broken(error)
                    self._stopping.check()
                    if isinstance(error, duckdb.OutOfMemoryException) and self._limits.memory is not None:
                        raise self._too_much() from error
                    raise TerminalError(
                        Code.QUERY_FAILED,
                        f"DuckDB stopped in the middle of the result: {_first_line(error)}",
                        hint="--engine spark answers it",
                    ) from error
            if batch is None:
                self._rest = None
                self._let_go()
                return
            yield self._finished(batch)

    def close(self) -> None:
        if self._rest is not None or self._ready is not None:
            self._rest = self._ready = None
            self._connection.close()

    def _let_go(self) -> None:
        for name in self._registered:
            self._connection.unregister(name)
        release(self._kept, self._limits)

    def _finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not batch.num_columns or batch.schema.equals(self.schema):
            return batch
        arrays = [conformed(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _too_much(self) -> TerminalError:
        return TerminalError(Code.QUERY_LIMIT, "the query needs more memory than it may take", hint="ask for less")


def _batches(held: Any) -> Iterator[pa.RecordBatch]:
    found: Iterator[pa.RecordBatch] = iter(held.to_arrow_reader(BATCH_ROWS))
    return found


_PLAIN = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_string)
"""Types whose values are the same from DuckDB as from Arrow."""


def _all_plain(schema: pa.Schema, description: list[tuple[Any, ...]]) -> bool:
    return len(schema) > 0 and all(
        any(is_such(field.type) for is_such in _PLAIN) and str(told[1]) == duckdb_type(field.type)
        for field, told in zip(schema, description, strict=True)
    )


def register(connection: duckdb.DuckDBPyConnection, plan: Plan) -> dict[str, str]:
    """Read the rows of the scans that have no files, and give them names."""
    names: dict[str, str] = {}
    for one in plan.scans:
        read = one.scan.reading.read
        if one.scan.reading.files is None and read is not None:
            columns = one.scan.columns or one.scan.reading.schema.names[:1]
            name = f"rows_{one.scan.alias}"
            connection.register(name, read(columns))
            names[one.scan.alias] = name
    return names


def _first_line(error: Any) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
