"""Column statistics of any format: one scan for what only rows can tell, the footers for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from headwater.core.model import ColumnStats, TableStats
from headwater.core.storage import Files
from headwater.formats.base import Capability
from headwater.formats.footers import column_bytes
from headwater.spark.frames import column
from headwater.spark.years import is_beyond_years, is_time

if TYPE_CHECKING:
    from headwater.formats.spark_table import SparkTable


def table_stats(
    table: SparkTable, sizes: Mapping[str, int] | None = None, named: Mapping[str, str] | None = None
) -> TableStats:
    """Exact rows, nulls, min and max of the latest version, an estimate of distinct values.

    `sizes` are the columns' bytes where the table's own metadata has them; else the footers tell, by the names that
    columns are `named` in files.
    """
    version = table.version()
    at = version if table.format.can(Capability.TIME_TRAVEL) else None
    files, rows = table.files(at), table.read(at)
    fields = rows.schema.fields
    wanted: list[Column] = [F.count(F.lit(1)).alias("rows")]
    for i, f in enumerate(fields):
        wanted.append(F.count(F.when(column(f.name).isNull(), 1)).alias(f"nulls_{i}"))
        if _comparable(f.dataType):
            wanted.append(F.approx_count_distinct(column(f.name)).alias(f"distinct_{i}"))
            for end in (F.min, F.max):
                wanted += _extreme(end(column(f.name)), f.dataType, f"{end.__name__}_{i}")
    found = rows.agg(*wanted).first()
    assert found is not None
    values = found.asDict()
    if sizes is None:
        lake = Files(table.context.warehouse, table.context.storage)
        sizes = column_bytes(lake, [file.path for file in files])
    columns = tuple(
        ColumnStats(
            column=f.name,
            type=f.dataType.simpleString(),
            nulls=values[f"nulls_{i}"],
            distinct=values.get(f"distinct_{i}"),
            min=values.get(f"min_{i}_text") or values.get(f"min_{i}"),
            max=values.get(f"max_{i}_text") or values.get(f"max_{i}"),
            bytes=sizes.get(f.name if named is None else named.get(f.name, f.name)),
        )
        for i, f in enumerate(fields)
    )
    return TableStats(values["rows"], sum(file.bytes for file in files), len(files), columns, version)


def _extreme(value: Column, data_type: DataType, name: str) -> list[Column]:
    """A value; as text where Python has none for it."""
    if not is_time(data_type):
        return [value.alias(name)]
    beyond = is_beyond_years(value, data_type)
    return [F.when(~beyond, value).alias(name), F.when(beyond, value.cast("string")).alias(f"{name}_text")]


def _comparable(data_type: DataType) -> bool:
    return not isinstance(data_type, (StructType, ArrayType, MapType, BinaryType))
