"""A result of plain rows, duplicates and all: each stored row has a key of its own."""

from __future__ import annotations

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headwater.core.model import DELETED, WEIGHT
from headwater.incremental.keys import keys_of
from headwater.incremental.operator import Moment
from headwater.incremental.query import Query
from headwater.incremental.run import Run, consolidated
from headwater.incremental.state.base import (
    HIDDEN,
    ID,
    RetractionMismatch,
    Stored,
    StoredResult,
    Update,
    has_floats,
    of_row,
)
from headwater.spark.arrow_bridge import lying
from headwater.spark.frames import column

ROW = f"{HIDDEN}row"
"""The fingerprint of a stored row: by it the rows are found that a change takes back."""
_NTH = f"{HIDDEN}nth"
_EXACT = f"{HIDDEN}exact"


class Bag(StoredResult):
    """Any query: its change says which rows came and which went."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.columns = tuple(name for name, _ in query.columns)

    @property
    def description(self) -> str:
        return "rows that came are added, rows that went are found by their fingerprint"

    def whole(self, run: Run) -> DataFrame:
        return self._stored(self._query.rows(Moment.NEW, run))

    def _stored(self, df: DataFrame) -> DataFrame:
        row = of_row(df, self.columns, about=True)
        return df.select(*map(column, self.columns), _fresh_id().alias(ID), row.alias(ROW))

    def update(self, run: Run, stored: Stored) -> Update | None:
        change = self._query.change(run)
        if change is None:
            return None
        change = run.materialized(consolidated(change))
        went = change.where(column(WEIGHT) < 0)
        came = change.where(column(WEIGHT) > 0)
        if went.isEmpty():
            return Update(self._stored(_repeated(came)), appends=True)
        deletes = self._leaving(run, went, stored).withColumn(DELETED, F.lit(True))
        # Keys that are made at random are made once: the rows lie still before they are merged.
        adds = run.materialized(self._stored(_repeated(came))).withColumn(DELETED, F.lit(False))
        return Update(adds.unionByName(deletes))

    def _leaving(self, run: Run, went: DataFrame, stored: Stored) -> DataFrame:
        """The stored rows that the change takes back: as many of each as it says, or it can't be ingested."""
        exact = of_row(went, self.columns) if has_floats(went, self.columns) else F.lit(None).cast("string")
        gone = went.select(
            of_row(went, self.columns, about=True).alias(ROW), exact.alias(_EXACT), (-column(WEIGHT)).alias(WEIGHT)
        )
        gone = run.materialized(gone.groupBy(ROW).agg(F.sum(WEIGHT).alias(WEIGHT), F.collect_set(_EXACT).alias(_EXACT)))
        there = stored.some(keys_of([(gone, [ROW])], [ROW]))
        wanted = there.join(gone, ROW)
        if has_floats(went, self.columns):
            # Rows that differ in their last digits alone are alike; the very ones go first.
            wanted = wanted.withColumn(_EXACT, ~F.array_contains(_EXACT, of_row(there, self.columns)))
        nth = F.row_number().over(Window.partitionBy(ROW).orderBy(_EXACT, ID))
        leaving = wanted.withColumn(_NTH, nth).where(column(_NTH) <= column(WEIGHT))
        leaving = run.materialized(leaving.select(*map(column, there.columns)))
        if _count(leaving) != _total(gone):
            raise RetractionMismatch
        return leaving


def _count(df: DataFrame) -> int:
    rows = lying(df)
    return df.count() if rows is None else rows.num_rows


def _total(gone: DataFrame) -> int:
    rows = lying(gone)
    told = gone.agg(F.sum(WEIGHT)).first()[0] if rows is None else pc.sum(rows[WEIGHT]).as_py()  # type: ignore[index]
    return int(told or 0)


def _fresh_id() -> Column:
    return F.expr("uuid()")


def _repeated(came: DataFrame) -> DataFrame:
    """Each row as often as its weight says."""
    names = [name for name in came.columns if name != WEIGHT]
    times = F.explode(F.sequence(F.lit(1).cast("bigint"), column(WEIGHT)))
    return came.select(*map(column, names), times.alias(_NTH)).select(*map(column, names))
