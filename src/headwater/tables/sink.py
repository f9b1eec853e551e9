"""A topic, table or view as an exactly-once sink of a user's own streaming query."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.core.errors import Code, UsageError
from headwater.core.storage import Files
from headwater.flows.ledger import Epoch, Ledger
from headwater.flows.step import Recorder, ignore
from headwater.formats.base import Capability
from headwater.tables.batches import Batches, BatchTarget, CheckpointLost, Mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headwater.core.spec import Layout
    from headwater.formats.spark_table import SparkTable

Sink = Callable[["DataFrame", int], None]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def sink(
    table: SparkTable,
    name: str,
    *,
    mode: Mode = "append",
    epoch: int = 1,
    layout: Layout | None = None,
    created: Callable[[], None] = lambda: None,
    record: Recorder = ignore,
) -> Sink:
    """For `writeStream.foreachBatch(…)`: each batch is one commit, and a repeated batch none.

    `name` stands for one query and its checkpoint. A query that comes by this name with another checkpoint is refused
    (CHECKPOINT_LOST) until `epoch` is raised. A table that is not there is made by `layout` from the first rows.
    """
    if mode not in ("append", "upsert"):
        raise UsageError(Code.USAGE, f"a sink appends or upserts, and can't '{mode}'")
    if not _NAME.fullmatch(name):
        raise UsageError(Code.INVALID_NAME, f"'{name}' can't be a sink's name", hint="letters, digits, _, . and -")
    if epoch < 1:
        raise UsageError(Code.USAGE, f"epochs count from 1, and {epoch} was given")
    table.format.require(Capability.STREAM_SINK if mode == "append" else Capability.STREAM_UPSERT)
    keys = table.layout().keys if layout is None or table.exists() else layout.keys
    if mode == "upsert" and not keys:
        raise UsageError(Code.USAGE, f"a sink that upserts needs keys, and {table.address} has none")

    def made(target: SparkTable, schema: StructType) -> None:
        if layout is not None and not target.exists():
            target.create(schema, layout)
            created()

    flow = f"sinks.{name}"
    ledger = Ledger(Files(table.context.warehouse, table.context.storage), flow, first=Epoch(epoch))
    target = BatchTarget(flow, table, mode, keys if mode == "upsert" else (), prepare=made)
    batches = Batches(flow, epoch, ledger, target, record=record)

    def write(batch: DataFrame, number: int) -> None:
        try:
            batches.write(batch, number)
        except CheckpointLost as lost:
            hint = f"its checkpoint was lost, or two queries share the name; with epoch={epoch + 1} it starts over"
            raise CheckpointLost(lost.problem.message, hint) from None

    return write
