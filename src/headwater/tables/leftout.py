"""The rows of a table's inputs that came too late: remembered with their steps, so that what any step is to see of its
inputs follows from what is recorded, however often the step is done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.model import WEIGHT
from headwater.core.storage import Files
from headwater.formats.key_filter import KeyFilter
from headwater.incremental.operator import Moment
from headwater.incremental.relations import States
from headwater.incremental.run import FEW, collected
from headwater.sources.decoders.base import POSITION
from headwater.spark.arrow_bridge import gathered, local_frame
from headwater.spark.frames import column

Key = tuple[str, str, int]
"""What tells a row: its relation, its position there and its event time, in microseconds."""
SCHEMA = pa.schema(
    [
        pa.field("relation", pa.string()),
        pa.field("position", pa.string()),
        pa.field("at", pa.int64()),
        pa.field("step", pa.int64()),
        pa.field("released", pa.int64()),
    ]
)


class LateRows:
    """The rows that were left out since a table was last rebuilt: one file next to its ledger, replaced as a whole.

    A row has the step that it came late in and, if it was let in since, the step that did so: what any step is to see
    of its inputs follows from that.
    """

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._rows: pa.Table | None = None

    @property
    def rows(self) -> pa.Table:
        if self._rows is None:
            content = self._files.find(self._path)
            self._rows = SCHEMA.empty_table() if content is None else pq.read_table(pa.BufferReader(content))
        return self._rows

    def put(self, keys: pa.Table, step: int) -> None:
        """Remember rows of `relation`, `position` and `at`, in place of what an earlier try of the step has found."""
        others = self.rows.filter(pc.field("step") != step)
        fresh = keys.append_column("step", pa.array([step] * len(keys), pa.int64()))
        fresh = fresh.append_column("released", pa.nulls(len(keys), pa.int64()))
        if len(keys) or len(others) < len(self.rows):
            self._write(pa.concat_tables([others, fresh.cast(SCHEMA)]))

    def release(self, keys: Collection[Key], step: int) -> int:
        """Let rows in with a step; how many of the keys there are that had been left out."""
        wanted = [
            released is None and key in keys
            for key, released in zip(_keys(self.rows), self.rows["released"].to_pylist(), strict=True)
        ]
        if any(wanted):
            released = pc.if_else(pa.array(wanted), pa.scalar(step, pa.int64()), self.rows["released"])
            self._write(self.rows.set_column(SCHEMA.get_field_index("released"), SCHEMA.field("released"), released))
        return sum(wanted)

    def some(self, relation: str, condition: pc.Expression) -> pa.Table:
        """The rows of a relation for which a condition on `step` and `released` holds."""
        return self.rows.filter((pc.field("relation") == relation) & condition)

    def _write(self, rows: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd")
        self._files.write_atomic(self._path, sink.getvalue().to_pybytes())
        self._rows = rows


def _keys(rows: pa.Table) -> list[Key]:
    return list(zip(*(rows[name].to_pylist() for name in ("relation", "position", "at")), strict=True))


@dataclass
class InTime:
    """The inputs of one step without the rows that came late before it or with it."""

    states: States
    times: Mapping[str, str]
    """By the label of a relation: its column of the event time."""
    changes: Mapping[str, DataFrame | None]
    """By the label: what has come, without what was late."""
    late: LateRows
    step: int

    def rows(self, source: str, at: Moment) -> DataFrame:
        return self._in_time(self.states.rows(source, at), source, at)

    def key_filter(self, source: str, at: Moment, key_filter: KeyFilter) -> DataFrame | None:
        label = self.states.relations[source].label
        wanted = key_filter.showing(POSITION, self.times[label]) if label in self.times else key_filter
        inner = self.states.key_filter(source, at, wanted)
        return None if inner is None else self._in_time(inner, source, at)

    def _in_time(self, df: DataFrame, source: str, at: Moment) -> DataFrame:
        label = self.states.relations[source].label
        if label not in self.times:
            return df
        left_out = left_out_before(self.step) if at is Moment.OLD else left_out_after(self.step)
        return joined(df, self.times[label], self.late.some(label, left_out), "left_anti", df.sparkSession)

    def change(self, source: str) -> DataFrame | None:
        label = self.states.relations[source].label
        if label not in self.times:
            return self.states.change(source)
        change = self.changes[label]
        let_in = self.late.some(label, pc.field("released") == self.step)
        if not len(let_in):
            return change
        now = self.states.rows(source, Moment.NEW)
        rows = joined(now, self.times[label], let_in, "left_semi", now.sparkSession)
        rows = rows.withColumn(WEIGHT, F.lit(1).cast("bigint"))
        return rows if change is None else change.unionByName(rows)


def left_out_before(step: int) -> pc.Expression:
    """What a step finds left out."""
    return (pc.field("step") < step) & (pc.field("released").is_null() | (pc.field("released") >= step))


def left_out_after(step: int) -> pc.Expression:
    """What a step leaves left out."""
    return (pc.field("step") <= step) & (pc.field("released").is_null() | (pc.field("released") > step))


def left_out_within(step: int) -> pc.Expression:
    """What a step does not take from the changes of its inputs."""
    return (pc.field("step") <= step) & (pc.field("released").is_null() | (pc.field("released") >= step))


class Came:
    """The change of an input that has an event time: a small one lies in this process, and is looked at there."""

    def __init__(self, change: DataFrame | None, time: str, spark: SparkSession) -> None:
        self._change = change
        self._time = time
        self._spark = spark
        self._rows = None if change is None else collected(change, FEW)

    @cached_property
    def _keys(self) -> list[tuple[str, int | None]]:
        """Position and event time of each row of a small change."""
        assert self._rows is not None
        times = self._rows[self._time].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        return list(zip(self._rows[POSITION].to_pylist(), times, strict=True))

    @cached_property
    def _times(self) -> list[int]:
        """The event times that have come with a small change; NULL is none."""
        assert self._rows is not None
        times = self._rows.filter(pc.field(WEIGHT) > 0)[self._time].drop_null()
        instants: list[int] = times.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        return instants

    @cached_property
    def _came(self) -> DataFrame:
        """Those of a large one."""
        assert self._change is not None
        return self._change.where(column(WEIGHT) > 0)

    @property
    def newest(self) -> int | None:
        """The latest event time."""
        if self._change is None:
            return None
        if self._rows is not None:
            return max(self._times, default=None)
        row = self._came.agg(F.max(micros(self._time))).first()
        return None if row is None else row[0]

    def count(self, at: int) -> int:
        """How many rows have come that lie before a time."""
        if self._change is None:
            return 0
        if self._rows is not None:
            return sum(one < at for one in self._times)
        return self._came.where(micros(self._time) < at).count()

    def before(self, at: int) -> list[tuple[str, int]]:
        """Their positions and times."""
        if self._change is None:
            return []
        if self._rows is not None:
            weights = self._rows[WEIGHT].to_pylist()
            arrived = (key for key, weight in zip(self._keys, weights, strict=True) if weight > 0)
            return [(position, time) for position, time in arrived if time is not None and time < at]
        earlier = self._came.where(micros(self._time) < at)
        keys = gathered(earlier.select(column(POSITION).alias("position"), micros(self._time).alias("at")))
        return list(zip(keys["position"].to_pylist(), keys["at"].to_pylist(), strict=True))

    def of(self, keys: Collection[tuple[str, int]]) -> DataFrame:
        """The rows that have one of some positions and times."""
        assert self._change is not None
        if self._rows is not None:
            mask = [key in keys for key in self._keys]
            return local_frame(self._spark, self._rows.filter(pa.array(mask, pa.bool_())))
        positions, times = zip(*keys, strict=True)
        some = pa.table({"position": list(positions), "at": list(times)})
        return joined(self._came, self._time, some, "left_semi", self._spark)

    def without(self, some: pa.Table) -> DataFrame | None:
        """The change without some rows; None if nothing is left."""
        if self._change is None:
            return None
        if self._rows is None:
            return joined(self._change, self._time, some, "left_anti", self._spark)
        rows = self._rows
        if len(some):
            out = set(zip(some["position"].to_pylist(), some["at"].to_pylist(), strict=True))
            rows = rows.filter(pa.array([key not in out for key in self._keys], pa.bool_()))
        return local_frame(self._spark, rows) if len(rows) else None


def joined(df: DataFrame, time: str, some: pa.Table, kind: str, spark: SparkSession) -> DataFrame:
    """A relation's rows with (left_semi) or without (left_anti) some, by position and event time."""
    if not len(some) and kind == "left_anti":
        return df
    names = {key: f"_hw_late_{key}" for key in ("position", "at")}
    keys = local_frame(spark, pa.table({name: some[key] for key, name in names.items()}))
    same = column(POSITION).eqNullSafe(column(names["position"]))
    return df.join(keys, same & micros(time).eqNullSafe(column(names["at"])), kind)


def micros(name: str) -> Column:
    """An event time as a number."""
    return F.unix_micros(column(name).cast("timestamp"))


def table_of(keys: Sequence[Key]) -> pa.Table:
    columns = [list(values) for values in zip(*keys, strict=True)] if keys else [[], [], []]
    return pa.table(columns, schema=pa.schema([*SCHEMA][:3]))
