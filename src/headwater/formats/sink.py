"""A table as an exactly-once sink of a user's own streaming query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from headwater.errors import Code, UsageError
from headwater.formats.base import Capability
from headwater.model import Mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.formats.base import SparkTable

_QUERY_ID = "sql.streaming.queryId"


def sink(
    table: SparkTable, name: str, *, mode: Literal["append", "upsert"] = "append"
) -> Callable[[DataFrame, int], None]:
    """For `writeStream.foreachBatch(…)`: each batch is one commit, and a repeated batch none.

    A batch is marked with the query's id, which lives in its checkpoint: a query that lost its checkpoint is
    another query, so that the old one's batches never swallow its own. An upsert wants at most one row per
    key in a batch.
    """
    if mode not in ("append", "upsert"):
        raise UsageError(Code.USAGE, f"a sink appends or upserts, and can't '{mode}'")
    table.format.require(Capability.STREAM_SINK if mode == "append" else Capability.STREAM_UPSERT)
    if mode == "upsert" and not table.layout().keys:
        raise UsageError(Code.USAGE, f"a sink that upserts needs keys, and {table.address} has none")

    def write(batch: DataFrame, batch_id: int) -> None:
        session = batch.sparkSession
        query = session.sparkContext.getLocalProperty(_QUERY_ID)
        if query is None:
            raise UsageError(
                Code.USAGE,
                f"the sink of {table.address} was called outside a streaming query",
                hint="pass it to writeStream.foreachBatch",
            )
        # A batch belongs to the query's own session, and so must the table that takes it.
        target = table.format.spark(session, table.address, table.around)
        mark = Mark(flow=f"sink:{name}:{query}", epoch=0, step=batch_id)
        if mode == "append":
            target.append(batch, mark)
        else:
            target.upsert(batch, mark)

    return write
