"""One DuckDB per process; each query has a connection of its own, and can be stopped."""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from headwater.errors import Code, TerminalError
from headwater.formats.arrow import conformed
from headwater.query.duckdb.choosing import REASON, Plan
from headwater.query.limits import Limits, Stopping

if TYPE_CHECKING:
    from headwater.model import Version

BATCH_ROWS = 64 * 1024
HELD_BACK = 64 * 1024 * 1024
"""How much of a result is held until it is known to be whole: what fails before is answered by Spark instead."""

warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")

_lock = threading.Lock()
_shared: duckdb.DuckDBPyConnection | None = None
_idle: list[duckdb.DuckDBPyConnection] = []
_MOST_IDLE = 8


class TurnToSpark(Exception):
    """DuckDB could not answer, and nothing has been handed out yet."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def connect(memory: int | None = None) -> duckdb.DuckDBPyConnection:
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
    return found


def release(connection: duckdb.DuckDBPyConnection, limits: Limits) -> None:
    """Keep a connection for the next query, if nothing hangs on it."""
    with _lock:
        if limits.memory is None and len(_idle) < _MOST_IDLE:
            _idle.append(connection)
            return
    connection.close()


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
        self._connection = connect(limits.memory)
        self._held: list[pa.RecordBatch] = []
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
                self._rest: Iterator[pa.RecordBatch] | None = self._run(sql, plan)
                held = 0
                while held < HELD_BACK:
                    batch = next(self._rest, None)
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

    def _run(self, sql: str, plan: Plan) -> Iterator[pa.RecordBatch]:
        # `execute` holds the whole result, `sql` streams it; where it is small the first is quicker.
        begun: Any = self._connection.execute(sql) if plan.is_small else self._connection.sql(sql)
        return iter(begun.to_arrow_reader(BATCH_ROWS))

    def batches(self) -> Iterator[pa.RecordBatch]:
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
        if self._rest is not None:
            self._rest = None
            self._connection.close()

    def _let_go(self) -> None:
        for name in self._registered:
            self._connection.unregister(name)
        release(self._connection, self._limits)

    def _finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [conformed(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
        if not arrays:
            return batch
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _too_much(self) -> TerminalError:
        return TerminalError(Code.QUERY_LIMIT, "the query needs more memory than it may take", hint="ask for less")


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
