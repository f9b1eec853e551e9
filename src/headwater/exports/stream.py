"""A streaming export: the changes of one relation, step by step, into a target that is kept up to date."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.core.errors import Code, HeadwaterError, TerminalError, UsageError
from headwater.core.logs import get_logger
from headwater.core.model import DELETED, WEIGHT, CommitTag, Version
from headwater.core.spec import Export
from headwater.exports.checksum import measure
from headwater.exports.read_back import ReadBack, read_back
from headwater.exports.schema_checks import check_schema
from headwater.exports.selection import projected, require_columns
from headwater.flows.flow import FlowInput, wait_for_commits
from headwater.flows.ledger import Positions
from headwater.flows.step import Landed, Step, Target
from headwater.incremental.relations import InputRelation
from headwater.incremental.relations import RelationVersion as At
from headwater.sources.reader import OffsetRange
from headwater.spark.frames import column, persisted
from headwater.targets.base import Checksum, ExportTarget, ForeignReader

STEP_ROWS = 1_000_000
"""A backlog goes in steps of about so many rows; a version is never cut."""
CHECKED_EVERY = 100
"""Steps after which the whole copy is read back …"""
CHECKED_AFTER = 3600.0
"""… or seconds."""
_NET = "_net"

log = get_logger(__name__)


@dataclass(frozen=True)
class ExportChange:
    """What a step takes to the target."""

    rows: DataFrame
    """With the column of weights, unless they are all rows that there are."""
    whole: bool
    end: At


class ExportInput(FlowInput[ExportChange]):
    """What comes to a relation, and goes."""

    def __init__(
        self,
        relation: InputRelation,
        definition: Export,
        committed: threading.Condition | None = None,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        """`committed` is notified when something of this lake has got a new version; `closed` is told when the flow is
        let go of."""
        self._relation = relation
        self._definition = definition
        self._committed = committed
        self._nothing_up_to: At | None = None
        self._closed = closed

    def next(self, start: Positions) -> OffsetRange | None:
        label = self._relation.label
        now, known = self._relation.current(), At.of(start.get(label))
        if now is None or now.version is None or now == known or (known and now == self._nothing_up_to):
            if now is None and known is not None:
                raise self._lost(f"{label} was dropped")
            return None
        if known is None:
            return OffsetRange({label: now.to_json()}, None)
        broken = self._relation.broken(known, now)
        if broken is not None:
            raise self._lost(broken)
        versions = self._relation.versions(known, now)
        taken, rows = self._bounded(versions)
        if not taken:
            return None
        end = now if taken[-1] == now.version else replace(self._relation, at=taken[-1]).current()
        assert end is not None
        return OffsetRange({label: end.to_json()}, rows, full=len(taken) < len(versions))

    def read(self, start: Positions, end: Positions) -> ExportChange:
        label = self._relation.label
        known, to = At.of(start.get(label)), At.of(end[label])
        assert to is not None
        if known is None:
            return ExportChange(self._relation.rows(to), True, to)
        return ExportChange(self._relation.change(known, to), False, to)

    def came_to_nothing(self, end: Positions) -> None:
        self._nothing_up_to = At.of(end[self._relation.label])

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        wait_for_commits(self._committed, stopping, seconds)

    def close(self) -> None:
        self._closed()

    def _bounded(self, versions: list[Version]) -> tuple[list[Version], int | None]:
        """As many versions as make a step, and their rows as far as known."""
        told = {commit.version: commit.rows_added for commit in self._relation.table.history(len(versions) + 5)}
        total = 0
        for at, version in enumerate(versions, 1):
            total += told.get(version) or 0
            if total >= STEP_ROWS:
                return versions[:at], total
        return versions, total or None

    def _lost(self, why: str) -> TerminalError:
        name = self._definition.name
        hint = f"copy it again from its beginning: headwater flow rebuild exports.{name} --yes"
        return TerminalError(Code.SOURCE_CHANGED, f"{why}, and the copy can't follow it", hint=hint)


Report = Callable[[Positions, int | None, tuple[ReadBack, ...]], None]
"""Is told after each step how far the copy is, the rows of the step, and who has read it back."""


class ExportStream(Target[ExportChange]):
    """The target of a streaming export, as its flow sees it."""

    def __init__(
        self, target: ExportTarget, relation: InputRelation, guard: Callable[[], None], report: Report
    ) -> None:
        self._target = target
        self._relation = relation
        self._guard = guard
        self._report = report
        self._steps = 0
        if target.definition.verify != "off":
            target.verify_step = self._step_checked
        self._checked_at = time.monotonic()

    @property
    def _definition(self) -> Export:
        return self._target.definition

    def landed(self, commit_tag: CommitTag) -> bool:
        return self._target.landed(commit_tag)

    def commit(self, rows: ExportChange, step: Step) -> Landed:
        definition, tag = self._definition, step.commit_tag
        if not rows.whole and self._target.landed(tag):
            return Landed(_number(step))
        made = projected(rows.rows, definition, keep=(WEIGHT,))
        schema = made.drop(WEIGHT).schema
        require_columns(schema, definition)
        check_schema(self._target.kind, definition, schema)
        if rows.whole:
            self._require_free(step)
        change = made if rows.whole else self._change(made)
        if rows.whole and definition.primary_key:
            require_keys(change.select(*map(column, definition.primary_key)), definition)
        with persisted(self._target.prepared(change)) as prepared:
            count = prepared.count()
            if not rows.whole and count == 0:
                return self._nothing(step)
            self._guard()
            self._target.apply(prepared, tag, first=rows.whole)
        found = self._checked(rows, schema) if self._is_due(rows) else ()
        self._report(step.intent.end, count, found)
        return Landed(_number(step), count)

    def _nothing(self, step: Step) -> Landed:
        """Nothing of the change is for the copy, which is as far as its source all the same."""
        self._report(step.intent.end, 0, ())
        return Landed(None, 0, came_to_nothing=True)

    def _require_free(self, step: Step) -> None:
        """Refuse a target that was there before the export was."""
        first = step.intent.epoch == 1 and not step.recovered and self._definition.if_exists == "fail"
        if first and self._target.exists():
            raise UsageError(
                Code.ALREADY_EXISTS,
                f"something is at {self._target.destination.location} already",
                hint="export to another place, or say that it may be replaced: `if_exists: overwrite`",
            )

    def _change(self, made: DataFrame) -> DataFrame:
        """The rows to append, or by key what has come and what has gone."""
        keys = self._definition.primary_key
        if keys:
            return by_key(made, self._definition)
        gone = made.where(column(WEIGHT) < 0)
        if not gone.isEmpty():
            made = net(made)
            if not made.where(column(WEIGHT) < 0).isEmpty():
                raise TerminalError(
                    Code.SOURCE_ROWS_CHANGED,
                    f"rows of {self._relation.label} were changed or removed, which a copy without keys can't follow",
                    hint="name the columns that tell its rows apart: `primary_key`",
                )
        copies = F.explode(F.sequence(F.lit(1).cast("bigint"), column(WEIGHT)))
        plain = made.where(column(WEIGHT) > 0)
        return plain.withColumn(_NET, copies).drop(WEIGHT, _NET)

    def _is_due(self, rows: ExportChange) -> bool:
        self._steps += 1
        if self._definition.verify == "off" or not self._target.checks_whole:
            return False
        late = time.monotonic() - self._checked_at > CHECKED_AFTER
        return rows.whole or late or self._steps % CHECKED_EVERY == 0

    def _step_checked(self, reader: ForeignReader, rows: DataFrame) -> Checksum:
        """What a step has written, read back before it shows."""
        expected = measure(rows)
        read_back([reader], rows.schema, expected, self._target.destination.location)
        return expected

    def _checked(self, rows: ExportChange, schema: object) -> tuple[ReadBack, ...]:
        """The whole copy, read back against the whole source at the version that it has come to."""
        self._checked_at = time.monotonic()
        whole = self._target.prepared(projected(self._relation.rows(rows.end), self._definition))
        expected = self._target.comparable(whole)
        location = self._target.destination.location
        return read_back(self._target.readers(), expected.schema, measure(expected), location)


def net(change: DataFrame) -> DataFrame:
    """The rows of a change, each once with the sum of its weights; what has come and gone is left out."""
    names = [name for name in change.columns if name != WEIGHT]
    try:
        summed = change.groupBy(*map(column, names)).agg(F.sum(WEIGHT).alias(WEIGHT))
    except Exception as error:
        if "map" not in str(error).lower():
            raise
        one = change.withColumn("_text", F.to_json(F.struct(*map(column, names))))
        summed = one.groupBy("_text").agg(
            F.first(F.struct(*map(column, names))).alias("_row"), F.sum(WEIGHT).alias(WEIGHT)
        )
        summed = summed.select("_row.*", WEIGHT)
    return summed.where(column(WEIGHT) != 0)


def by_key(change: DataFrame, definition: Export) -> DataFrame:
    """For each key the row that there is now, or that it is deleted."""
    keys = [column(name) for name in definition.primary_key]
    names = [name for name in change.columns if name != WEIGHT]
    grouped = (
        net(change)
        .groupBy(*keys)
        .agg(
            F.sum(F.when(column(WEIGHT) > 0, column(WEIGHT)).otherwise(0)).alias(_NET),
            F.max_by(F.struct(*map(column, names)), column(WEIGHT)).alias("_row"),
        )
    )
    twice = grouped.where(column(_NET) > 1).limit(1).collect()
    if twice:
        raise _not_unique(definition, twice[0])
    _require_values(grouped, definition)
    return grouped.select("_row.*", (column(_NET) == 0).alias(DELETED))


def require_keys(keys: DataFrame, definition: Export) -> None:
    """Raise where two rows have one key, or one has none."""
    twice = keys.groupBy(*keys.columns).count().where("count > 1").limit(1).collect()
    if twice:
        raise _not_unique(definition, twice[0])
    _require_values(keys, definition)


def _require_values(rows: DataFrame, definition: Export) -> None:
    for name in definition.primary_key:
        if not rows.where(column(name).isNull()).isEmpty():
            message = f"a row has no value for '{name}' of the primary key"
            raise TerminalError(Code.NULL_KEY, message, hint="leave such rows out by `filter`, or take another key")


def _not_unique(definition: Export, row: object) -> HeadwaterError:
    values = ", ".join(f"{name} = {getattr(row, name, '?')}" for name in definition.primary_key)
    return TerminalError(Code.DUPLICATE_KEY, f"several rows have the key {values}", hint="add columns to `primary_key`")


def _number(step: Step) -> int:
    """A target may have no versions: its steps are counted."""
    return step.intent.step
