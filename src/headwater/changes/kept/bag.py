"""A result of plain rows, duplicates and all: each stored row has a key of its own."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headwater.changes.kept.base import HIDDEN, ID, Kept, Stored, Update, of_row
from headwater.changes.keys import keys_of
from headwater.changes.operator import Moment
from headwater.changes.query import Query
from headwater.changes.run import Run, consolidated
from headwater.formats.frames import column
from headwater.model import DELETED, WEIGHT

ROW = f"{HIDDEN}row"
"""The fingerprint of a stored row: by it the rows are found that a change takes back."""
_NTH = f"{HIDDEN}nth"


class Bag(Kept):
    """Any query: its change says which rows came and which went."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.columns = tuple(name for name, _ in query.columns)

    @property
    def told(self) -> str:
        return "rows that came are added, rows that went are found by their fingerprint"

    def whole(self, run: Run) -> DataFrame:
        return self._stored(self._query.rows(Moment.NEW, run))

    def _stored(self, df: DataFrame) -> DataFrame:
        return df.select(*map(column, self.columns), _fresh_id().alias(ID), of_row(df, self.columns).alias(ROW))

    def update(self, run: Run, stored: Stored) -> Update | None:
        change = self._query.change(run)
        if change is None:
            return None
        change = run.settled(consolidated(change))
        went = change.where(column(WEIGHT) < 0)
        came = change.where(column(WEIGHT) > 0)
        if went.isEmpty():
            return Update(self._stored(_repeated(came)), appends=True)
        gone = went.select(of_row(went, self.columns).alias(ROW), (-column(WEIGHT)).alias(WEIGHT))
        gone = run.settled(gone.groupBy(ROW).agg(F.sum(WEIGHT).alias(WEIGHT)))
        there = stored(keys_of([(gone, [ROW])], [ROW]), ())
        nth = F.row_number().over(Window.partitionBy(ROW).orderBy(ID))
        leaving = there.withColumn(_NTH, nth).join(gone, ROW).where(column(_NTH) <= column(WEIGHT))
        deletes = leaving.select(*map(column, there.columns)).withColumn(DELETED, F.lit(True))
        # Keys that are made at random are made once: the rows lie still before they are merged.
        adds = run.settled(self._stored(_repeated(came))).withColumn(DELETED, F.lit(False))
        return Update(adds.unionByName(deletes))


def _fresh_id() -> Column:
    return F.expr("uuid()")


def _repeated(came: DataFrame) -> DataFrame:
    """Each row as often as its weight says."""
    names = [name for name in came.columns if name != WEIGHT]
    times = F.explode(F.sequence(F.lit(1).cast("bigint"), column(WEIGHT)))
    return came.select(*map(column, names), times.alias(_NTH)).select(*map(column, names))
