"""The answer to a query: the same rows and types whichever engine gives them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from headwater.core.errors import Code, TerminalError, UsageError
from headwater.core.record import html_table
from headwater.query.limits import SMALL, Limits, QueryStop

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headwater.core.model import Row, Version


HINT = "add a LIMIT, or allow more: queries.max_rows and queries.max_bytes"
FEW_BYTES = 64 * 1024 * 1024
"""What a result that an engine has ready as values is smaller than."""
KEPT_BYTES = 1024 * 1024 * 1024
"""Rows that were counted are kept up to this size, and are not asked of the engine again."""
SHOWN = 20
"""Rows that a notebook shows."""


class Answer(Protocol):
    """What an engine gives."""

    @property
    def engine(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def versions(self) -> Mapping[str, Version | None]: ...
    @property
    def schema(self) -> pa.Schema: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Once."""
        ...

    def rows(self) -> list[tuple[Any, ...]] | None:
        """The rows at once, where that is quicker than by batches; None where it is not. Once."""
        ...

    def close(self) -> None: ...


class HeldAnswer:
    """An answer whose rows are in memory; it can be read any number of times."""

    def __init__(
        self, table: pa.Table, engine: str, reason: str, versions: Mapping[str, Version | None] | None = None
    ) -> None:
        self._table = table
        self.engine = engine
        self.reason = reason
        self.versions: Mapping[str, Version | None] = versions or {}

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_batches()

    def rows(self) -> None:
        """Only by batches."""

    def close(self) -> None:
        """Nothing is held elsewhere."""


