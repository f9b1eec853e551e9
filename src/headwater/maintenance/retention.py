"""Rows of a topic that have had their time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal

from pyspark.sql import functions as F

from headwater.core.quotes import backticked, spark_text
from headwater.formats.spark_table import SparkTable
from headwater.sources.column_names import INGESTED_AT
from headwater.spark.frames import column

AT_ONCE = 500
"""Partitions that one commit takes away."""


@dataclass(frozen=True)
class OldRows:
    """The rows of a topic that go by one commit."""

    where: str
    """What they meet, in SQL."""
    rows: int


def old_rows(table: SparkTable, before: datetime) -> OldRows | None:
    """What was ingested before a time: whole partitions, where a topic has any; None if there is nothing.

    A partition that still gets rows stays whole, so that none of its files is written again.
    """
    if INGESTED_AT not in table.schema().names:
        return None
    rows, names = table.read(), set(table.schema().names)
    by = [name for name in table.layout().partition_by if name in names]
    old = column(INGESTED_AT) < F.lit(before)
    if not by:
        count = rows.where(old).count()
        return OldRows(f"{backticked(INGESTED_AT)} < {_literal(before)}", count) if count else None
    newest = F.max(column(INGESTED_AT))
    grouped = rows.groupBy(*map(column, by)).agg(newest.alias("__newest"), F.count(F.lit(1)).alias("__rows"))
    gone = grouped.where(column("__newest") < F.lit(before)).limit(AT_ONCE).collect()
    if not gone:
        return None
    each = [" AND ".join(f"{backticked(name)} <=> {_literal(row[name])}" for name in by) for row in gone]
    where = " OR ".join(f"({one})" for one in each)
    return OldRows(where, sum(row["__rows"] for row in gone))


def _literal(value: object) -> str:
    """A value of a partition as Spark's SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        # Spark gives moments in this machine's zone, without naming it.
        return f"TIMESTAMP '{value.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f}Z'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value}BD"
    return spark_text(str(value))
