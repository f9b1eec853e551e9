"""Streaming queries that are killed: `streaming.py PROJECT before|after|inside NUMBER WORD`.

In every format, files are streamed into a topic and that topic into another; then a flow keeps a table from one of
them. The kill comes `before` or `after` the commit of that number to a table with the word in its name, or that many
milliseconds after the first of them began. It is SIGKILL: nothing is tidied up.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from headwater.formats.base import SparkTable
from headwater.formats.registry import FORMATS
from headwater.lake import Lake
from tests.faults.crashing import Crash


def copied(lake: Lake, stream: DataFrame, into: str) -> Any:
    """A query of one's own: all there is, into a topic."""
    checkpoint = str(lake.project.root / "checkpoints" / into)
    writer = stream.writeStream.foreachBatch(lake.topic(into).sink("copy")).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


def stream(project: Path) -> None:
    """All there is, through both topics of each format and into the flow's table."""
    with Lake.open(project) as lake:
        files = lake.spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        landing = str(project / "landing")
        for query in [copied(lake, files.json(landing), f"first_{name}") for name in FORMATS.names()]:
            query.awaitTermination()
        streams = {name: lake.topic(f"first_{name}").read_stream(consumer="second") for name in FORMATS.names()}
        for query in [copied(lake, rows, f"second_{name}") for name, rows in streams.items()]:
            query.awaitTermination()
        (report,) = lake.run(["tables.totals"], once=True)
    assert report.error is None, report.error


def main(project: str, when: str, number: int, word: str) -> None:
    for name in ("append", "upsert"):
        setattr(SparkTable, name, Crash(when, number, word).around(getattr(SparkTable, name)))
    stream(Path(project))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
