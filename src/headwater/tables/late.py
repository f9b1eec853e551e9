"""Events that come late: a table's watermark, and what becomes of the rows that it has passed.

The watermark is a part of a step's positions: which rows of a step are late follows from where the one before it ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from headwater.core.errors import Code, UsageError, Where, did_you_mean
from headwater.core.model import WEIGHT, CommitTag, Kind
from headwater.core.spec import Topic, Watermark
from headwater.core.storage import Files
from headwater.incremental.operator import Moment, Sources
from headwater.incremental.relations import InputRelation, RelationVersion, States
from headwater.ingest.dead_letters import DeadLetters
from headwater.sources.decoders.base import POSITION
from headwater.spark.frames import column
from headwater.tables.leftout import Came, InTime, Key, LateRows, left_out_within, micros, table_of
from headwater.tables.tally import LATE, Tally

WATERMARK = "watermark"
"""The watermark's name among a step's positions."""
REASON = "late"
"""Of the dead letters."""
_FILE = "late-"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST = datetime(9999, 1, 1, tzinfo=timezone.utc)
_TIMES = (TimestampType, TimestampNTZType, DateType)


@dataclass(frozen=True)
class WatermarkState:
    """How far event time has come."""

    at: datetime | None = None
    """Rows before it are late; None before there were any."""
    since: int = 0
    """The step that last made the whole table: late rows are remembered from there on."""

    def to_json(self) -> dict[str, Any]:
        return {"at": None if self.at is None else self.at.isoformat(), "since": self.since}

    @staticmethod
    def of(position: Any) -> WatermarkState:
        if position is None:
            return WatermarkState()
        at = position["at"]
        return WatermarkState(None if at is None else datetime.fromisoformat(at), int(position["since"]))


@dataclass
class Admitted:
    """The inputs of a step, and how far event time has come with it."""

    sources: Sources
    watermark: WatermarkState


@dataclass
class Late:
    """A table's watermark at work."""

    flow: str
    watermark: Watermark
    spark: SparkSession
    files: Files
    dead_letters: DeadLetters
    tally: Tally
    where: Where
    """Of the watermark, in the user's files."""

    @property
    def leaves_out(self) -> bool:
        return self.watermark.late != "update"

    def kept_out(self, epoch: int, watermark: WatermarkState) -> LateRows:
        """What has been left out since the table was last rebuilt."""
        return LateRows(self.files, f"{self._folder}/{_file(epoch, watermark)}")

    def forget_earlier(self, epoch: int, watermark: WatermarkState) -> None:
        """The table was rebuilt, and that has landed: what was left out before is in it."""
        for entry in self.files.list(self._folder):
            if entry.name.startswith(_FILE) and entry.name != _file(epoch, watermark):
                self.files.delete(f"{self._folder}/{entry.name}")

    @property
    def _folder(self) -> str:
        return f"_headwater/flows/{self.flow}"

    def admit(
        self,
        states: States,
        streams: Collection[str],
        commit_tag: CommitTag,
        before: WatermarkState,
        *,
        rebuilds: bool,
    ) -> Admitted:
        """The inputs of a step, without its late rows if they are to be left out; `rebuilds`: nothing is late."""
        times = self.times([one for one in states.relations.values() if one.label in streams], states.end)
        sources = {relation.label: source for source, relation in states.relations.items()}
        if rebuilds:
            whole = [states.rows(sources[label], Moment.NEW).agg(F.max(micros(name))) for label, name in times.items()]
            after = WatermarkState(self._passed([frame.collect()[0][0] for frame in whole]), commit_tag.step)
            self._tell(after, 0)
            return Admitted(states, after)
        arrivals = {label: Came(states.change(sources[label]), name, self.spark) for label, name in times.items()}
        passed = [at for at in (before.at, self._passed([one.newest for one in arrivals.values()])) if at is not None]
        after = WatermarkState(max(passed, default=None), before.since)
        late = self.kept_out(commit_tag.epoch, before)
        if before.at is None:
            count = 0
        elif self.leaves_out:
            count = self._leave_out(arrivals, times, late, before.at, commit_tag)
        else:
            count = sum(one.count(_micros_of(before.at)) for one in arrivals.values())
        self._tell(after, count)
        out = left_out_within(commit_tag.step)
        changes = {label: one.without(late.some(label, out)) for label, one in arrivals.items()}
        return Admitted(InTime(states, times, changes, late, commit_tag.step), after)

    def _leave_out(
        self,
        arrivals: Mapping[str, Came],
        times: Mapping[str, str],
        late: LateRows,
        at: datetime,
        commit_tag: CommitTag,
    ) -> int:
        """Remember the rows of a step that lie before the watermark, and set them aside; how many they are."""
        keys_by_label = {label: one.before(_micros_of(at)) for label, one in arrivals.items()}
        late.put(
            table_of(list({(label, *key) for label, keys in keys_by_label.items() for key in keys})), commit_tag.step
        )
        for label, keys in keys_by_label.items():
            if keys and self.watermark.late == "quarantine":
                self._set_aside(arrivals[label].of(set(keys)), label, times[label], at, commit_tag)
        return sum(map(len, keys_by_label.values()))

    def keys_of(self, dead_letters: DataFrame) -> set[Key]:
        """The rows that dead letters are about."""
        context = F.from_json("context", "relation string, position string, at bigint")
        rows = dead_letters.where(F.col("reason") == REASON).select(context.alias("told")).collect()
        return {(row["told"]["relation"], row["told"]["position"], row["told"]["at"]) for row in rows}

    def times(self, relations: Sequence[InputRelation], versions: Mapping[str, RelationVersion]) -> dict[str, str]:
        """The column of the event time in each of the relations that have it; refused where none has, or it is none."""
        wanted, names, known = self.watermark.column, {}, set()
        for relation in relations:
            for field in relation.schema(versions[relation.label]).fields:
                known.add(field.name)
                if field.name.lower() != wanted.lower() or relation.at is not None:
                    continue
                if not isinstance(field.dataType, _TIMES):
                    data_type = field.dataType.simpleString()
                    message = f"'{field.name}' of {relation.label} is {data_type}, and a watermark needs a time"
                    raise UsageError(Code.INVALID_VALUE, message, where=self.where, hint="a timestamp or a date")
                self._require_rows_that_stay(relation)
                names[relation.label] = field.name
        if not names:
            message = f"no input that drives the table has a column '{wanted}'"
            raise UsageError(Code.INVALID_VALUE, message, where=self.where, hint=did_you_mean(wanted, known))
        return names

    def _require_rows_that_stay(self, relation: InputRelation) -> None:
        """A row that was left out must not be changed or come again."""
        if not self.leaves_out:
            return
        hint = "late: update takes every row in"
        if relation.kind is not Kind.TOPIC:
            message = f"rows of {relation.label} may be changed or deleted: its late ones can't be left out"
            raise UsageError(Code.INVALID_VALUE, message, where=self.where, hint=hint)
        definition = relation.warehouse.project.topics.get(relation.name)
        if isinstance(definition, Topic) and definition.delivery == "at_least_once":
            message = f"{relation.label} is delivered at least once: a row may come again, late"
            raise UsageError(Code.INVALID_VALUE, message, where=self.where, hint=hint)

    def _passed(self, newest: Sequence[int | None]) -> datetime | None:
        """The watermark that event times come to; those that no calendar has count as the last one."""
        known = [one for one in newest if one is not None]
        if not known:
            return None
        return _EPOCH + timedelta(microseconds=min(max(known), _micros_of(_LAST))) - self.watermark.delay

    def _tell(self, watermark: WatermarkState, late: int) -> None:
        self.tally.watermark = watermark.at
        self.tally.count(LATE, late)
        self.tally.left_out += late if self.leaves_out else 0

    def _set_aside(self, rows: DataFrame, label: str, name: str, passed: datetime, commit_tag: CommitTag) -> None:
        """Keep late rows as dead letters."""
        shown = [column(one) for one in rows.columns if one != WEIGHT]
        at = micros(name)
        context = F.struct(F.lit(label).alias("relation"), column(POSITION).alias("position"), at.alias("at"))
        then = F.lit(f", and the watermark was {passed:%Y-%m-%d %H:%M:%S} then")
        dead_letters = rows.select(
            F.encode(F.to_json(F.struct(*shown)), "utf-8").alias("raw"),
            F.concat_ws(" ", F.lit(label), column(POSITION), at.cast("string")).alias("position"),
            F.lit(REASON).alias("reason"),
            F.concat(F.lit(f"{name} is "), column(name).cast("string"), then).alias("message"),
            F.to_json(context).alias("context"),
        )
        # An event that makes several rows of one time is one dead letter.
        self.dead_letters.put(dead_letters.dropDuplicates(["position"]), self.flow, label, commit_tag)


def _file(epoch: int, watermark: WatermarkState) -> str:
    return f"{_FILE}{epoch}-{watermark.since}.parquet"


def _micros_of(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
