"""Views while a runner goes on: soon after a commit or every so often, so many at once, each by one process."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import Lake
from headwater.core.errors import HeadwaterError
from headwater.core.logs import log_to
from headwater.core.spec import Refresh
from headwater.operations.views import create_view, refresh_view
from headwater.runner.leases import Lease
from headwater.runner.reports import FlowEvent
from headwater.views.refresh import Refresher
from tests.runtime.test_leases import holder_of
from tests.support import Shop
from tests.views.test_readers import at_once
from tests.views.test_sources import FOLLOWED, Source, source

__all__ = ["source"]

EVERY = 4.0


@pytest.mark.timeout(120)
def test_immediate_and_periodic_views_in_a_run_that_goes_on(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop.make(tmp_path)
    with (tmp_path / "headwater.yml").open("a", encoding="utf-8") as file:
        file.write(
            "views:\n"
            "  soon: {sql: \"SELECT count(*) AS n FROM topic('orders')\"}\n"
            f"  beat: {{sql: \"SELECT count(*) AS n FROM topic('orders')\", refresh: {{every: {EVERY:.0f}s}}}}\n"
        )
    steps: dict[str, list[float]] = {"topics.orders": [], "views.soon": [], "views.beat": []}
    stopping = threading.Event()

    def listen(event: FlowEvent) -> None:
        if event.event == "step":
            steps[event.flow].append(time.monotonic())

    def until(**counts: int) -> None:
        deadline = time.monotonic() + 50
        while any(len(steps[f"views.{view}"]) < count for view, count in counts.items()):
            assert time.monotonic() < deadline, steps
            time.sleep(0.02)

    def run() -> None:
        with Lake.open(tmp_path) as lake:
            lake.run(stopping=stopping, on_event=listen)

    shop.land("a.json", [{"product": "tea"}])
    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(soon=1, beat=1)
        shop.land("b.json", [{"product": "pot"}, {"product": "cup"}])
        until(soon=2, beat=2)
        first, second = steps["views.beat"]
        assert second - first > EVERY * 0.7
        assert steps["views.soon"][1] < second, "an immediate view waits for no beat"
    finally:
        stopping.set()
        thread.join(30)
    assert not thread.is_alive()
    assert [len(times) for times in steps.values()] == [2, 2, 2]  # nothing new, no commit
    with Lake.open(tmp_path) as lake:
        assert [lake.view(name).df().collect()[0]["n"] for name in ("soon", "beat")] == [3, 3]


def test_so_many_refreshes_at_once(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source.lake.project.settings.runtime.max_concurrent_refreshes == 2
    for number in range(4):
        create_view(source.warehouse, f"v{number}", "SELECT id, a FROM t", FOLLOWED)
    source.add("id bigint, a int, b string", (3, 30, "z"))
    names = iter([f"v{number}" for number in range(4)])
    running: list[str] = []
    most: list[int] = []
    refresh = Refresher.refresh

    def slow(self: Refresher, *given: Any) -> Any:
        running.append(self.name)
        most.append(len(running))
        time.sleep(0.5)
        try:
            return refresh(self, *given)
        finally:
            running.remove(self.name)

    monkeypatch.setattr(Refresher, "refresh", slow)
    at_once(4, lambda: refresh_view(source.warehouse, next(names)))
    assert len(most) == 4 and max(most) == 2
    source.lake.close()


def test_another_process_has_the_view(source: Source) -> None:
    create_view(source.warehouse, "v", "SELECT id, a FROM t", FOLLOWED)
    source.add("id bigint, a int, b string", (3, 30, "z"))
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            Lease.take(source.warehouse.state, "views.v", holder_of(other), timedelta(minutes=1))
            with pytest.raises(HeadwaterError, match=rf"views.v is run by process {other.pid}.*FLOW_HELD"):
                refresh_view(source.warehouse, "v")
            assert source.rows("v") == [(1, 10), (2, 20)]
        finally:
            other.kill()
    assert refresh_view(source.warehouse, "v").refresh_type == "incremental"  # whoever held it is gone
    assert source.rows("v") == [(1, 10), (2, 20), (3, 30)]
    source.lake.close()


def test_a_large_change_is_not_brought_in_row_by_row(source: Source, tmp_path: Path) -> None:
    many = source.lake.spark.range(10, 400_000).selectExpr("id", "cast(id AS int) AS a", "'x' AS b")
    source.table.append(many)
    create_view(source.warehouse, "v", "SELECT b, max(a) AS m FROM t GROUP BY b", Refresh(mode="manual"))
    refresh_view(source.warehouse, "v", "full")
    source.sql("UPDATE {t} SET a = a + 1")
    log_to(tmp_path / "told")
    done = refresh_view(source.warehouse, "v")
    figures = done.cost
    assert done.refresh_type == "full" and figures["incremental_ms"] > figures["full_ms"] * 1.2
    assert done.reason.startswith(f"estimated {figures['incremental_ms']} ms incrementally, {figures['full_ms']} ms")
    lines = [json.loads(line) for line in (tmp_path / "told/logs/headwater.log").read_text().splitlines()]
    (told,) = [line for line in lines if line["event"] == "refresh decided"]
    assert told["incremental"] is False and {name: told[name] for name in figures} == figures
    assert source.rows("v") == [("x", 400_000), ("y", 21)]
    source.lake.close()
