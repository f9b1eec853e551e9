"""Expectations: conditions on the rows of a table, and what becomes of the rows that don't meet them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from headwater.core.errors import Code, TerminalError, UsageError, Where
from headwater.core.model import CommitTag
from headwater.core.spec import Expectation
from headwater.incremental.state.base import of_row
from headwater.ingest.dead_letters import DeadLetters
from headwater.spark.errors import reason, without_plan
from headwater.spark.frames import column
from headwater.tables.tally import Tally, of_expectation

REASON = "expectation"
"""Of the dead letters."""
FAILED = "_hw_failed"
"""The names of the expectations that a row does not meet."""
LEAVING = ("drop", "quarantine")
"""What takes a row out of the result."""
LONGEST = 500
"""Characters of a row that an error shows."""


@dataclass
class Expectations:
    """The expectations of one table at work, whatever makes its rows."""

    flow: str
    expect: Mapping[str, Expectation]
    dead_letters: DeadLetters
    tally: Tally
    place: Callable[[str], Where]
    """Where a key of the table's definition stands."""
    _known: set[tuple[str, ...]] = field(default_factory=set)

    @property
    def leaving(self) -> list[str]:
        """The expectations that take rows out of the result."""
        return [name for name, one in self.expect.items() if one.on_violation in LEAVING]

    def apply(
        self,
        rows: DataFrame,
        columns: Sequence[str],
        commit_tag: CommitTag,
        materialize: Callable[[DataFrame], DataFrame],
        judged: Column | None = None,
    ) -> DataFrame:
        """The rows to keep. What the others are is counted and, where it is to be, kept as dead letters.

        `columns` are those that a check may name; `judged` tells which rows are looked at, all if unset;
        `materialize` has a frame computed once. Nothing may be committed before this is over.
        """
        self._require_checks(rows, columns)
        failed = F.filter(
            F.array(*(F.when(~F.coalesce(F.expr(one.check), F.lit(False)), name) for name, one in self.expect.items())),
            lambda name: name.isNotNull(),
        )
        none = F.array().cast("array<string>")
        checked = materialize(
            rows.withColumn(FAILED, failed if judged is None else F.when(judged, failed).otherwise(none))
        )
        counted = checked.select(F.explode(FAILED).alias("name")).groupBy("name").count().collect()
        counts = {row["name"]: int(row["count"]) for row in counted}
        self._fail(checked, columns, counts)
        for name in self.expect:
            self.tally.count(of_expectation(name), counts.get(name, 0))
        if any(counts.get(name) for name in self.leaving):
            checked = self._without_leaving(checked, columns, commit_tag)
        return checked.drop(FAILED)

    def _fail(self, checked: DataFrame, columns: Sequence[str], counts: Mapping[str, int]) -> None:
        for name, one in self.expect.items():
            if one.on_violation != "fail" or not counts.get(name):
                continue
            bad = checked.where(F.array_contains(FAILED, name))
            row = bad.select(F.to_json(F.struct(*map(column, columns)), {"ignoreNullFields": "false"})).first()
            assert row is not None
            more = "" if counts[name] == 1 else f", the first of {counts[name]}"
            raise TerminalError(
                Code.EXPECTATION_FAILED,
                f"{self.flow}: '{name}' ({one.check}) is not met by {row[0][:LONGEST]}{more}; nothing was committed",
                where=self.place(f"expect.{name}"),
                hint="correct the data or the query, or set on_violation to warn, drop or quarantine",
            )

    def _without_leaving(self, checked: DataFrame, columns: Sequence[str], commit_tag: CommitTag) -> DataFrame:
        leaves = F.arrays_overlap(FAILED, F.array(*map(F.lit, self.leaving)))
        set_aside = [name for name, one in self.expect.items() if one.on_violation == "quarantine"]
        self.tally.left_out += checked.where(leaves).count()
        if set_aside:
            kept = F.array_intersect(FAILED, F.array(*map(F.lit, set_aside)))
            bad = checked.where(F.size(kept) > 0)
            dead_letters = bad.select(
                F.encode(F.to_json(F.struct(*map(column, columns))), "utf-8").alias("raw"),
                of_row(bad, columns).alias("position"),
                F.lit(REASON).alias("reason"),
                F.concat(F.lit("not met: "), F.concat_ws(", ", kept)).alias("message"),
                F.lit(None).cast("string").alias("context"),
            )
            self.dead_letters.put(dead_letters.dropDuplicates(["position"]), self.flow, self.flow, commit_tag)
        return checked.where(~leaves)

    def _require_checks(self, rows: DataFrame, columns: Sequence[str]) -> None:
        """Each check is a condition on a row of these columns."""
        if tuple(columns) in self._known:
            return
        visible = rows.select(*map(column, columns))
        for name, one in self.expect.items():
            try:
                data_type = visible.select("*", F.expr(one.check)).schema.fields[-1].dataType
            except AnalysisException as error:
                where = self.place(f"expect.{name}.check")
                raise UsageError(Code.INVALID_SQL, without_plan(reason(error)), where=where) from error
            if not isinstance(data_type, BooleanType):
                message = f"'{one.check}' is {data_type.simpleString()}, and a check is a condition"
                raise UsageError(Code.INVALID_VALUE, message, where=self.place(f"expect.{name}.check"))
        self._known.add(tuple(columns))
