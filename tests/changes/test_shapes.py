"""What is stored of a query and maintained by its sources' changes is its result; whatever changes at random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.model import DELETED
from headwater.incremental.keys import KeySet, narrowed
from headwater.incremental.query import Query, incremental
from headwater.incremental.run import Run
from headwater.incremental.state.base import ID, SHOWN, StoredResult, Update
from headwater.incremental.state.choice import kept
from headwater.incremental.translation.refusal import NotIncremental
from headwater.spark.arrow_bridge import local_frame
from headwater.spark.frames import column
from headwater.sql.dialect import Headwater
from headwater.sql.references import parse_query
from tests.changes.lab import SCHEMAS, Row, Shop, States, as_text, frame, frame_of
from tests.changes.shapes import REFUSED, SHAPES
from tests.scale import scaled

CYCLES = int(scaled("HEADWATER_VIEWS_CYCLES", usual=2, full=4))
Change = dict[str, tuple[list[Row], list[Row]]]


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


@dataclass(frozen=True)
class Held:
    """Stored rows, for whoever keeps them."""

    rows: DataFrame
    whole: bool

    def some(self, keys: KeySet, columns: Sequence[str] = ()) -> DataFrame:
        rows = narrowed(self.rows, keys)
        return rows.select(*map(column, columns)) if columns else rows

    def all(self, columns: Sequence[str]) -> DataFrame | None:
        return self.rows.select(*map(column, columns)) if self.whole else None


class Stored:
    """The rows of a kept query, by their keys, as a table would hold them."""

    def __init__(self, kept: StoredResult, whole: DataFrame) -> None:
        self._kept = kept
        self.schema = whole.schema
        self._rows = {row[ID]: row for row in whole.collect()}
        assert len(self._rows) == len({*self._rows})

    def of(self, spark: SparkSession, *, whole: bool) -> Held:
        """As a query is shown them; `whole`: all at once where it asks for that."""
        return Held(frame_of(spark, list(self._rows.values()), self.schema), whole)

    def take(self, spark: SparkSession, update: Update) -> None:
        rows = update.rows if update.taken is None else local_frame(spark, update.taken)
        for row in rows.select(
            *(column(f.name).cast(f.dataType.simpleString()).alias(f.name) for f in self.schema.fields),
            F.lit(False).alias(DELETED) if update.appends else column(DELETED),
        ).collect():
            if row[DELETED]:
                self._rows.pop(row[ID], None)
            else:
                assert not update.appends or row[ID] not in self._rows
                self._rows[row[ID]] = row

    def shown(self, spark: SparkSession) -> Counter[str]:
        df = frame_of(spark, list(self._rows.values()), self.schema)
        if self._kept.filtered:
            df = df.where(column(SHOWN))
        return as_text(df.select(*map(column, self._kept.columns)))


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_stored_is_the_result(quick: SparkSession, seed: int, shape: str) -> None:
    shop = Shop(seed + sum(map(ord, shape)))
    follow(quick, SHAPES[shape], shop, (shop.change() for _ in range(CYCLES)))


@pytest.mark.parametrize("shape", ["union all of types", "union of types and aggregate", "full by types"])
def test_sources_that_change_alone(quick: SparkSession, seed: int, shape: str) -> None:
    shop = Shop(seed)
    for name in shop.tables:
        shop.change(name)
    follow(quick, SHAPES[shape], shop, (shop.change(name) for name in (*shop.tables, *shop.tables)))


def test_sums_that_are_larger_than_their_values(quick: SparkSession) -> None:
    shop, large = Shop(0), 9_000_000_000_000_000_000
    rows: list[Row] = [(n, f"c{n}", "n", 1) for n in (large, large, large - 1024)]
    shop.tables["customers"] = rows[:1]

    def changes() -> Iterator[Change]:
        for row in rows[1:]:
            shop.tables["customers"].append(row)
            yield {"customers": ([row], [])}

    follow(quick, "SELECT region, avg(id) AS a, count(id) AS n FROM customers GROUP BY region", shop, changes())


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused(quick: SparkSession, reason: str) -> None:
    with pytest.raises(NotIncremental, match=reason):
        incremental(quick, REFUSED[reason], list(SCHEMAS))


def follow(spark: SparkSession, sql: str, shop: Shop, changes: Iterable[Change]) -> None:
    """Keep a query's result through changes of the shop, and compare it with the query's own answer."""
    way = kept(spark, incremental(spark, sql, list(SCHEMAS)))
    states = States(spark, shop.tables)
    with Run(states) as run:
        stored = Stored(way, way.whole(run))
    for cycle, change in enumerate(changes):
        states = states.after(shop, change)
        with Run(states) as run:
            update = way.update(run, stored.of(spark, whole=cycle % 2 == 0))
            if update is not None:
                stored.take(spark, update)
        assert stored.shown(spark) == answered(spark, sql, states), f"{sql}: {change}"


def answered(spark: SparkSession, sql: str, states: States) -> Counter[str]:
    """The query's own answer over the new state."""
    for name in SCHEMAS:
        states.new(name).createOrReplaceTempView(name)
    found = as_text(spark.sql(parse_query(sql).sql(dialect=Headwater)))  # as the lake's own front sends it
    show_nothing(spark)
    return found


def test_every_shape_is_a_query_of_its_own() -> None:
    assert len(set(SHAPES.values())) == len(SHAPES) >= 60


def test_what_a_query_shows(quick: SparkSession) -> None:
    query: Query = incremental(quick, SHAPES["left join and aggregate"], list(SCHEMAS))
    titles = [one.title for one in query.operator.walk()]
    assert titles[1].startswith("aggregate by id, name: count, sum")
    assert "left outer join on id = customer" in titles
