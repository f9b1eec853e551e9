"""`run --every`: what has arrived is ingested in bursts, nothing in between; a stop does not wait for the next one."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.runner.reports import FlowEvent, FlowReport
from tests.ingest.test_ingest import Desk

EVERY = 3.0


@pytest.mark.timeout(120)
def test_steps_come_in_bursts(tmp_path: Path, spark: SparkSession) -> None:
    desk = Desk(tmp_path, {"orders": ""}, source=", max_files: 1")
    for name in ("1.json", "2.json"):
        desk.land(name, {"id": name})
    steps: list[float] = []
    reports: list[FlowReport] = []
    stopping = threading.Event()

    def listen(event: FlowEvent) -> None:
        if event.event == "step":
            steps.append(time.monotonic())

    def run() -> None:
        with Lake.open(tmp_path) as lake:
            lake.run(every=timedelta(seconds=EVERY), stopping=stopping, on_event=listen, on_ready=reports.extend)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until = time.monotonic() + 60
        while len(steps) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        while reports[0].state.value != "waiting" and time.monotonic() < until:
            time.sleep(0.02)
        begun = time.monotonic()
        for name in ("3.json", "4.json"):
            desk.land(name, {"id": name})
        time.sleep(EVERY / 2)
        assert len(steps) == 2, "taken before its time"
        while len(steps) < 4 and time.monotonic() < until:
            time.sleep(0.02)
        assert len(steps) == 4 and steps[2] - begun > EVERY / 2
    finally:
        stopping.set()
        asked = time.monotonic()
        thread.join(20)
    assert not thread.is_alive() and time.monotonic() - asked < EVERY
    assert sorted(row[0] for row in desk.rows("orders", "id")) == [f"{n}.json" for n in (1, 2, 3, 4)]
