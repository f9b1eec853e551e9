"""Column statistics of any format without a JVM: one scan by DuckDB for what only rows can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.core.errors import Unsupported
from headwater.core.model import ColumnStats, DataFile, TableStats
from headwater.core.quotes import double_quoted
from headwater.schema.arrow import within_python
from headwater.schema.columns import TableColumn

if TYPE_CHECKING:
    from headwater.formats.native import NativeTable

COUNTED = 1_000_000
"""Up to so many rows distinct values are counted; of more they are estimated, as Spark does."""


def native_stats(
    table: NativeTable, columns: Sequence[TableColumn], files: Sequence[DataFile], sizes: Mapping[str, int]
) -> TableStats:
    """Of the latest version; `sizes` are the columns' bytes in files."""
    version = table.version()
    size = sum(file.bytes for file in files)
    few = sum(file.rows or 0 for file in files) <= COUNTED
    values = _scanned(table, columns, few=few)
    told = tuple(
        ColumnStats(
            column=each.name,
            type=each.short_type,
            nulls=values[f"nulls_{at}"],
            distinct=values.get(f"distinct_{at}"),
            min=values.get(f"min_{at}"),
            max=values.get(f"max_{at}"),
            bytes=sizes.get(each.name),
        )
        for at, each in enumerate(columns)
    )
    return TableStats(values["rows"], size, len(files), told, version)


def _scanned(table: NativeTable, columns: Sequence[TableColumn], *, few: bool) -> dict[str, Any]:
    import duckdb

    wanted = ["count(*) AS rows"]
    for at, each in enumerate(columns):
        name = double_quoted(each.name)
        wanted.append(f"count(*) - count({name}) AS nulls_{at}")
        if isinstance(each.type, str) and each.type != "binary":
            distinct = f"count(DISTINCT {name})" if few else f"approx_count_distinct({name})"
            wanted += [f"{distinct} AS distinct_{at}", f"min({name}) AS min_{at}", f"max({name}) AS max_{at}"]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("scanned", table.read(columns=[each.name for each in columns]))
        scanned = connection.sql(f"SELECT {', '.join(wanted)} FROM scanned").to_arrow_table()
    if any(within_python(values).null_count > values.null_count for values in scanned.columns):
        raise Unsupported("values of years beyond 1 to 9999 are shown by Spark alone")
    rows: list[dict[str, Any]] = scanned.to_pylist()
    return rows[0]
