"""What a table by SQL checks beyond its query: rows that come late, rows that are not as expected, keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.errors import Code, UsageError, Where
from headwater.core.model import DELETED, CommitTag, Kind
from headwater.core.spec import Table
from headwater.flows.ledger import flow_name
from headwater.formats.base import Capability, Format
from headwater.formats.spark_table import SparkTable
from headwater.incremental.keys import KeySet, narrowed
from headwater.incremental.relations import States
from headwater.incremental.run import Run
from headwater.incremental.state.base import ID, SHOWN
from headwater.incremental.state.grouped import Grouped
from headwater.ingest.dead_letters import DeadLetters
from headwater.spark.frames import column
from headwater.sql.nondeterminism import non_deterministic
from headwater.sql.references import parse_condition
from headwater.tables.expectations import Expectations
from headwater.tables.late import Admitted, Late, WatermarkState
from headwater.tables.tally import Tally
from headwater.tables.unique import require_unique
from headwater.views.compile import Compiled
from headwater.warehouse import Warehouse


@dataclass
class RowChecks:
    """The checks of one table, on its way in and on its way out."""

    definition: Table
    place: Callable[[str], Where]
    """Where a key of the definition stands."""
    dead_letters: DeadLetters
    tally: Tally
    late: Late | None
    expectations: Expectations | None

    @property
    def flow(self) -> str:
        return flow_name(self.definition.name, Kind.TABLE)

    def begin(self, commit_tag: CommitTag, *, rebuilds: bool) -> None:
        """A step begins. One that makes the whole table judges all rows again: its dead letters are those of now."""
        self.tally.begin(commit_tag, rebuilds=rebuilds)
        if rebuilds:
            self.dead_letters.drop(self.flow, self.dead_letters.ids(self.flow, whole=True))

    def admit(
        self, states: States, made: Compiled, commit_tag: CommitTag, watermark: WatermarkState, *, rebuilds: bool
    ) -> Admitted:
        """What the query is given of its inputs."""
        if self.late is None:
            return Admitted(states, watermark)
        admitted = self.late.admit(states, made.view_query.streams, commit_tag, watermark, rebuilds=rebuilds)
        self.tally.save()
        return admitted

    def checked(
        self, rows: DataFrame, made: Compiled, run: Run, commit_tag: CommitTag, table: SparkTable | None
    ) -> DataFrame:
        """The rows to commit, with all that is stored alongside them; `table` has what they come to, None if
        nothing."""
        visible = F.lit(True)
        if DELETED in rows.columns:
            visible = visible & ~column(DELETED)
        if SHOWN in rows.columns:
            visible = visible & column(SHOWN)
        if self.expectations is not None:
            rows = self.expectations.apply(rows, made.columns, commit_tag, run.materialized, visible)
            self.tally.save()
        keys = self.definition.keys
        if keys:
            rows = run.materialized(rows)
            there = None if table is None else _others(table, rows)
            require_unique(rows.where(visible), keys, made.columns, self.flow, self.place("keys"), there)
        return rows

    def require_fitting(self, made: Compiled, format: Format) -> None:
        """Refuse what the query's result can't be given."""
        if self.late is not None and self.late.leaves_out:
            why = None if made.refused is None else made.refused.message()
            if not format.can(Capability.UPSERT):
                why = format.refusal(Capability.UPSERT)
            if why is not None:
                message = f"the table is recomputed each time, and late rows can't be left out of it: {why}"
                raise UsageError(Code.INVALID_VALUE, message, where=self.place("watermark"), hint="set late: update")
        groups = isinstance(made.kept, Grouped) and bool(made.kept.aggregate.values)
        leaving = [] if self.expectations is None else self.expectations.leaving
        for name in leaving:
            where = self.place(f"expect.{name}")
            if groups:
                message = f"'{name}' can't take rows out: they are groups, which change with every row that comes"
                raise UsageError(Code.INVALID_VALUE, message, where=where, hint="write it as HAVING, or warn or fail")
            check = parse_condition(self.definition.expect[name].check)
            if any(non_deterministic(check)):
                message = f"'{name}' says something else of the same row at another time: it can't take rows out"
                raise UsageError(Code.INVALID_VALUE, message, where=where, hint="warn or fail")


def row_checks_of(warehouse: Warehouse, definition: Table, spark: SparkSession) -> RowChecks | None:
    """The checks that a table asks for; None if it asks for none."""
    if definition.watermark is None and not definition.expect and not definition.keys:
        return None
    flow = flow_name(definition.name, Kind.TABLE)
    dead_letters, tally = DeadLetters(spark, warehouse.context), Tally(warehouse.files, flow)

    def place(key: str) -> Where:
        return warehouse.project.where(f"tables.{definition.name}.{key}")

    late = None
    if definition.watermark is not None:
        where = place("watermark.column")
        late = Late(flow, definition.watermark, spark, warehouse.files, dead_letters, tally, where)
    expected = Expectations(flow, definition.expect, dead_letters, tally, place) if definition.expect else None
    return RowChecks(definition, place, dead_letters, tally, late, expected)


def _others(table: SparkTable, rows: DataFrame) -> Callable[[KeySet], DataFrame]:
    """The table's rows that some rows neither replace nor delete."""
    stays = table.read()
    if SHOWN in stays.columns:
        stays = stays.where(column(SHOWN))
    return lambda keys: narrowed(stays, keys).join(rows.select(column(ID)), ID, "left_anti")
