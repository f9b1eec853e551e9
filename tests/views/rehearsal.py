"""A workload in memory: its queries are kept over two states of tables that lie in the JVM, without a lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.core.model import WEIGHT
from headwater.formats.key_filter import KeyFilter
from headwater.incremental.operator import Moment
from headwater.incremental.query import incremental
from headwater.incremental.run import Run
from headwater.incremental.state.choice import kept
from headwater.incremental.translation.refusal import NotIncremental
from headwater.spark.arrow_bridge import local_frame
from headwater.sql.references import parse_query
from headwater.views.presentation import presented
from tests.changes.lab import as_text
from tests.changes.test_shapes import Stored
from tests.views.workloads import Changes, Fields


class _States:
    """Both states of the tables, and the change from one to the other."""

    def __init__(self, old: Mapping[str, DataFrame], new: Mapping[str, DataFrame], change: Mapping[str, DataFrame]):
        self._frames = {Moment.OLD: old, Moment.NEW: new}
        self._changes = change

    def rows(self, source: str, at: Moment) -> DataFrame:
        return self._frames[at][source]

    def key_filter(self, source: str, at: Moment, key_filter: KeyFilter) -> DataFrame | None:
        return None

    def change(self, source: str) -> DataFrame | None:
        return self._changes.get(source)


class Rehearsal:
    """One cycle of a workload."""

    def __init__(
        self, spark: SparkSession, tables: Mapping[str, pa.Table], keys: Mapping[str, Sequence[str]], changes: Changes
    ) -> None:
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.session.timeZone", "UTC")
        old = {name: local_frame(self._spark, table) for name, table in tables.items()}
        new, signed = dict(old), {}
        for name, (came, went) in changes.items():
            after, weighted = _changed(tables[name], keys[name], came, went)
            new[name] = local_frame(self._spark, after)
            signed[name] = local_frame(self._spark, weighted)
        for name, frame in new.items():
            frame.createOrReplaceTempView(name)
        self._before = _States(old, old, {})
        self._cycle = _States(old, new, signed)
        self._names = list(tables)

    def kept(self, sql: str) -> None:
        """Keep a query over the cycle: what is stored is its answer then. NotIncremental says why it can't be."""
        text = presented(parse_query(sql), sql).query.sql(dialect="spark")
        way = kept(self._spark, incremental(self._spark, text, self._names))
        with Run(self._before) as run:
            stored = Stored(way, way.whole(run))
        with Run(self._cycle) as run:
            update = way.update(run, stored.of(self._spark, whole=True))
            if update is not None:
                stored.take(self._spark, update)
        assert stored.shown(self._spark) == as_text(self._spark.sql(text))

    def require_kept(self, sql: str, falls_back: str | None) -> None:
        """A query is kept, or refused for the reason that is known."""
        if falls_back is None:
            self.kept(sql)
            return
        with pytest.raises(NotIncremental) as refused:
            self.kept(sql)
        assert refused.value.message() == falls_back


def _changed(
    table: pa.Table, keys: Sequence[str], came: Sequence[Fields], went: Sequence[Fields]
) -> tuple[pa.Table, pa.Table]:
    """The table after a change, and the rows that came and went with their weight."""

    def key(row: Fields) -> tuple[Any, ...]:
        return tuple(row[name] for name in keys)

    rows = {key(row): row for row in table.to_pylist()}
    leaving = [rows.pop(key(row)) for row in (*came, *went) if key(row) in rows]
    after = [*rows.values(), *came]
    weights = pa.array([1] * len(came) + [-1] * len(leaving), pa.int64())
    weighted = pa.Table.from_pylist([*came, *leaving], schema=table.schema).append_column(WEIGHT, weights)
    return pa.Table.from_pylist(after, schema=table.schema), weighted
