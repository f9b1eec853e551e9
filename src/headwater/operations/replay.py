"""Dead letters once more: today's pipeline over their bytes; what comes through is no dead letter any more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.model import CommitTag, Kind
from headwater.core.record import Record
from headwater.core.spec import Topic
from headwater.core.storage import Files
from headwater.flows.flow import Flow, FlowInput
from headwater.flows.ledger import Ledger, Positions, flow_name
from headwater.formats.spark_table import SparkTable
from headwater.ingest.dead_letters import DeadLetters
from headwater.runner.holds import holding
from headwater.runner.setups.topics import OpenTopic, open_topic, topic_target
from headwater.sources.decoders.base import POSITION, RAW
from headwater.sources.reader import Lag, OffsetRange, Reader
from headwater.spark.session import fork
from headwater.warehouse import Warehouse, fingerprint

AT_ONCE = 10_000
"""Dead letters in one step."""
_INPUT = "dead_letters"


@dataclass(frozen=True)
class ReplayedLetters(Record):
    """What became of a topic's dead letters."""

    topic: str
    tried: int
    came_through: int
    rows: int
    """Rows that the topic has gained; fewer where some were duplicates or are not selected any more."""
    still_dead: int


class DeadLetterInput(FlowInput[DataFrame]):
    """A flow's input: each range is a list of dead letters, written down before it is read."""

    def __init__(
        self, dead_letters: DeadLetters, topic: str, table: SparkTable, reader: Reader, notes: Files, ids: Sequence[str]
    ) -> None:
        self._letters = dead_letters
        self._topic = topic
        self._table = table
        self._reader = reader
        self._notes = notes
        self._waiting = list(ids)
        self.tried = 0
        self.came_through = 0

    def next(self, start: Positions) -> OffsetRange | None:
        if not self._waiting:
            return None
        return OffsetRange({_INPUT: int(start.get(_INPUT, 0)) + 1}, rows=min(AT_ONCE, len(self._waiting)))

    def fix_range(self, start: Positions, range: OffsetRange) -> Positions:
        taken, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        self._write(range.end, taken)
        to: Positions = range.end
        return to

    def read(self, start: Positions, end: Positions) -> DataFrame:
        ids, _ = self._note(end)
        self._write(end, ids)  # what is rejected from now on is this try's
        found = self._letters.some(self._topic, ids)
        if self._table.exists():  # what the topic has is not ingested again
            # Only these are looked for: what the topic has alongside them is scanned, and goes nowhere.
            there = self._table.read().select(F.col(POSITION).alias("position"))
            there = there.join(F.broadcast(found.select("position")), "position", "left_semi")
            found = found.join(F.broadcast(there), "position", "left_anti")
        metadata_columns = StructType([*self._reader.metadata_columns.fields, *self._reader.hidden.fields])
        context = F.from_json("context", metadata_columns) if metadata_columns.fields else None
        return found.select(
            F.col("raw").alias(RAW),
            F.col("position").alias(POSITION),
            *([] if context is None else [context.getField(f.name).alias(f.name) for f in metadata_columns.fields]),
        )

    def committed(self, end: Positions) -> None:
        ids, begun = self._note(end)
        if not ids:
            return
        gone = self._letters.resolve(self._topic, ids, begun)
        self.tried += len(ids)
        self.came_through += gone
        self._waiting = [one for one in self._waiting if one not in set(ids)]
        self._notes.delete(_path(end))

    def lag(self, start: Positions) -> Lag | None:
        return Lag(records=len(self._waiting))

    def close(self) -> None:
        self._reader.close()

    def _write(self, end: Positions, ids: Sequence[str]) -> None:
        begun = datetime.now(timezone.utc).isoformat()
        self._notes.write_atomic(_path(end), json.dumps({"ids": list(ids), "begun": begun}))

    def _note(self, end: Positions) -> tuple[list[str], datetime]:
        """Which dead letters a range has, and when its last try began; none once it has been resolved."""
        found = self._notes.find(_path(end))
        if found is None:
            return [], datetime.now(timezone.utc)
        told = json.loads(found)
        return told["ids"], datetime.fromisoformat(told["begun"])


def replay(warehouse: Warehouse, topic: str, *, ids: Sequence[str] = (), reason: str | None = None) -> ReplayedLetters:
    """Run a topic's dead letters (all, some by id, or those of a reason) through its pipeline of today."""
    definition = warehouse.definition(Kind.TOPIC, topic)
    assert isinstance(definition, Topic)
    spark = fork(warehouse.spark)
    name = f"replays.{topic}"
    with holding(warehouse, flow_name(topic)) as guard:
        dead_letters = DeadLetters(spark, warehouse.context)
        opened = open_topic(warehouse, topic, spark)
        chosen = dead_letters.ids(topic, ids, reason, open_step=_open_step(opened))
        target = topic_target(
            warehouse, definition, opened.reader, opened.reader.raw_decoder, opened.table, opened.notes, guard
        )
        notes = Files(warehouse.files.join("_headwater/flows", name, "replays"), warehouse.context.storage)
        input = DeadLetterInput(dead_letters, topic, opened.table, opened.reader, notes, chosen)
        ledger, note = Ledger(warehouse.files, name), warehouse.state.note
        flow = Flow(name, fingerprint(definition), input, target, ledger, guard, record=note)
        rows = 0
        try:
            while (done := flow.step()) is not None:
                rows += done.landed.rows or 0
        finally:
            flow.close()
    return ReplayedLetters(topic, input.tried, input.came_through, rows, input.tried - input.came_through)


def _open_step(opened: OpenTopic) -> CommitTag | None:
    """The step of the topic's own flow that was tried and has not landed: it will be tried again."""
    last = opened.ledger.last()
    if last is None:
        return None
    commit_tag = last.commit_tag(flow_name(opened.definition.name))
    landed = opened.table.landed(commit_tag) if opened.table.exists() else None
    return commit_tag if landed is None else None


def _path(end: Positions) -> str:
    return f"{int(end[_INPUT]):012d}.json"
