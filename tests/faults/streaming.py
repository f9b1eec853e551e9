"""Streaming queries that are killed: `streaming.py PROJECT before|after|inside NUMBER WORD`.

In every format, files are streamed into a topic and that topic into a table (or topic, where a format has no keys);
then a flow keeps a table from one of them. The kill comes `before` or `after` the commit of that number to a table with
the word in its name, or that many milliseconds after the first of them began. It is SIGKILL: nothing is tidied up.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from headwater.api.lake import Lake
from headwater.api.relations import Relation
from headwater.formats.registry import FORMATS
from headwater.formats.spark_table import SparkTable
from tests.faults.crashing import Crash


def copied(stream: DataFrame, into: Relation, checkpoints: Path) -> Any:
    """A query of one's own: all there is, into a topic or table."""
    checkpoint = str(checkpoints / into.name)
    writer = stream.writeStream.foreachBatch(into.sink("copy")).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


def stream(project: Path) -> None:
    """All there is, through both relations of each format and into the flow's table."""
    with Lake.open(project) as lake:
        files = lake.spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        landing, kept = str(project / "landing"), project / "checkpoints"
        topics = [lake.topic(f"first_{name}") for name in FORMATS.names()]
        for query in [copied(files.json(landing), topic, kept) for topic in topics]:
            query.awaitTermination()
        seconds = [lake.relation(f"second_{name}") for name in FORMATS.names()]
        streams = [topic.read_stream(consumer="second") for topic in topics]
        for query in [copied(rows, into, kept) for rows, into in zip(streams, seconds, strict=True)]:
            query.awaitTermination()
        (report,) = lake.run(["tables.totals"], once=True)
    assert report.error is None, report.error


def main(project: str, when: str, number: int, word: str) -> None:
    for name in ("append", "upsert"):
        setattr(SparkTable, name, Crash(when, number, word).context(getattr(SparkTable, name)))
    stream(Path(project))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
