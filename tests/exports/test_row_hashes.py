"""Spark's rows and the same rows in Arrow have one checksum."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.exports.checksum import measure, measure_batches
from headwater.exports.read_back import schema_of
from headwater.schema.types import parse_ddl
from headwater.spark.arrow_bridge import gathered

DDL = (
    "flag boolean, tiny tinyint, small smallint, number int, big bigint, ratio float, share double, "
    "price decimal(10,2), huge decimal(38,6), text string, bytes binary, day date, at timestamp, local timestamp_ntz, "
    "tags array<string>, point struct<x: int, y: array<double>>, counts map<string, bigint>"
)


def values(seed: int) -> Iterator[tuple[Any, ...]]:
    chance = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.15 else value

    for _ in range(300):
        text = "".join(chance.choices("aöß€😀 x,\n\"'", k=chance.choice([0, 1, 3, 4, 7, 8, 9, 31, 32, 33, 70])))
        day = date(1, 1, 2) + timedelta(days=chance.randrange(3_000_000))
        at = datetime(1900, 1, 1) + timedelta(microseconds=chance.randrange(6 * 10**15))
        yield (
            maybe(chance.random() < 0.5),
            maybe(chance.randrange(-128, 128)),
            maybe(chance.randrange(-(2**15), 2**15)),
            maybe(chance.randrange(-(2**31), 2**31)),
            maybe(chance.randrange(-(2**63), 2**63)),
            maybe(chance.choice([0.0, -0.0, 1.5, float("nan"), float("inf")])),
            maybe(chance.choice([0.0, -0.0, chance.random(), float("nan"), -float("inf")])),
            maybe(Decimal(chance.randrange(-(10**10) + 1, 10**10)).scaleb(-2)),
            maybe(Decimal(chance.randrange(-(10**28), 10**28)).scaleb(-6)),
            maybe(text),
            maybe(text.encode()),
            maybe(day),
            maybe(at.replace(tzinfo=timezone.utc)),
            maybe(at),
            maybe([maybe(text), "b"][: chance.randrange(3)]),
            maybe((maybe(1), maybe([maybe(0.5), 2.0]))),
            maybe({"k": maybe(1), text: 2}),
        )


def test_spark_and_arrow_have_one_checksum(spark: SparkSession, seed: int) -> None:
    schema = parse_ddl(spark, DDL)
    assert schema is not None
    rows = spark.createDataFrame(list(values(seed)), schema)
    expected = measure(rows)
    held, wanted = gathered(rows), schema_of(schema)
    assert expected.rows == 300
    assert measure_batches(held.to_batches(max_chunksize=70), wanted) == expected
    as_read = held.set_column(9, "text", held["text"].combine_chunks().dictionary_encode())
    assert measure_batches(as_read.take(list(reversed(range(300)))).to_batches(), wanted) == expected


@pytest.mark.parametrize(
    "other",
    [
        "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'z'",
        "SELECT 1 AS a, 'y' AS b UNION ALL SELECT 2, 'x'",
        "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL",
        "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y' UNION ALL SELECT 2, 'y'",
        "SELECT 1 AS a, 'x' AS b",
    ],
)
def test_whatever_differs_shows(spark: SparkSession, other: str) -> None:
    rows = spark.sql("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y'")
    found = spark.sql(other)
    table = gathered(found)
    assert measure(found) != measure(rows)
    assert measure_batches(table.to_batches(), schema_of(rows.schema)) != measure(rows)
    assert isinstance(table, pa.Table)
