"""A runner of a table that kills itself: `applying.py PROJECT before|after|inside|never NUMBER`, as in crashing.py."""

from __future__ import annotations

import sys

from headwater.formats.base import SparkTable
from headwater.lake import Lake
from headwater.tables.apply import input as versions
from tests.faults.crashing import Crash


def main(project: str, when: str, number: int) -> int:
    versions.STEP_ROWS = 1  # every version of the topic is a step
    SparkTable.upsert = Crash(when, number).around(SparkTable.upsert)  # type: ignore[method-assign]
    with Lake.open(project) as lake:
        reports = lake.run(once=True)
    for report in reports:
        print(report.flow, report.steps, report.rows, report.error, flush=True)
    return int(any(report.error for report in reports))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
