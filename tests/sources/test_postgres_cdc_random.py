"""Concurrent writers, a runner that goes on meanwhile, and a server that is restarted: the topics tell the tables."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.runner.reports import FlowEvent
from tests.services.postgres import Server
from tests.sources.cdc_lab import Crm
from tests.sources.cdc_workload import SETUP, TABLES, Writers, expected, found

TOPICS = {
    "customers_delta": ("customers", "delta"),
    "lines_delta": ("lines", "delta"),
    "visits_delta": ("visits", "delta"),
    "customers_iceberg": ("customers", "iceberg"),
}


@pytest.mark.timeout(900)
def test_a_random_workload(spark: SparkSession, crm: Crm, postgres_server: Server, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    crm.run(SETUP)
    source = {"type": "postgres_cdc", "dsn": crm.dsn, "tables": list(TABLES)}
    topics = {
        name: {"from": "crm", "table": f"public.{table}", "format": format} for name, (table, format) in TOPICS.items()
    }
    project = {"name": "shop", "runtime": {"stop_within": "60s"}, "sources": {"crm": source}, "topics": topics}
    (tmp_path / "headwater.yml").write_text(yaml.safe_dump(project))
    steps: Counter[str] = Counter()
    troubles: list[FlowEvent] = []

    def count(event: FlowEvent) -> None:
        if event.event == "step":
            steps[event.flow] += 1
        elif event.event in ("failed", "retry"):
            troubles.append(event)

    def more() -> None:
        """Until every flow has taken a further step."""
        before, deadline = steps.copy(), time.monotonic() + 300
        while not all(steps[f"topics.{name}"] > before[f"topics.{name}"] for name in TOPICS):
            assert all(event.event != "failed" for event in troubles), troubles
            assert time.monotonic() < deadline, f"seed {seed}: {before} {steps} {troubles}"
            time.sleep(0.1)

    with Lake.open(tmp_path) as lake:
        writers, stopping = Writers(crm.dsn, seed), threading.Event()
        runner = threading.Thread(target=lambda: lake.run(stopping=stopping, on_event=count), daemon=True)
        try:
            time.sleep(rng.random())
            runner.start()
            more()
            for mode in ("fast", "immediate"):
                time.sleep(rng.random() * 3)
                postgres_server.stop(mode)
                time.sleep(rng.random())
                postgres_server.start()
                more()
            lake.pause("lines_delta")
            time.sleep(1)
            lake.resume("lines_delta")
            more()
        finally:
            stopping.set()
            runner.join(120)
            writers.stop()
        reports = lake.run(once=True)
        assert [(report.flow, report.error) for report in reports if report.error] == []
        wanted = expected(crm.dsn)
        for topic, (table, _) in TOPICS.items():
            assert found(lake, topic, table) == wanted[table], f"seed {seed}: {topic}"
        assert lake.dead_letters() == []
    crm.connect()
    end = crm.one("SELECT (pg_current_wal_lsn() - '0/0')::int8")
    assert end - crm.slots()["headwater_shop_crm"] < 1_000_000, "the log is let go of when all topics have it"
