"""A table's signed changes as records: one for every row that came or went, each with a place of its own."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from headwater.core.model import WEIGHT
from headwater.core.quotes import backticked
from headwater.schema.types import has_map
from headwater.sources.decoders.base import EVENT, POSITION, RAW
from headwater.sources.table.positions import TablePosition

OP = "_op"
READ, INSERT, DELETE = "r", "i", "d"
EXTRAS = StructType([StructField(OP, StringType()), StructField(WEIGHT, IntegerType())])
_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_TIMES = "_headwater_times"


def netted(changes: DataFrame) -> DataFrame:
    """EVENT, RAW (its JSON) and WEIGHT, the sum over equal rows: what came and went again is not there."""
    names = [name for name in changes.columns if name != WEIGHT]
    event = F.struct(*(_column(name).alias(name) for name in names))
    raw = F.to_json(event, _JSON).alias(RAW)
    total = F.sum(WEIGHT).cast(IntegerType()).alias(WEIGHT)
    if has_map(changes.drop(WEIGHT).schema):  # Spark can't group by maps
        rows = changes.select(raw, event.alias(EVENT), WEIGHT).groupBy(RAW).agg(F.first(EVENT).alias(EVENT), total)
    else:
        grouped = changes.groupBy(*map(_column, names)).agg(total)
        rows = grouped.select(raw, event.alias(EVENT), WEIGHT)
    return rows.where(F.col(WEIGHT) != 0)


def records(rows: DataFrame, place: TablePosition, *, changes: bool) -> DataFrame:
    """A record for each time that a row came, and with `changes` that it went; those that went sort first."""
    if not changes:
        rows = rows.where(F.col(WEIGHT) > 0)
    each = rows.withColumn(_TIMES, F.explode(F.sequence(F.lit(1), F.abs(WEIGHT))))
    came = F.col(WEIGHT) > 0
    position = F.concat_ws(
        "/",
        F.lit(f"{place.range:012d}"),
        F.lit(str(place.version)),
        F.when(came, "1").otherwise("0"),
        F.md5(RAW),
        F.lpad(F.col(_TIMES).cast(StringType()), 6, "0"),
    )
    op = F.when(came, READ if place.after is None else INSERT).otherwise(DELETE)
    metadata_columns = [op.alias(OP), F.signum(WEIGHT).cast(IntegerType()).alias(WEIGHT)] if changes else []
    return each.select(F.col(RAW).cast("binary").alias(RAW), position.alias(POSITION), *metadata_columns, EVENT)


def _column(name: str) -> Column:
    return F.col(backticked(name))
