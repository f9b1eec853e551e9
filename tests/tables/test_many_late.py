"""Steps whose changes are too large to be looked at in this process: Spark finds their late rows, by the same rule."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import Lake
from headwater.runner.setups.tables import table_flow
from headwater.spark.session import fork
from headwater.tables import leftout
from tests.tables.lab import Event, Lab, event, on_time

DELAY = timedelta(minutes=5)
STREAM = "stream(topic('events'))"
QUERIES = {
    "update": f"SELECT who, count(*) AS events, max(n) AS most FROM {STREAM} GROUP BY who",
    "drop": f"SELECT who, count(*) AS events, max(n) AS most FROM {STREAM} GROUP BY who",
    "quarantine": f"SELECT id, who, n FROM {STREAM}",
}


def test_spark_leaves_out_what_is_late(
    tmp_path: Path, spark: SparkSession, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"HEADWATER_SEED={seed}")
    monkeypatch.setattr(leftout, "FEW", 0)
    dice = random.Random(seed)
    steps = [
        [event(10 * at + n, 10 * at - dice.choice([0, 0, 2, 30]), dice.choice(["a", "b", None]), n) for n in range(8)]
        for at in range(1, 4)
    ]
    steps[1].append(event(99, 0))  # late whatever the dice say
    every = [one for step in steps for one in step]
    kept, late = on_time(steps, DELAY)
    assert 0 < late < len(every) / 2
    watermarks = {late: {"column": "at", "delay": "5m", "late": late} for late in QUERIES}
    lab = Lab(tmp_path, {late: {"sql": sql, "watermark": watermarks[late]} for late, sql in QUERIES.items()})
    with Lake.open(tmp_path) as lake:
        flows = [table_flow(lake._warehouse, name, fork(spark), lambda: None) for name in QUERIES]
        for step in steps:
            lab.land(step)
            lake.run(["topics.events"], once=True)
            for flow in flows:
                assert flow.step() is not None
    counted = {one["flow"]: one["checks"] for one in lab.answer("status", "--json").json}
    assert {counted[f"tables.{name}"]["late"] for name in QUERIES} == {late}
    assert lab.rows("update") == _grouped(every), f"HEADWATER_SEED={seed}"
    assert lab.rows("drop") == _grouped(kept), f"HEADWATER_SEED={seed}"
    assert lab.rows("quarantine") == _plain(kept), f"HEADWATER_SEED={seed}"
    assert len(lab.dead_letters("quarantine")) == late
    assert lab.answer("dlq", "replay", "tables.quarantine").code == 0
    assert lab.rows("quarantine") == _plain(every) and lab.dead_letters("quarantine") == []


def _plain(events: list[Event]) -> list[tuple[Any, ...]]:
    return sorted(((one["id"], one["who"], one["n"]) for one in events), key=repr)


def _grouped(events: list[Event]) -> list[tuple[Any, ...]]:
    by: dict[str | None, list[int]] = {}
    for one in events:
        by.setdefault(one["who"], []).append(one["n"])
    return sorted(((who, len(found), max(found)) for who, found in by.items()), key=repr)
