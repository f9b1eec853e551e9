"""A runner that kills itself: `crashing.py PROJECT before|after|inside|never NUMBER`.

`before` and `after` the commit of that number, counted over all flows; `inside`: so many milliseconds after the first
commit began. The kill is SIGKILL: nothing is tidied up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from headwater.formats.base import SparkTable
from headwater.lake import Lake
from headwater.model import Mark
from headwater.sources.files import reader


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(project: str, when: str, number: int) -> int:
    reader.MAX_FILES = 1  # a step per file
    count, lock = 0, threading.Lock()
    append = SparkTable.append

    def crashing_append(table: SparkTable, df: Any, mark: Mark | None = None) -> int:
        nonlocal count
        with lock:
            count += 1
            mine = count
        if when == "before" and mine == number:
            die()
        if when == "inside" and mine == 1:
            threading.Timer(number / 1000, die).start()
        version = append(table, df, mark)
        if when == "after" and mine == number:
            die()
        return version

    SparkTable.append = crashing_append  # type: ignore[method-assign]
    with Lake.open(project) as lake:
        reports = lake.run(once=True)
    for report in reports:
        print(report.flow, report.steps, report.rows, report.error, flush=True)
    return int(any(report.error for report in reports))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
