"""The change of a query, made by the operators, is the difference of its two results; whatever changes at random."""

from __future__ import annotations

import copy

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.changes.operator import Moment
from headwater.changes.query import Query, incremental
from headwater.changes.run import Run
from headwater.model import WEIGHT
from headwater.sql.references import parse_query
from tests.changes.lab import SCHEMAS, Shop, States, counted
from tests.changes.shapes import SHAPES

CYCLES = 2


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> SparkSession:
    """A session for many plans over a few rows: nothing is worth compiling."""
    session = spark.newSession()
    for name, value in {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        session.conf.set(name, value)
    for name, schema in SCHEMAS.items():
        session.createDataFrame([], schema).createOrReplaceTempView(name)
    return session


@pytest.mark.parametrize("shape", SHAPES)
def test_a_change_is_the_difference_of_the_results(quick: SparkSession, seed: int, shape: str) -> None:
    query = incremental(quick, SHAPES[shape], list(SCHEMAS))
    shop = Shop(seed + sum(map(ord, shape)))
    for _ in range(CYCLES):
        old = copy.deepcopy(shop.tables)
        change = shop.change()
        states = States(quick, old, shop.tables, change)
        expected = counted(difference(quick, SHAPES[shape], states))
        with Run(states) as run:
            found = query.change(run)
            made = {} if found is None else counted(found)
        assert made == expected, f"{shape}: {change}"


def difference(spark: SparkSession, sql: str, states: States) -> DataFrame:
    """The query's two results, as its change."""
    text = parse_query(sql).sql(dialect="spark")  # as the lake's own front sends it
    parts = []
    for at, weight in ((Moment.NEW, 1), (Moment.OLD, -1)):
        for name in SCHEMAS:
            states.rows(name, at).createOrReplaceTempView(name)
        parts.append(spark.sql(text).withColumn(WEIGHT, F.lit(weight).cast("bigint")))
    for name, schema in SCHEMAS.items():
        spark.createDataFrame([], schema).createOrReplaceTempView(name)
    return parts[0].union(parts[1])


def test_every_shape_is_a_query_of_its_own() -> None:
    assert len(set(SHAPES.values())) == len(SHAPES) >= 60


def test_what_a_query_shows(quick: SparkSession) -> None:
    query: Query = incremental(quick, SHAPES["left join and aggregate"], list(SCHEMAS))
    titles = [one.title for one in query.operator.walk()]
    assert titles[1].startswith("aggregate by id, name: count, sum")
    assert "left outer join on id = customer" in titles
