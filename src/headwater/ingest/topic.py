"""From records to a topic's rows, one commit a step; what can't be ingested becomes a dead letter.

A step is first tried in one pass, on the assumption that every record is fine and brings nothing unknown. Each row
carries a tripwire: the first record of which that is not true ends the job before its commit. Then the step is
repeated on the slow path: what is new is detected, the table gets room for it, dead letters are kept, and the rest is
committed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from headwater.core.errors import Code, TerminalError, Unsupported
from headwater.core.logs import get_logger
from headwater.core.model import CommitTag
from headwater.core.spec import layout_of
from headwater.flows.ledger import Intent
from headwater.flows.step import Landed, Step, Target
from headwater.formats.base import Capability
from headwater.formats.native import NativeTable
from headwater.formats.spark_table import SparkTable
from headwater.ingest.code.failing_records import failing, may_be_of_a_record, may_be_of_an_event, raising
from headwater.ingest.collected import has_suspect, split, stamped
from headwater.ingest.columns import CONTEXT, known_payload
from headwater.ingest.dead_letters import DeadLetters
from headwater.ingest.deduplicate import deduplicated, first_of_their_kind
from headwater.ingest.detection import Detection
from headwater.ingest.forgotten import ForgottenCondition, without_letters, without_rows
from headwater.ingest.hints import with_hint
from headwater.ingest.pipeline import Pipeline, Shaped, tell_twins_apart
from headwater.ingest.rejects import failed, letter
from headwater.ingest.schemas import SchemaLog, SchemaVersion, joined
from headwater.schema.changes import column_of, schema_changes
from headwater.schema.merge import hinted, within
from headwater.schema.types import nullable
from headwater.sources.decoders.base import POSITION, PROBLEM, RAW, SCHEMA, UNKNOWN, Decoder
from headwater.spark.arrow_bridge import first_of, gathered, local_frame
from headwater.spark.errors import reason
from headwater.spark.frames import column, persisted, settings

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 1000
"""Records that the first schema is detected from."""
NATIVE_ROWS = 50_000
"""Up to so many records a step is collected and committed by the format's native library."""
NATIVE_BYTES = 16 * 1024 * 1024
WARY_STEPS = 20
"""Steps that take the slow path at once after one that tripped over a record that can't be ingested."""
FILE_BYTES = 64 * 1024 * 1024
"""Source bytes that make a file of their own."""
SHARE_BYTES = 8 * 1024 * 1024
"""Source bytes that are worth a core of their own."""
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For few records it takes longer to compile what is done with them than to do it."""
log = get_logger(__name__)
_TRIPPED = "HEADWATER_TRIPPED"


class TopicTarget(Target[DataFrame]):
    """Decodes records, shapes them into rows and appends them."""

    def __init__(
        self,
        pipeline: Pipeline,
        decoder: Decoder,
        table: SparkTable,
        dead_letters: DeadLetters,
        schemas: SchemaLog,
        *,
        created: Callable[[], None],
        declared: StructType | None = None,
        hints: StructType | None = None,
        guard: Callable[[], None] = lambda: None,
        forgotten: Sequence[ForgottenCondition] = (),
    ) -> None:
        self._forgotten = forgotten
        self._pipeline = pipeline
        self._topic = pipeline.topic
        self._decoder = decoder
        self._table = table
        self._dead_letters = dead_letters
        self._schemas = schemas
        self._created = created
        self._declared = None if declared is None else nullable(declared)
        self._hints = hints
        self._guard = guard
        self._version: SchemaVersion | None = None
        self._columns: StructType | None = None
        self._wary = 0
        self._detection = Detection(decoder, self._topic.schema_.max_columns, pipeline.rejected)
        self._rejected: Mapping[str, tuple[str, str]] = {}
        self._is_full = False
        self._native: NativeTable | None = None
        if table.format.can(Capability.NATIVE_APPEND) and table.format.native is not None:
            self._native = table.format.native(table.address, table.context)

    # --- a flow's target

    def landed(self, commit_tag: CommitTag) -> bool:
        return self._table.exists() and self._table.landed(commit_tag) is not None

    def continues(self, last: Intent, definition: str) -> bool:
        """A step that was planned over another source can't be done again: its positions mean nothing in this one."""
        type_ = last.definition.partition(":")[2] or self._pipeline.source.type
        return not last.end or (self._topic.from_ in last.end and type_ == self._pipeline.source.type)

    def commit(self, rows: DataFrame, step: Step) -> Landed:
        records, intent, commit_tag = rows, step.intent, step.commit_tag
        refused: dict[str, str] = {}
        aside: dict[str, str] = {}
        while True:
            left = records.where(~F.col(POSITION).isin(*aside)) if aside else records
            try:
                known = self._known(left, commit_tag)
                done = self._commit(left, known, intent, commit_tag, refused)
                return replace(done, rejected=done.rejected + len(aside)) if aside else done
            except Exception as error:
                if self._pipeline.calls_functions and may_be_of_an_event(error):
                    raising = self._raising(left, refused, commit_tag)
                    if raising:
                        refused |= raising
                        continue
                if not may_be_of_a_record(error):
                    raise
                raising = failing(left, self._attempt)
                if not raising:
                    raise
                self._reject(failed(records, raising), commit_tag)
                aside |= raising

    def _raising(self, records: DataFrame, refused: Mapping[str, str], commit_tag: CommitTag) -> dict[str, str]:
        """Records that a function raises on, beyond those that it is not shown any more."""
        known = self._known(records, commit_tag)
        return raising(records, lambda some: self._shaped(some, known, refused=refused).frame)

    def _attempt(self, records: DataFrame) -> DataFrame:
        """What a step would make of some records, from their schema on."""
        known = self._version or self._schemas.last() or SchemaVersion(0, StructType(), StructType(), "nothing")
        payload = joined(known.payload, self._detection.attempt(records, known.payload), self._table.format)
        return self._shaped(records, replace(known, payload=payload, adopted=payload), full=True).frame

    def _commit(
        self,
        records: DataFrame,
        known: SchemaVersion,
        intent: Intent,
        commit_tag: CommitTag,
        refused: Mapping[str, str],
    ) -> Landed:
        if refused:
            return self._commit_with_care(records, known, intent, commit_tag, refused)
        if _is_small(intent) and self._native is not None:
            done = self._commit_small(records, known, commit_tag)
            if done is not None:
                return done
        if self._wary == 0:
            try:
                return self._commit_at_once(records, known, intent, commit_tag)
            except Exception as error:
                if _TRIPPED not in reason(error):
                    raise
                self._wary = WARY_STEPS
        self._wary -= 1
        return self._commit_with_care(records, known, intent, commit_tag)

    # --- the three ways

    def _commit_at_once(
        self, records: DataFrame, known: SchemaVersion, intent: Intent, commit_tag: CommitTag
    ) -> Landed:
        """One pass: decode, shape and write; the first suspect record ends it before the commit."""
        shaped = self._shaped(records, known, quick=True)
        tripwire = F.when(shaped.is_suspect, F.raise_error(F.lit(_TRIPPED)).cast("string")).otherwise(column(POSITION))
        wired = shaped.frame.withColumn(POSITION, tripwire)
        return self._append(wired.select(*shaped.rows), shaped.schema, intent, commit_tag)

    def _commit_with_care(
        self,
        records: DataFrame,
        known: SchemaVersion,
        intent: Intent,
        commit_tag: CommitTag,
        refused: Mapping[str, str] | None = None,
    ) -> Landed:
        """What is new is learned first, what can't be ingested is kept, the rest is committed."""
        with ExitStack() as held:
            # Computed once: what is told of an event holds for the next pass, whatever a mapper does meanwhile.
            shaped = self._shaped(records, known, refused=refused)
            frame = held.enter_context(persisted(shaped.frame))
            before = self._decoder.inferred
            inferred = self._inferred(records, frame, known, commit_tag)
            if inferred is not known or self._decoder.inferred != before or self._is_full or self._rejected:
                shaped = self._shaped(records, inferred, refused=refused, full=self._is_full, rejected=self._rejected)
                frame = held.enter_context(persisted(shaped.frame))
            rejected = self._reject(frame.where(F.col(PROBLEM).isNotNull()).select(*letter()), commit_tag)
            if not rejected and inferred is known:
                self._wary = 0
            rows = frame.where(F.col(PROBLEM).isNull()).select(*shaped.rows)
            done = self._append(rows, shaped.schema, intent, commit_tag)
        return Landed(done.version, done.rows, rejected)

    def _commit_small(self, records: DataFrame, known: SchemaVersion, commit_tag: CommitTag) -> Landed | None:
        """The few rows come to the driver, and the format's native library commits them; None where it can't."""
        assert self._native is not None
        with settings(records.sparkSession, _INTERPRETED):
            shaped, rows = self._few(records, known, commit_tag)
        self._make_room(shaped.schema)
        bad, rows = split(stamped(rows))
        rejected = 0
        if bad.num_rows:
            rejects = local_frame(self._table.spark, bad.select([RAW, POSITION, PROBLEM, CONTEXT]))
            rejected = self._reject(rejects.select(*letter()), commit_tag)
        if self._topic.deduplicate_by and rows.num_rows:
            rows = first_of_their_kind(rows, shaped.schema, self._topic, self._table)
        self._guard()
        try:
            version = self._native.append(rows.select(shaped.schema.names), commit_tag)
        except Unsupported:
            self._native = None
            return None
        return Landed(version, rows.num_rows, rejected)

    def _few(self, records: DataFrame, known: SchemaVersion, commit_tag: CommitTag) -> tuple[Shaped, pa.Table]:
        """The rows of few records, here; what is new in them is learned first."""
        shaped = self._shaped(records, known, quick=True, stamp=False)
        rows = gathered(shaped.frame)
        if not has_suspect(rows):
            return shaped, rows
        shaped = self._shaped(records, known, stamp=False)
        before = self._decoder.inferred
        inferred = self._inferred(records, shaped.frame, known, commit_tag)
        if inferred is not known or self._decoder.inferred != before or self._is_full or self._rejected:
            shaped = self._shaped(records, inferred, stamp=False, full=self._is_full, rejected=self._rejected)
        return shaped, gathered(shaped.frame)

    def _append(self, rows: DataFrame, schema: StructType, intent: Intent, commit_tag: CommitTag) -> Landed:
        first = self._version is not None and not self._table.exists()
        if not first:
            self._make_room(schema)
        if self._topic.deduplicate_by and self._version is not None:
            rows = deduplicated(rows, self._topic, self._table, datetime.now(timezone.utc))
        if intent.bytes is not None:
            rows = rows.coalesce(self._files(intent.bytes))
        self._guard()
        if first:
            version = self._table.create_with(rows, layout_of(self._topic), commit_tag)
            self._columns = schema
            self._created()
        else:
            version = self._table.append(rows, commit_tag, check=self._topic.delivery == "exactly_once")
        made = next((commit for commit in self._table.history(5) if commit.version == version), None)
        return Landed(version, made.rows_added if made is not None else None)

    def _files(self, source_bytes: int) -> int:
        """Files that a step writes: few, but enough for every core to have a share of a large step."""
        cores = self._table.spark.sparkContext.defaultParallelism
        return max(math.ceil(source_bytes / FILE_BYTES), min(cores, math.ceil(source_bytes / SHARE_BYTES)), 1)

    def _reject(self, bad: DataFrame, commit_tag: CommitTag) -> int:
        """Keep what can't be ingested; how many."""
        bad = without_letters(bad, self._forgotten)
        if self._topic.schema_.mismatch == "fail":
            first = bad.where(F.col("reason") == SCHEMA).first()
            if first is not None:
                raise TerminalError(
                    Code.SCHEMA_MISMATCH,
                    f"topics.{self._topic.name}: {first['message']} (at {first['position']})",
                    where=self._topic.where,
                    hint="set schema.mismatch to quarantine; or tell the type in the source's schema_hints, then"
                    f" `headwater flow rebuild {self._topic.name} --yes`",
                )
        text = with_hint(F.col("reason"), F.col("message"), self._topic, self._pipeline.source)
        return self._dead_letters.put(bad.withColumn("message", text), self._topic.name, self._topic.from_, commit_tag)

    # --- schemas

    def _shaped(
        self,
        records: DataFrame,
        known: SchemaVersion,
        *,
        quick: bool = False,
        stamp: bool = True,
        refused: Mapping[str, str] | None = None,
        full: bool = False,
        rejected: Mapping[str, tuple[str, str]] | None = None,
    ) -> Shaped:
        tell_twins_apart(records.sparkSession, known.payload)
        policy = {"watch": self._new_column != "ignore", "quick": quick, "stamp": stamp, "full": full}
        shaped = self._pipeline.shaped(
            records, self._decoder, known.payload, known.adopted, refused=refused, rejected=rejected, **policy
        )
        if not self._forgotten:
            return shaped
        return replace(shaped, frame=without_rows(shaped.frame, self._forgotten, shaped.is_suspect))

    @property
    def _new_column(self) -> str:
        policy = self._topic.schema_
        if self._declared is not None and "new_column" not in policy.model_fields_set:
            return "ignore"
        return policy.new_column

    def _known(self, records: DataFrame, commit_tag: CommitTag) -> SchemaVersion:
        """What is known of the payload; the first time, what a sample of these records tells."""
        if self._version is None:
            self._version = self._with_declared(self._schemas.last(), commit_tag)
        if self._version is None:
            notes: tuple[str, ...] = ()
            if self._declared is not None:
                first, brought_by = self._declared, "declared"
            else:
                some, hints = first_of(records, SAMPLE), self._hints
                detected = self._detection.of(some, StructType(), lambda schema: hinted(schema, hints))
                first, brought_by, notes = hinted(detected.schema, hints), "first records", detected.notes
                if not self._topic.mappers and self._table.exists() and not self._table.read().isEmpty():
                    stored = known_payload(self._table.schema(), self._pipeline.metadata_columns.names)
                    first, brought_by = joined(stored, first, self._table.format), "the topic's table"
            if not first.fields:  # nothing could be read: the next records are asked again
                return SchemaVersion(0, first, first, "nothing")
            self._version = self._schemas.add(None, first, first, brought_by, commit_tag.step, self._described(notes))
        return self._version

    def _with_declared(self, last: SchemaVersion | None, commit_tag: CommitTag) -> SchemaVersion | None:
        """A declared schema may have grown since."""
        if last is None or self._declared is None:
            return last
        payload = joined(last.payload, self._declared, self._table.format)
        if not list(schema_changes(last.payload, payload)):
            return last
        adopted = joined(last.adopted, self._declared, self._table.format)
        return self._schemas.add(last, payload, adopted, "declared", commit_tag.step)

    def _inferred(
        self, records: DataFrame, frame: DataFrame, known: SchemaVersion, commit_tag: CommitTag
    ) -> SchemaVersion:
        """What these records bring, by the topic's policy; the same version if that is nothing."""
        last = self._schemas.last()
        if last is not None and last.version > known.version:  # a remap has learned something meanwhile
            known = self._version = last
        suspect = frame.where(F.col(UNKNOWN) | (F.col(f"{PROBLEM}.reason") == SCHEMA))
        notes: tuple[str, ...] = ()
        if self._new_column == "fail":
            seen = self._decoder.detect(suspect)
        else:
            originals = records.join(suspect.select(POSITION), POSITION, "left_semi")
            detected = self._detection.of(suspect, known.payload, lambda seen: self._payload(known, seen), originals)
            seen, self._is_full, notes = detected.schema, detected.cut, detected.notes
            self._rejected = {} if self._new_column == "ignore" else detected.rejected
        payload = self._payload(known, seen)
        changes = list(schema_changes(known.payload, payload))
        if not changes:
            return known
        if self._new_column == "fail":
            raise TerminalError(
                Code.SCHEMA_MISMATCH,
                f"topics.{self._topic.name}: records bring what the topic does not know: "
                f"{', '.join(map(column_of, changes))}",
                where=self._topic.where,
                hint="set schema.new_column to add, rescue or ignore",
            )
        adopted = known.adopted if self._new_column == "rescue" else payload
        if self._new_column == "ignore":  # a type was widened, and that is all that is taken
            payload = joined(known.payload, within(seen, known.payload), self._table.format)
            adopted = payload
            if not list(schema_changes(known.payload, payload)):
                return known
        self._version = self._schemas.add(
            known, payload, adopted, f"step {commit_tag.step}", commit_tag.step, self._described(notes)
        )
        return self._version

    def _payload(self, known: SchemaVersion, schema: StructType) -> StructType:
        """What is known and was found; a hint tells a column's first type, which may be widened like any other."""
        if self._hints is not None:
            hints = StructType([f for f in self._hints.fields if f.name not in known.payload.names])
            schema = hinted(schema, hints)
        return joined(known.payload, schema, self._table.format)

    def _described(self, notes: tuple[str, ...]) -> tuple[str, ...]:
        for note in notes:
            log.warning(note, topic=self._topic.name, hint="tell the type in the source's schema_hints")
        return notes

    def _make_room(self, schema: StructType) -> None:
        if self._columns == schema:
            return
        if self._table.exists():
            self._evolve(schema)
        else:
            self._table.create(self._with_layout(schema), layout_of(self._topic))
            self._created()
        self._columns = schema

    def _with_layout(self, schema: StructType) -> StructType:
        """As long as no event could be read, the columns that the layout names are there as text."""
        if self._version is not None:
            return schema
        layout = layout_of(self._topic)
        named = (*layout.partition_by, *layout.z_order_by, *layout.parquet.bloom_filter)
        missing = [name for name in named if name.isidentifier() and name not in schema.names]
        return StructType([*schema.fields, *(StructField(name, StringType()) for name in dict.fromkeys(missing))])

    def _evolve(self, schema: StructType) -> None:
        try:
            self._table.evolve(schema)
        except TerminalError as error:
            # A flow that is rebuilt may bring other types: an empty table is rebuilt.
            if error.code is not Code.SCHEMA_MISMATCH or not self._table.read().isEmpty():
                raise
            self._table.drop()
            self._table.create(schema, layout_of(self._topic))


def _is_small(intent: Intent) -> bool:
    rows, size = intent.rows, intent.bytes
    is_known = rows is not None or size is not None
    return is_known and (rows is None or rows <= NATIVE_ROWS) and (size is None or size <= NATIVE_BYTES)
