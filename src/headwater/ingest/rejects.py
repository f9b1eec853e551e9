"""Records that can't be ingested, as their dead letters have them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.ingest.columns import CONTEXT
from headwater.sources.decoders.base import POSITION, PROBLEM, RAW

FAILED = "failed"
"""The reason of a record for which Spark fails."""


def letter() -> list[Column]:
    """What is kept of a record that can't be ingested."""
    return [
        F.col(RAW).alias("raw"),
        F.col(POSITION).alias("position"),
        F.col(f"{PROBLEM}.reason").alias("reason"),
        F.col(f"{PROBLEM}.message").alias("message"),
        F.col(CONTEXT).alias("context"),
    ]


def failed(records: DataFrame, messages: Mapping[str, str]) -> DataFrame:
    """The letters of records for which a step fails, by their positions."""
    said = F.create_map(*(F.lit(part) for pair in messages.items() for part in pair))
    message = F.concat(F.lit("Spark can't process it: "), F.element_at(said, F.col(POSITION)))
    return records.where(F.col(POSITION).isin(*messages)).select(
        F.col(RAW).alias("raw"),
        F.col(POSITION).alias("position"),
        F.lit(FAILED).alias("reason"),
        message.alias("message"),
        F.lit(None).cast("string").alias("context"),
    )
