"""The answer to a query: the same rows and types whichever engine gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from headwater.core.errors import Code, TerminalError, UsageError
from headwater.query.limits import SMALL, Limits, QueryStop

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headwater.core.model import Version


HINT = "add a LIMIT, or allow more: queries.max_rows and queries.max_bytes"
FEW_BYTES = 64 * 1024 * 1024
"""What a result that an engine has ready as values is smaller than."""


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


class Result:
    """Rows of a query, read when asked for; a second reading asks the engine again, at the same versions."""

    def __init__(
        self,
        answer: Answer,
        again: Callable[[], Answer],
        *,
        limits: Limits | None = None,
        stopping: QueryStop | None = None,
        df: Callable[[], DataFrame] | None = None,
        view: str | None = None,
    ) -> None:
        self._answer = answer
        self._again = again
        self._limits = limits or Limits()
        self._stopping = stopping or QueryStop()
        self._df = df
        self._fresh = True
        self.view = view
        """The view that was read instead of the tables that the query names."""

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

        found = self._answer.schema
        names = told_apart(found.names)
        return pa.schema([pa.field(name, _open_to_nulls(f.type)) for name, f in zip(names, found, strict=True)])

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    @property
    def df(self) -> DataFrame:
        """A Spark DataFrame of it; starts Spark where DuckDB has answered."""
        if self._df is None:
            raise UsageError(Code.USAGE, "this result has no Spark behind it")
        return self._df()

    def cancel(self) -> None:
        """Stop the query, from any thread."""
        self._stopping.cancel()

    def close(self) -> None:
        self._answer.close()

    # --- reading

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batch by batch, never held whole."""
        self._renew()
        rows = held = 0
        for batch in self._answer.batches():
            self._stopping.check()
            rows += batch.num_rows
            held += batch.nbytes
            self._check(rows, held)
            yield self._shaped(batch)

    def _renew(self) -> None:
        if not self._fresh:
            self._answer = self._again()
        self._fresh = False

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        from headwater.formats.arrow import conformed

        if batch.schema.equals(self.schema) or not batch.num_columns:
            return batch
        arrays = [conformed(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Row by row."""
        for batch in self.batches():
            yield from rows_of(batch)

    def rows(self) -> list[dict[str, Any]]:
        most = self._limits
        if (most.rows is not None and most.rows <= SMALL) or (most.bytes is not None and most.bytes <= FEW_BYTES):
            return list(self)  # counted as they come
        self._renew()
        at_once = self._answer.rows()
        if at_once is None:
            self._fresh = True  # nothing has been read of it
            return list(self)
        self._stopping.check()
        names = self.columns
        return [dict(zip(names, values, strict=True)) for values in at_once]

    def arrow(self) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def pandas(self) -> pd.DataFrame:
        found: pd.DataFrame = self.arrow().to_pandas()
        return found

    def polars(self) -> pl.DataFrame:
        try:
            import polars as pl
        except ImportError as error:
            raise UsageError(
                Code.MISSING_EXTRA, "polars is not installed", hint="pip install polars, or use .arrow()"
            ) from error
        found = pl.from_arrow(self.arrow())
        assert isinstance(found, pl.DataFrame)
        return found

    def _check(self, rows: int, held: int) -> None:
        most = self._limits
        if most.rows is not None and rows > most.rows:
            raise TerminalError(Code.QUERY_LIMIT, f"the result has more than {most.rows} rows", hint=HINT)
        if most.bytes is not None and held > most.bytes:
            raise TerminalError(Code.QUERY_LIMIT, f"the result has more than {most.bytes} bytes", hint=HINT)


def told_apart(names: Sequence[str]) -> list[str]:
    """Of columns with one name, as two tables of a join have them, the second gets a number: id, id_2."""
    found: list[str] = []
    for name in names:
        own, number = name, 2
        while own in found or (own != name and own in names):
            own, number = f"{name}_{number}", number + 1
        found.append(own)
    return found


def _open_to_nulls(type: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_struct(type):
        return pa.struct([pa.field(f.name, _open_to_nulls(f.type)) for f in type])
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", _open_to_nulls(type.value_type)))
    if pa.types.is_map(type):
        return pa.map_(_open_to_nulls(type.key_type), _open_to_nulls(type.item_type))
    return type


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows as Python values; maps are dicts."""
    import pyarrow as pa

    columns = []
    for column in batch.columns:
        values = column.to_pylist()
        columns.append([_plain(v, column.type) for v in values] if pa.types.is_nested(column.type) else values)
    names = batch.schema.names
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _plain(value: Any, type: pa.DataType) -> Any:
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_map(type):
        return {_plain(k, type.key_type): _plain(v, type.item_type) for k, v in value}
    if pa.types.is_list(type):
        return [_plain(item, type.value_type) for item in value]
    if pa.types.is_struct(type):
        return {field.name: _plain(value[field.name], field.type) for field in type}
    return value
