"""A runner that kills itself: `crashing.py PROJECT before|after|inside NUMBER [WORD]`.

`before` and `after` the commit of that number, counted over all flows; `inside`: so many milliseconds after the first
commit began. With WORD only commits to tables with it in their address count. It is SIGKILL: nothing is tidied up.
HEADWATER_KILLS says how often each test does that: twice, six times in the full tier.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from headwater.api.lake import Lake
from headwater.formats.native import NativeTable
from headwater.formats.spark_table import SparkTable
from headwater.tables.apply import input as versions
from tests.scale import scaled

WAYS = ((SparkTable, "create_with"), (SparkTable, "append"), (SparkTable, "upsert"), (SparkTable, "replace"))
WAYS += ((NativeTable, "append"), (NativeTable, "upsert"))


KILLS = int(scaled("HEADWATER_KILLS", usual=2, full=6))


def kills(
    rng: random.Random, *, inside: tuple[int, int], before: tuple[int, int], after: tuple[int, int], least: int = 2
) -> list[tuple[str, int]]:
    """When to kill, with a number between these two; `least`: 2 are one inside and one alongside a commit, 3 all
    ways."""
    numbers = {"inside": inside, "before": before, "after": after}
    count = max(KILLS, least)
    ways: list[str] = []
    while len(ways) < count:
        ways += ["inside", *rng.sample(["before", "after"], 2)]
    chosen = [(when, rng.randint(*numbers[when])) for when in ways[:count]]
    rng.shuffle(chosen)
    print(f"kills: {chosen}")
    return chosen


def killed(root: Path, when: str, number: int, word: str = "", program: str = "tests.faults.crashing") -> None:
    """Run it, in a process of its own, until that has killed itself."""
    command = [sys.executable, "-m", program, str(root), when, str(number), word]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert ended.returncode == -signal.SIGKILL, f"{when} {number} {word}: {ended.stdout}{ended.stderr}"


def ended(root: Path) -> None:
    """Run it to its end, in this process: it finds what the others have left."""
    with patch.object(versions, "STEP_ROWS", 1), Lake.open(root) as lake:
        reports = lake.run(once=True)
    failed = {report.flow: report.error for report in reports if report.error}
    assert not failed, failed


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Crash:
    """Stands before and after every commit, by Spark and by the native libraries."""

    def __init__(self, when: str, number: int, word: str = "") -> None:
        self._when = when
        self._number = number
        self._word = word
        self._count = 0
        self._lock = threading.Lock()

    def context(self, write: Callable[..., int]) -> Callable[..., int]:
        def crashing(table: Any, *arguments: Any, **named: Any) -> int:
            if "dead_letters" in str(table.address) or self._word not in str(table.address):
                return write(table, *arguments, **named)
            with self._lock:
                self._count += 1
                mine = self._count
            if self._when == "before" and mine == self._number:
                die()
            if self._when == "inside" and mine == 1:
                threading.Timer(self._number / 1000, die).start()
            version = write(table, *arguments, **named)
            if self._when == "after" and mine >= self._number:  # that very one may have failed, and is tried again
                die()
            return version

        return crashing


def main(project: str, when: str, number: int, word: str) -> None:
    crash = Crash(when, number, word)
    for kind, way in WAYS:
        setattr(kind, way, crash.context(getattr(kind, way)))
    versions.STEP_ROWS = 1  # every version of a topic is a step of the tables that apply it
    with Lake.open(project) as lake:
        for report in lake.run(once=True):
            print(report.flow, report.steps, report.rows, report.error, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
