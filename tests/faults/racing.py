"""One writer of a race: appends rows to a Delta table on S3, each as often as it takes. Run by `test_delta_race.py`."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import pyarrow as pa

from headwater.api.lake import Lake
from headwater.core.errors import TransientError
from headwater.core.model import CommitTag
from headwater.formats.base import Address
from headwater.formats.registry import FORMATS
from headwater.spark.errors import as_headwater_error

COMMITS = 6
"""Of a writer that uses Spark; the quick ones go on until those are done."""
PAUSE = 0.25
"""Seconds after a commit of a quick one: each commit of Spark's meets some of theirs, and not thousands."""


def main(engine: str, project: str, path: str, signals: Path, number: int) -> None:
    """Print how many rows were appended."""
    format = FORMATS.get("delta")
    assert format.native is not None
    with Lake.open(project) as lake:
        context = lake.project.lake_context
        address = Address(path=path)
        native = format.native(address, context)
        if engine == "spark":
            lake.spark.range(1).count()
        (signals / f"ready.{number}").touch()
        while not (signals / "start").exists():
            time.sleep(0.01)
        for step in itertools.count():
            if (signals / "stop").exists() or (engine == "spark" and step == COMMITS):
                print(step)
                return
            while True:
                try:
                    commit_tag = CommitTag(f"writer-{number}", 1, step)
                    if engine == "spark":
                        rows = lake.spark.createDataFrame([(number, step)], "writer int, step int")
                        format.spark(lake.spark, address, context).append(rows, commit_tag)
                    else:
                        columns = {"writer": pa.array([number], pa.int32()), "step": pa.array([step], pa.int32())}
                        native.append(pa.table(columns), commit_tag)
                        time.sleep(PAUSE)
                    break
                except Exception as error:
                    if not isinstance(as_headwater_error(error), TransientError):
                        raise


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]), int(sys.argv[5]))  # type: ignore[call-arg]
