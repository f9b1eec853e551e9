"""What is stored of a query and brought forward by its sources' changes is its result; whatever changes at random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.changes.kept.base import ID, SHOWN, Kept
from headwater.changes.kept.choosing import kept
from headwater.changes.keys import Keys, narrowed
from headwater.changes.query import Query, incremental
from headwater.changes.run import Run
from headwater.formats.frames import column
from headwater.model import DELETED
from headwater.sql.references import parse_query
from tests.changes.lab import SCHEMAS, Shop, States, as_text, frame, frame_of
from tests.changes.shapes import SHAPES

CYCLES = 2


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> SparkSession:
    """A session with the shop's tables, empty."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    show_nothing(session)
    return session


@cache
def empty(spark: SparkSession, name: str) -> DataFrame:
    return frame(spark, name, [])


def show_nothing(spark: SparkSession) -> None:
    """Operators are given their rows: what the names stand for in the session is not looked at."""
    for name in SCHEMAS:
        empty(spark, name).createOrReplaceTempView(name)


class Stored:
    """The rows of a kept query, by their keys, as a table would hold them."""

    def __init__(self, kept: Kept, whole: DataFrame) -> None:
        self._kept = kept
        self.schema = whole.schema
        self._rows = {row[ID]: row for row in whole.collect()}
        assert len(self._rows) == len({*self._rows})

    def of(self, spark: SparkSession) -> Any:
        def stored(keys: Keys, columns: Sequence[str]) -> DataFrame:
            rows = narrowed(frame_of(spark, list(self._rows.values()), self.schema), keys)
            return rows.select(*map(column, columns)) if columns else rows

        return stored

    def take(self, rows: DataFrame, *, appends: bool) -> None:
        for row in rows.select(
            *(column(f.name).cast(f.dataType).alias(f.name) for f in self.schema.fields),
            F.lit(False).alias(DELETED) if appends else column(DELETED),
        ).collect():
            if row[DELETED]:
                self._rows.pop(row[ID], None)
            else:
                assert not appends or row[ID] not in self._rows
                self._rows[row[ID]] = row

    def shown(self, spark: SparkSession) -> Counter[str]:
        df = frame_of(spark, list(self._rows.values()), self.schema)
        if self._kept.filtered:
            df = df.where(column(SHOWN))
        return as_text(df.select(*map(column, self._kept.columns)))


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_stored_is_the_result(quick: SparkSession, seed: int, shape: str) -> None:
    query = incremental(quick, SHAPES[shape], list(SCHEMAS))
    way = kept(quick, query)
    shop = Shop(seed + sum(map(ord, shape)))
    states = States(quick, shop.tables)
    with Run(states) as run:
        stored = Stored(way, way.whole(run))
    for _ in range(CYCLES):
        change = shop.change()
        states = states.after(shop, change)
        with Run(states) as run:
            update = way.update(run, stored.of(quick))
            if update is not None:
                stored.take(update.rows, appends=update.appends)
        assert stored.shown(quick) == answered(quick, SHAPES[shape], states), f"{shape}: {change}"


def answered(spark: SparkSession, sql: str, states: States) -> Counter[str]:
    """The query's own answer over the new state."""
    for name in SCHEMAS:
        states.new(name).createOrReplaceTempView(name)
    found = as_text(spark.sql(parse_query(sql).sql(dialect="spark")))  # as the lake's own front sends it
    show_nothing(spark)
    return found


def test_every_shape_is_a_query_of_its_own() -> None:
    assert len(set(SHAPES.values())) == len(SHAPES) >= 60


def test_what_a_query_shows(quick: SparkSession) -> None:
    query: Query = incremental(quick, SHAPES["left join and aggregate"], list(SCHEMAS))
    titles = [one.title for one in query.operator.walk()]
    assert titles[1].startswith("aggregate by id, name: count, sum")
    assert "left outer join on id = customer" in titles
