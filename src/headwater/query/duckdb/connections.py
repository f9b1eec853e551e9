"""A query on DuckDB: it has a connection of its own, and can be stopped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from headwater.core.errors import Code, TerminalError
from headwater.query.duckdb.eligibility import REASON, QueryPlan
from headwater.query.duckdb.instances import connect, forget_if_broken, release
from headwater.query.duckdb.translation.terms import duckdb_type
from headwater.query.limits import Limits, QueryStop
from headwater.schema.arrow import conformed

if TYPE_CHECKING:
    from headwater.core.model import Version

BATCH_ROWS = 64 * 1024
HELD_BACK = 64 * 1024 * 1024
"""How much of a result is held until it is known to be whole: what fails before is answered by Spark instead."""


class TurnToSpark(Exception):
    """DuckDB could not answer, and nothing has been handed out yet."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DuckDBAnswer:
    """A running query. Made whole, or its first rows, before it is handed out."""

    engine = "duckdb"

    def __init__(self, plan: QueryPlan, limits: Limits, stopping: QueryStop) -> None:
        self.reason = REASON
        self.versions: dict[str, Version | None] = plan.versions
        self.schema = plan.schema
        self._stopping = stopping
        self._limits = limits
        self._kept = connect(plan.folders, limits.memory)
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

    def _begin(self, plan: QueryPlan) -> None:
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
                forget_if_broken(error)
                self._stopping.check()
                if isinstance(error, duckdb.OutOfMemoryException) and self._limits.memory is not None:
                    raise self._too_much() from error
                raise TurnToSpark(_first_line(error)) from error

    def _run(self, sql: str, plan: QueryPlan) -> Iterator[pa.RecordBatch] | None:
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
                    forget_if_broken(error)
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


def register(connection: duckdb.DuckDBPyConnection, plan: QueryPlan) -> dict[str, str]:
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
