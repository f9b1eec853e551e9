"""Secrets of a project at work: nobody else on the machine, and nobody who looks at Spark's pages, can read them."""

from __future__ import annotations

import signal
import urllib.request
from pathlib import Path

import psutil
import pytest

from headwater.spark import connectors
from tests.runtime.running import Running
from tests.services.postgres import server
from tests.services.processes import free_port
from tests.services.rest_catalog import rest_catalog
from tests.services.s3 import SECRET_KEY, object_store
from tests.sources.events_lab import Store
from tests.support import QUICK_START

pytestmark = pytest.mark.spark

PROJECT = """\
name: safe
warehouse: s3://safe/lake
code: safe.py
spark:
  master: local[2]
  ui: true
  conf:
    spark.ui.port: '{port}'
    spark.eventLog.enabled: 'true'
    spark.eventLog.dir: file://{events}
    spark.sql.codegen.wholeStage: 'false'
    spark.sql.codegen.factoryMode: NO_CODEGEN
    spark.sql.shuffle.partitions: '1'
    spark.driver.extraJavaOptions: '{quick} -Djavax.net.ssl.trustStorePassword=option-hidden -Dplain=" shown"'
    spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net: azure-hidden
    spark.hadoop.my.service.api-key: "conf-hidden \\\\ #=: ü\\t😀"
storage: {{s3: {s3}}}
catalogs:
  lake: {{type: jdbc, uri: "{jdbc}", user: headwater, password: jdbc-hidden}}
  served: {{type: rest, uri: "{rest}", token: token-hidden}}
sources:
  store: {{type: postgres_events, dsn: "{dsn}", table: events}}
topics:
  orders: {{from: store, mappers: safe}}
  bought: {{from: store, format: iceberg}}
  served: {{from: store, format: iceberg, table: served.topics.orders}}
"""
CODE = """
from headwater import mapper


@mapper("Placed", schema="n bigint")
def order(event: dict) -> dict:
    import os

    return {"n": event["n"]}
"""
HIDDEN = ("option-hidden", "azure-hidden", "conf-hidden", "jdbc-hidden", "token-hidden", "store-hidden", SECRET_KEY)


@pytest.mark.timeout(600)
def test_secrets_are_in_no_command_line_page_or_log(tmp_path: Path) -> None:
    connectors.ensure(["s3"])
    root, events = tmp_path / "project", tmp_path / "events"
    root.mkdir()
    events.mkdir()
    with server() as postgres, object_store(tmp_path / "s3") as store, rest_catalog(tmp_path) as rest:
        store.bucket("safe")
        orders = Store.make(postgres)
        orders.add(5)
        dsn = orders.dsn.replace(":hidden@", ":store-hidden@")
        jdbc = f"jdbc:postgresql://127.0.0.1:{postgres.port}/{orders.dsn.rpartition('/')[2]}"
        found = {"port": (port := free_port()), "events": events, "jdbc": jdbc, "rest": rest, "dsn": dsn}
        text = PROJECT.format(quick=QUICK_START, s3=store.settings, **found)
        (root / "headwater.yml").write_text(text, encoding="utf-8")
        (root / "safe.py").write_text(CODE)
        runner = Running(root)
        try:
            names = ("topics.orders", "topics.bought", "topics.served")
            runner.until(lambda: all(runner.of("step", name) for name in names))
            (jvm,) = runner.jvms()
            own = psutil.Process(runner.process.pid)
            seen = {
                f"{part} of {process.pid}": Path(f"/proc/{process.pid}/{part}").read_bytes().decode(errors="replace")
                for process in [own, *own.children(recursive=True)]
                for part in ("cmdline", "environ")
            }
            assert any("pyspark.daemon" in text for text in seen.values())
            assert "-Dplain= shown" in seen[f"cmdline of {jvm.pid}"].split("\0")
            base = f"http://127.0.0.1:{port}"
            for page in ("environment/", "jobs/", "SQL/", "executors/", "api/v1/applications"):
                seen[page] = _got(f"{base}/{page}")
            application = seen["api/v1/applications"].partition('"id" : "')[2].partition('"')[0]
            for page in ("environment", "sql?details=true&planDescription=true", "jobs", "stages"):
                seen[page] = _got(f"{base}/api/v1/applications/{application}/{page}")
            assert "spark.eventLog.dir" in seen["environment"]
            runner.signal(signal.SIGTERM)
            assert runner.process.wait(60) == 0
        finally:
            runner.end()
        files = [file for folder in (events, root / ".headwater", root) for file in folder.rglob("*") if file.is_file()]
        seen |= {str(file): file.read_bytes().decode(errors="replace") for file in files if file.parent != root}
        seen["output"] = (root / "run.err").read_text() + str(runner.events)
        assert any(str(events) in name and text for name, text in seen.items())
        told = {name: [secret for secret in HIDDEN if secret in text] for name, text in seen.items()}
        assert {name: secrets for name, secrets in told.items() if secrets} == {}
        assert not list((root / ".headwater").glob("*.properties"))


def _got(page: str) -> str:
    with urllib.request.urlopen(page, timeout=30) as answer:
        return str(answer.read().decode())
