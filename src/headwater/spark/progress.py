"""What a session is doing at the moment, for those who wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.spark.internals import java_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def work_of(spark: SparkSession) -> str | None:
    """Tasks, and the rows that they have read so far; None where the session rests or has gone."""
    try:
        stages = java_context(spark).sc().statusStore().activeStages()
        active = [stages.apply(number) for number in range(stages.size())]
        done = sum(stage.numCompleteTasks() for stage in active)
        tasks = sum(stage.numTasks() for stage in active)
        rows = sum(max(stage.inputRecords(), stage.shuffleReadRecords()) for stage in active)
    except Exception:  # it is about to end
        return None
    if not active:
        return None
    return f"Spark is working: {done} of {tasks} tasks" + (f", {rows:,} rows read" if rows else "")
