"""What takes long says so, every few seconds, to those who read a file or a pipe too."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.core.progress import Ticker, ticking
from headwater.spark.progress import work_of


def test_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []
    ticker = Ticker(lambda: asked.append("x") or ("counting" if len(asked) > 1 else None), every=0.01)
    ticker.start()
    while len(asked) < 4:
        time.sleep(0.01)
    ticker.stop()
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(line.startswith("headwater: counting, ") and line.endswith(" s") for line in lines)


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ticking("starting Spark", every=60):
        pass
    assert capsys.readouterr().err == ""


def test_tasks_and_rows_of_what_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"

    def count(part: int, rows: Iterable[object]) -> list[int]:
        import time

        while part == 2 and not go_on.exists():
            time.sleep(0.05)
        return [sum(1 for _ in rows)]

    counted: list[int] = []
    numbers = spark.range(3000, numPartitions=3).rdd.mapPartitionsWithIndex(count)
    job = threading.Thread(target=lambda: counted.extend(numbers.collect()))
    job.start()
    told = ""
    try:
        while not re.fullmatch(r"Spark is working: 2 of 3 tasks, [23],000 rows read", told):
            assert job.is_alive(), told
            told = work_of(spark) or ""
    finally:
        go_on.touch()
        job.join()
    assert counted == [1000] * 3
    while work_of(spark) is not None:  # the bookkeeping comes after the rows
        time.sleep(0.05)
