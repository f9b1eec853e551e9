"""The answer to a query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Result:
    """Rows of a query, computed when asked for."""

    def __init__(self, df: DataFrame, engine: str = "spark") -> None:
        self._df = df
        self.engine = engine

    @property
    def columns(self) -> list[str]:
        return list(self._df.columns)

    @property
    def df(self) -> DataFrame:
        """The Spark DataFrame behind it."""
        return self._df

    def rows(self) -> list[dict[str, Any]]:
        return list(self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Row by row, never held whole."""
        for row in self._df.toLocalIterator(prefetchPartitions=True):
            yield row.asDict(recursive=True)

    def arrow(self) -> pa.Table:
        import pyarrow as pa

        from headwater.formats.arrow import as_spark

        batches = self._df._collect_as_arrow()
        if not batches:
            from pyspark.sql.pandas.types import to_arrow_schema

            return to_arrow_schema(self._df.schema).empty_table()
        table = pa.Table.from_batches(batches)
        return as_spark(table.to_reader()).read_all()

    def pandas(self) -> pd.DataFrame:
        return self._df.toPandas()
