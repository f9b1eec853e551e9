"""The one table of events that could not be ingested, kept with their bytes, reason and position."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from headwater.core.errors import Code, Unsupported, UsageError
from headwater.core.model import DELETED, CommitTag
from headwater.core.spec import Layout
from headwater.formats.base import LakeContext
from headwater.formats.locks import writing
from headwater.formats.registry import SYSTEM_FORMAT
from headwater.formats.spark_table import SparkTable
from headwater.ingest.dead_letter_list import address_in, unknown_letter
from headwater.ingest.forgotten import ForgottenCondition, forgotten_letters
from headwater.sources.decoders.base import TOO_LARGE
from headwater.spark.arrow_bridge import local_frame
from headwater.spark.arrow_types import arrow_schema_of

KEYS = ("topic", "id")
FEW = 10_000
"""Up to so many dead letters of a step are gathered first, so that the step is not read again for them."""
FEW_BYTES = 16 * 1024 * 1024
"""Dead letters in files up to this size are read in this process: the scan would take longer than they are worth."""
SCHEMA = StructType(
    [
        StructField("id", StringType()),
        StructField("topic", StringType()),
        StructField("source", StringType()),
        StructField("reason", StringType()),
        StructField("message", StringType()),
        StructField("position", StringType()),
        StructField("raw", BinaryType()),
        StructField("context", StringType()),
        StructField("at", TimestampType()),
        StructField("flow", StringType()),
        StructField("epoch", LongType()),
        StructField("step", LongType()),
    ]
)


class DeadLetters:
    """Kept in Delta by topic; an id is made of topic and position, so that a repeated step adds none."""

    def __init__(self, spark: SparkSession, context: LakeContext) -> None:
        address = address_in(context)
        self._table: SparkTable = SYSTEM_FORMAT.spark(spark, address, context)
        native = SYSTEM_FORMAT.native
        assert native is not None
        self._native = native(address, context)

    def put(self, rejected: DataFrame, topic: str, source: str, commit_tag: CommitTag) -> int:
        """Keep rows of `raw`, `position`, `reason`, `message` and `context`; returns how many they are."""
        few = rejected.limit(FEW + 1).collect()
        if not few:
            return 0
        with writing(self._table.address):
            if not self._table.exists():
                self._table.create(SCHEMA, Layout(keys=KEYS, partition_by=("topic",)))
            if len(few) <= FEW:
                now = datetime.now(timezone.utc)
                about = {
                    "topic": topic,
                    "source": source,
                    "flow": commit_tag.flow,
                    "epoch": commit_tag.epoch,
                    "step": commit_tag.step,
                }
                dead_letters = [{**row.asDict(), **about, "id": _id(topic, row["position"]), "at": now} for row in few]
                self._upsert(pa.Table.from_pylist(dead_letters, arrow_schema_of(SCHEMA)))
                return len(few)
            # By key, without a commit tag: a step that is done again keeps what it rejects then, too.
            self._table.upsert(_letters(rejected, topic, source, commit_tag))
        return rejected.count()

    def list(
        self, topic: str | None = None, limit: int | None = None, reason: str | None = None
    ) -> list[dict[str, Any]]:
        """The newest first, without their bytes; all of them without a `limit`."""
        if not self._table.exists():
            return []
        letters = self._of(topic, reason)
        columns = ["id", "topic", "reason", "message", "position", "at"]
        letters = letters.orderBy(F.col("at").desc(), "position").select(*columns)
        rows = (letters if limit is None else letters.limit(limit)).collect()
        return [row.asDict() for row in rows]

    def find(self, id: str) -> dict[str, Any]:
        """One of them with its bytes, by its id or the beginning of it."""
        rows = self._of(None, None).where(F.startswith("id", F.lit(id))).limit(2).collect() if self.exists() else []
        if not rows:
            raise unknown_letter(id)
        if len(rows) > 1:
            raise UsageError(Code.NO_SUCH_DEAD_LETTER, f"more than one dead letter begins with '{id}'")
        return rows[0].asDict()

    def exists(self) -> bool:
        return self._table.exists()

    def topics(self) -> Sequence[str]:
        """The topics that have dead letters."""
        if not self._table.exists():
            return []
        return sorted(row["topic"] for row in self._all().select("topic").distinct().collect())

    def ids(
        self,
        topic: str | None,
        ids: Sequence[str] = (),
        reason: str | None = None,
        *,
        open_step: CommitTag | None = None,
        whole: bool = False,
    ) -> Sequence[str]:
        """The ids of a topic's dead letters, in order of position: all, those that begin like `ids`, or of a reason.

        Without those of a step that is still open, and, unless `whole`, of those whose bytes are not here.
        """
        if not self._table.exists():
            return []
        chosen = self._of(topic, reason)
        if not whole:
            without = (F.col("reason") == "decode") & (F.length("raw") == 0)
            chosen = chosen.where(F.col("raw").isNull() | ~(without | _is_beginning()))
        if open_step is not None:
            of_step = (F.col("flow") == open_step.flow) & (F.col("epoch") == open_step.epoch)
            chosen = chosen.where(~(of_step & (F.col("step") == open_step.step)))
        rows = chosen.orderBy("position").select("id").collect()
        known = [row["id"] for row in rows]
        if not ids:
            return known
        for one in ids:
            if not any(id.startswith(one) for id in known):
                raise unknown_letter(one)
        return [id for id in known if id.startswith(tuple(ids))]

    def some(self, topic: str, ids: Sequence[str]) -> DataFrame:
        """Some of a topic's dead letters, as they are kept."""
        return self._of(topic, None).join(F.broadcast(self._ids_frame(topic, ids)), ["topic", "id"], "left_semi")

    def resolve(self, topic: str, ids: Sequence[str], begun: datetime) -> int:
        """Forget those that a replay has brought through: all but the ones rejected since it began. How many."""
        again = self.some(topic, ids).where(F.col("at") >= F.lit(begun))
        dead = {row["id"] for row in again.select("id").collect()}
        through = [id for id in ids if id not in dead]
        return self.drop(topic, through)

    def drop(self, topic: str, ids: Sequence[str]) -> int:
        """Forget dead letters of a topic; how many there were."""
        if not ids or not self._table.exists():
            return 0
        with writing(self._table.address):
            gone = self.some(topic, ids).count()
            if gone:
                keys = {"topic": [topic] * len(ids), "id": list(ids), DELETED: [True] * len(ids)}
                self._upsert(pa.table(keys))
        return gone

    def older_than(self, topic: str, before: datetime) -> Sequence[str]:
        """The ids of those that were put here before a time."""
        if not self._table.exists():
            return []
        rows = self._of(topic, None).where(F.col("at") < F.lit(before)).select("id").collect()
        return [row["id"] for row in rows]

    @property
    def table(self) -> SparkTable:
        """Where they are kept: maintenance looks after its files as after any other's."""
        return self._table

    def to_forget(self, topic: str, conditions: Sequence[ForgottenCondition]) -> Sequence[str]:
        """The ids of a topic's dead letters whose events meet one of the conditions."""
        if not self._table.exists():
            return []
        rows = forgotten_letters(self._of(topic, None), conditions).collect()
        return [row["id"] for row in rows]

    def erase(self, topic: str, ids: Sequence[str]) -> None:
        """Forget dead letters of a topic, with every version of the table that has had them."""
        if not self._table.exists():
            return
        with writing(self._table.address):
            self.drop(topic, ids)
            self._table.renew()
            self._table.erase_past()

    def _upsert(self, rows: pa.Table) -> None:
        try:
            self._native.upsert(rows, KEYS)
        except Unsupported:
            self._table.upsert(local_frame(self._table.spark, rows))

    def _all(self) -> DataFrame:
        try:
            if (self._native.size() or 0) <= FEW_BYTES:
                return local_frame(self._table.spark, self._native.read().read_all())
        except Unsupported:
            pass
        return self._table.read()

    def _of(self, topic: str | None, reason: str | None) -> DataFrame:
        letters = self._all()
        if topic is not None:
            letters = letters.where(F.col("topic") == topic)
        return letters if reason is None else letters.where(F.col("reason") == reason)

    def _ids_frame(self, topic: str, ids: Sequence[str]) -> DataFrame:
        keys = pa.table(
            [[topic] * len(ids), list(ids)], schema=pa.schema([("topic", pa.string()), ("id", pa.string())])
        )
        return local_frame(self._table.spark, keys)


def _id(topic: str, position: str) -> str:
    return hashlib.sha256(f"{topic}\u0000{position}".encode()).hexdigest()


def _letters(rejected: DataFrame, topic: str, source: str, commit_tag: CommitTag) -> DataFrame:
    """More than a process should hold."""
    return rejected.select(
        F.sha2(F.concat_ws("\u0000", F.lit(topic), F.col("position")), 256).alias("id"),
        F.lit(topic).alias("topic"),
        F.lit(source).alias("source"),
        "reason",
        "message",
        "position",
        "raw",
        "context",
        F.current_timestamp().alias("at"),
        F.lit(commit_tag.flow).alias("flow"),
        F.lit(commit_tag.epoch).cast("long").alias("epoch"),
        F.lit(commit_tag.step).cast("long").alias("step"),
    )


def _is_beginning() -> Column:
    """Whether only the first bytes of a record that was too large are here."""
    size = F.regexp_extract("message", "^([0-9]+) bytes", 1).cast("bigint")
    return (F.col("reason") == TOO_LARGE) & F.coalesce(size > F.octet_length("raw"), F.lit(False))
