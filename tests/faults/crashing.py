"""A runner that kills itself: `crashing.py PROJECT before|after|inside|never NUMBER`.

`before` and `after` the commit of that number, counted over all flows; `inside`: so many milliseconds after the first
commit began. The kill is SIGKILL: nothing is tidied up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from headwater.formats.base import LightTable, SparkTable
from headwater.lake import Lake


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Crash:
    """Stands before and after every append, by Spark and by the light libraries."""

    def __init__(self, when: str, number: int) -> None:
        self._when = when
        self._number = number
        self._count = 0
        self._lock = threading.Lock()

    def around(self, append: Callable[..., int]) -> Callable[..., int]:
        def crashing(table: Any, *arguments: Any, **named: Any) -> int:
            if "dead_letters" in str(table.address):
                return append(table, *arguments, **named)
            with self._lock:
                self._count += 1
                mine = self._count
            if self._when == "before" and mine == self._number:
                die()
            if self._when == "inside" and mine == 1:
                threading.Timer(self._number / 1000, die).start()
            version = append(table, *arguments, **named)
            if self._when == "after" and mine >= self._number:  # that very one may have failed, and is tried again
                die()
            return version

        return crashing


def main(project: str, when: str, number: int) -> int:
    crash = Crash(when, number)
    SparkTable.append = crash.around(SparkTable.append)  # type: ignore[method-assign]
    LightTable.append = crash.around(LightTable.append)  # type: ignore[method-assign]
    with Lake.open(project) as lake:
        reports = lake.run(once=True)
    for report in reports:
        print(report.flow, report.steps, report.rows, report.error, flush=True)
    return int(any(report.error for report in reports))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
