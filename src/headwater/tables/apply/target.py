"""Keeps a table of applied changes: one step, one commit that holds rows, deletes and what is remembered of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from headwater.core.errors import Code, TerminalError
from headwater.core.model import DELETED, CommitTag
from headwater.core.spec import Layout, Table
from headwater.flows.ledger import Intent
from headwater.flows.step import Landed, Step, Target
from headwater.formats.merge_hints import STORED_ROW, MergeHints
from headwater.formats.spark_table import SparkTable
from headwater.incremental.keys import keys_of, narrowed
from headwater.spark.frames import column
from headwater.tables.apply.changes import changes_of
from headwater.tables.apply.latest import COUNT, UNORDERED, expired
from headwater.tables.apply.moves import is_open
from headwater.tables.apply.shape import FROM, GONE_AT, SEQ_FROM, SEQUENCE, Locate, Shape, shape_of
from headwater.tables.apply.spans import spans
from headwater.tables.apply.step import rows_to_compare, rows_to_write
from headwater.tables.apply.truncation import Truncation, remembered

SWEEPS = 10
"""Tombstones outlive their time by a part of it: they are looked for so often within it."""


class ApplyTarget(Target[DataFrame]):
    """One table. `made` is called with its shape when the table was made or got columns."""

    def __init__(
        self,
        table: SparkTable,
        definition: Table,
        layout: Layout,
        locate: Locate,
        guard: Callable[[], None],
        made: Callable[[Shape], None],
    ) -> None:
        assert definition.apply is not None
        self._table = table
        self._name = definition.name
        self._rules = definition.apply
        self._layout = layout
        self._locate = locate
        self._guard = guard
        self._made = made
        self._shape: Shape | None = None
        self._swept: datetime | None = None
        self._filled = False
        self._owes: bool | None = None

    def landed(self, commit_tag: CommitTag) -> bool:
        return self._table.exists() and self._table.landed(commit_tag) is not None

    def commit(self, rows: DataFrame, step: Step) -> Landed:
        shape = self._room(rows)
        changes = changes_of(rows, shape, self._locate)
        with ExitStack() as held:
            ready = self._ready(changes, shape, step.intent, held)
            few = self._table.merges and not ready.every
            among = spans(ready.rows, shape.keys, ready.count, STORED_ROW) if few else None
            self._guard()
            known = MergeHints(ready.newer_by, among, no_nulls=True, persisted=True)
            version = self._table.upsert(ready.rows, step.commit_tag, known=known)
        self._owes = False
        return Landed(version, ready.count)

    def owes(self) -> bool:
        """Whether there are states that an earlier release wrote, which did not say what follows them: a step has to
        read the whole history once, and fills that in. Asked once in the life of a process."""
        if self._owes is None:
            self._owes = self._rules.history == "all" and self._table.exists() and self._has_states_without_sequence()
        return self._owes

    def _has_states_without_sequence(self) -> bool:
        schema = self._table.schema()
        if SEQUENCE not in schema.names or isinstance(schema[SEQUENCE].dataType, TimestampType):
            return False
        stored = self._table.read()
        return not (stored.where(column(SEQ_FROM).isNull()) if SEQ_FROM in schema.names else stored).isEmpty()

    def _ready(self, changes: DataFrame, shape: Shape, intent: Intent, held: ExitStack) -> _Ready:
        known, every = remembered(intent.start), remembered(intent.end)
        now, sweeps = intent.written_at, not shape.history and not shape.soft and self._is_due(intent.written_at)
        if self._table.merges and shape.by_row and not sweeps and every == known:
            rows = _held(rows_to_compare(changes, shape, now=now, truncations=every), held)
            count, _ = self._counted(rows, shape, column(COUNT), column(UNORDERED))
            return _Ready(rows.drop(COUNT, UNORDERED), count, newer_by=shape.ordered_by)
        changes = _held(changes, held)
        count, moved = self._counted(changes, shape, F.lit(1), column(SEQUENCE).isNull().cast("int"))
        owes = self.owes()
        touched = self._touched(changes, shape, whole=every != known or owes)
        rows = rows_to_write(changes, touched, shape, held, now=now, truncations=every, moved=moved)
        return _Ready(_held(self._swept_of(rows, shape, now) if sweeps else rows, held), count, every=owes)

    def _swept_of(self, rows: DataFrame, shape: Shape, now: datetime) -> DataFrame:
        """With the deletes that need not be remembered any more."""
        old = expired(self._table.read(), shape, now)
        old = old.join(rows.select(*map(column, shape.keys)), list(shape.keys), "left_anti")
        return rows.withColumn(DELETED, F.lit(False)).unionByName(old)

    def _is_due(self, now: datetime) -> bool:
        """Whether there are tombstones to take away, asked from time to time."""
        tombstones = self._rules.tombstones
        every = max(tombstones / SWEEPS, timedelta(seconds=1))
        if not tombstones or (self._swept is not None and now - self._swept < every):
            return False
        self._swept = now
        return not self._table.read().where(column(GONE_AT) < F.lit(now - tombstones)).isEmpty()

    def _room(self, df: DataFrame) -> Shape:
        """The table with a column for everything that the rows have."""
        if self._shape is None or self._shape.topic != df.schema:
            shape = shape_of(self._rules, df.schema, self._locate)
            if not self._table.exists():
                self._table.create(shape.stored, self._layout)
            elif self._shape is None or self._shape.stored != shape.stored:
                self._table.evolve(shape.stored)
            self._made(shape)
            self._shape = shape
        return self._shape

    def _touched(self, changes: DataFrame, shape: Shape, *, whole: bool) -> DataFrame | None:
        """The stored rows that the step may change; None where there are none at all."""
        stored = self._table.read()
        self._filled = self._filled or not stored.isEmpty()
        if not self._filled:
            return None
        return stored if whole else narrowed(stored, keys_of([(changes, shape.keys)], shape.keys))

    def _counted(self, rows: DataFrame, shape: Shape, each: Column, unordered_: Column) -> tuple[int, bool]:
        """How many changes there are, and whether values move between keys; refused where one has no key or order.

        `each` is how many changes a row stands for, `unordered_` how many of them have no order.
        """
        no_key = reduce(lambda a, b: a | b, (column(key).isNull() for key in shape.keys))
        moved = F.count_if(is_open()) if FROM in rows.columns and shape.captured else F.lit(0)
        counts = rows.agg(F.sum(each), F.sum(F.when(no_key, each)), F.sum(unordered_), moved).first()
        assert counts is not None
        count, without_key, without_order, moves = (int(one or 0) for one in counts)
        if without_key:
            raise TerminalError(
                Code.NULL_KEY,
                f"{without_key} changes for tables.{self._name} have no value for a key ({', '.join(shape.keys)})",
                where=self._locate("apply.keys"),
                hint="leave them out with the topic's `filter`, or take a key that is never NULL",
            )
        if without_order:
            raise unordered(self._name, without_order, self._rules.sequence_by, self._locate)
        return count, bool(moves)


@dataclass(frozen=True)
class _Ready:
    """The rows to write, held; of how many changes they are made, and by what the table has to compare them itself."""

    rows: DataFrame
    count: int
    newer_by: tuple[str, ...] = ()
    every: bool = False
    """They may be all rows of the table."""


def _held(df: DataFrame, held: ExitStack) -> DataFrame:
    """Worked out once: it is counted, its keys are looked at, and a MERGE reads it more than once."""
    df = df.persist()
    held.callback(df.unpersist)
    return df


def unordered(table: str, count: int, by: str, locate: Locate) -> TerminalError:
    return TerminalError(
        Code.NO_SEQUENCE,
        f"{count} changes for tables.{table} have no value for '{by}', which orders them",
        where=locate("apply.sequence_by"),
        hint="order by a column that every change has: `_position`",
    )


def check_ordered(truncations: list[Truncation], table: str, by: str, locate: Locate) -> None:
    """A truncate has the columns of the topic alone: without an order nobody knows what it took away."""
    without = sum(1 for one in truncations if one.sequence is None)
    if without:
        raise unordered(table, without, by, locate)