class Result:
    """Rows of a query, read when asked for; a second reading asks the engine again, at the same versions.

    Decimals are `Decimal` in Python and in pandas, and typed decimals in Arrow and polars.
    """

    def __init__(
        self,
        answer: Answer,
        again: Callable[[], Answer],
        *,
        limits: Limits | None = None,
        stopping: QueryStop | None = None,
        df: Callable[[], DataFrame] | None = None,
        read: Callable[[], None] = lambda: None,
    ) -> None:
        """`read` is called when it has been read to its end, or nobody will."""
        self._answer = answer
        self._read = read
        self._again = again
        self._limits = limits or Limits()
        self._stopping = stopping or QueryStop()
        self._df = df
        self._fresh = True
        self._length: int | None = None
        self._held: list[pa.RecordBatch] | None = None

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<Result of {self.engine} ({columns})>"

    def _repr_html_(self) -> str:
        """Its first rows: what a notebook shows."""
        table = self._first(SHOWN + 1)
        rows = [row for batch in table.to_batches() for row in printable_rows(batch)]
        note = f"the first {SHOWN} rows; there are more" if len(rows) > SHOWN else "" if rows else "no rows"
        return html_table(self.columns, rows[:SHOWN], note=note)

    def __len__(self) -> int:
        """How many rows there are: they are read for that, and kept if they are not too many."""
        if self._length is None:
            kept: list[pa.RecordBatch] | None = []
            rows = held = 0
            for batch in self.batches():
                rows, held = rows + batch.num_rows, held + batch.nbytes
                if kept is not None and held <= KEPT_BYTES:
                    kept.append(batch)
                else:
                    kept = None
            self._length, self._held = rows, kept
        return self._length

    @property
    def engine(self) -> str:
        """`duckdb` or `spark`."""
        return self._answer.engine

    @property
    def reason(self) -> str:
        """Why that engine."""
        return self._answer.reason

    @property
    def versions(self) -> dict[str, Version | None]:
        """The version of each relation that was read: {"topics.orders": 12}."""
        return dict(self._answer.versions)

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types; every column may have NULLs, as far as a reader is concerned."""
        import pyarrow as pa

        from headwater.query.values import told_apart

        found = self._answer.schema
        names = told_apart(found.names)
        return pa.schema([pa.field(name, _open_to_nulls(f.type)) for name, f in zip(names, found, strict=True)])

    @property
    def columns(self) -> list[str]:
        """Their names."""
        return list(self.schema.names)

    def df(self) -> DataFrame:
        """A Spark DataFrame of it; starts Spark where DuckDB has answered."""
        if self._df is None:
            raise UsageError(Code.USAGE, "this result has no Spark behind it")
        return self._df()

    def cancel(self) -> None:
        """Stop the query, from any thread."""
        self._stopping.cancel()

    def close(self) -> None:
        """Let go of what it holds in its engine."""
        self._answer.close()
        self._read()

    # --- reading

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """In Arrow, batch by batch, never held whole."""
        if self._held is not None:
            yield from self._held
            return
        self._renew()
        rows = held = 0
        try:
            for batch in self._answer.batches():
                self._stopping.check()
                rows += batch.num_rows
                held += batch.nbytes
                self._check(rows, held)
                yield self._shaped(batch)
        finally:
            self._read()

    def _renew(self) -> None:
        if not self._fresh:
            self._answer = self._again()
        self._fresh = False

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        from headwater.schema.arrow import conformed

        if batch.schema.equals(self.schema) or not batch.num_columns:
            return batch
        arrays = [conformed(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def head(self, n: int = 5) -> Result:
        """Its first rows, as a result of their own."""
        answer = HeldAnswer(self._first(n), self.engine, self.reason, self.versions)
        return Result(answer, lambda: answer)

    def _first(self, n: int) -> pa.Table:
        import pyarrow as pa

        found: list[pa.RecordBatch] = []
        missing = n
        reading = self.batches()
        try:
            while missing > 0 and (batch := next(reading, None)) is not None:
                found.append(batch.slice(0, missing))
                missing -= found[-1].num_rows
        finally:
            reading.close()
            if self._held is None:
                self._answer.close()  # nobody reads on from here
        return pa.Table.from_batches(found, schema=self.schema)

    def __iter__(self) -> Iterator[Row]:
        """Row by row."""
        for batch in self.batches():
            yield from _typed_rows(batch)

    def printable(self) -> Iterator[Row]:
        """Row by row, for output: a time that Python has no value for is text."""
        for batch in self.batches():
            yield from printable_rows(batch)

    def to_dicts(self) -> list[Row]:
        """All rows, each as a dict."""
        most = self._limits
        if (most.rows is not None and most.rows <= SMALL) or (most.bytes is not None and most.bytes <= FEW_BYTES):
            return list(iter(self))  # counted as they come
        if self._held is not None:
            return list(iter(self))
        self._renew()
        at_once = self._answer.rows()
        if at_once is None:
            self._fresh = True  # nothing has been read of it
            return list(iter(self))
        self._read()
        self._stopping.check()
        names = self.columns
        return [dict(zip(names, values, strict=True)) for values in at_once]

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame. Decimals stay `Decimal`: pandas' own decimals would round a mean to their scale;
        `.astype(float)` makes a column of them floats."""
        try:
            found: pd.DataFrame = self.to_arrow().to_pandas()
        except (OverflowError, ValueError) as error:
            raise TerminalError(
                Code.VALUE_OUT_OF_RANGE, f"pandas has no value for what a column holds: {error}", hint="use .to_arrow()"
            ) from error
        return found

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        try:
            import polars as pl
        except ImportError as error:
            raise UsageError(
                Code.MISSING_EXTRA, "polars is not installed", hint="pip install polars, or use .to_arrow()"
            ) from error
        found = pl.from_arrow(self.to_arrow())
        assert isinstance(found, pl.DataFrame)
        return found

    rows = to_dicts
    arrow = to_arrow
    pandas = to_pandas
    polars = to_polars

    def _check(self, rows: int, held: int) -> None:
        most = self._limits
        if most.rows is not None and rows > most.rows:
            raise TerminalError(Code.QUERY_LIMIT, f"the result has more than {most.rows} rows", hint=HINT)
        if most.bytes is not None and held > most.bytes:
            raise TerminalError(Code.QUERY_LIMIT, f"the result has more than {most.bytes} bytes", hint=HINT)


def _open_to_nulls(type: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_struct(type):
        return pa.struct([pa.field(f.name, _open_to_nulls(f.type)) for f in type])
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", _open_to_nulls(type.value_type)))
    if pa.types.is_map(type):
        return pa.map_(_open_to_nulls(type.key_type), _open_to_nulls(type.item_type))
    return type


def _typed_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """Rows as Python values; a time that it has no value for is an error."""
    from headwater.query.values import values_of

    names = batch.schema.names
    columns = [values_of(column, partial(_refuse, name)) for name, column in zip(names, batch.columns, strict=True)]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def printable_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """Rows for output: times that Python has no value for, or that have no zone, are text."""
    from headwater.query.values import has_moment, values_of

    columns = [values_of(column, str, has_moment) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))


def _refuse(column: str, written: str) -> Any:
    raise TerminalError(
        Code.VALUE_OUT_OF_RANGE,
        f"column '{column}' holds {written}, and Python's years are 1 to 9999",
        hint=f"read it as text, cast({column} AS string), or in Arrow: .batches(), .to_arrow()",
    )
