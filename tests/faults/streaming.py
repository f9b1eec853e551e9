"""Streaming queries that are killed: `streaming.py PROJECT before|after|inside|never NUMBER WORD`.

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


def main(project: str, when: str, number: int, word: str) -> int:
    for name in ("append", "upsert"):
        setattr(SparkTable, name, Crash(when, number, word).around(getattr(SparkTable, name)))
    with Lake.open(project) as lake:
        files = lake.spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        landing = str(Path(project) / "landing")
        for query in [copied(lake, files.json(landing), f"first_{name}") for name in FORMATS.names()]:
            query.awaitTermination()
        streams = {name: lake.topic(f"first_{name}").read_stream(consumer="second") for name in FORMATS.names()}
        for query in [copied(lake, stream, f"second_{name}") for name, stream in streams.items()]:
            query.awaitTermination()
        reports = lake.run(["tables.totals"], once=True)
    for report in reports:
        print(report.flow, report.steps, report.rows, report.error, flush=True)
    return int(any(report.error for report in reports))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
