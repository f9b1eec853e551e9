"""Brokers that go away under a runner: they are named while the step waits, and the step is done when they are back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.alongside import running, until
from tests.services.kafka import Broker
from tests.sources.kafka_lab import rows_of
from tests.sources.test_outages import rows, write

PROJECT = """\
sources: {{clicks: {{type: kafka, brokers: '{brokers}', topic: outages.clicks}}}}
topics: {{clicks: {{from: clicks, mappers: shop, batch_size: 1}}}}
"""


ROWS = 60_000
"""More than lies in buffers between the brokers and the mapper: when that goes on, the rest has still to be fetched."""


@pytest.mark.timeout(600)
def test_brokers_that_go_in_the_middle_of_a_step_are_named(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    kafka.create("outages.clicks")
    kafka.send("outages.clicks", (rows_of(id=n, filler="x" * 1000) for n in range(ROWS)))
    awake, napping = write(tmp_path, PROJECT.format(brokers=kafka.address), "event['id']")
    awake.unlink()
    with running(tmp_path) as runner:
        until(napping.exists, runner.told)
        kafka.stop()
        awake.touch()
        until(lambda: kafka.address in (runner.status("topics.clicks")["error"] or ""), runner.told)
        assert not runner.of("step") and not runner.of("failed")
        assert runner.status("topics.clicks")["state"] in ("running", "retrying")
        kafka.start()
        runner.until("step", "topics.clicks")
        until(lambda: runner.status("topics.clicks")["error"] is None, runner.told)
        assert rows(runner, "clicks") == ROWS
        assert [one.details["rows"] for one in runner.of("step")] == [ROWS]
