"""A project on a real Spark cluster, whose workers know nothing of Headwater or of the project's files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.runtime.running import COMMAND
from tests.services.standalone import Cluster, standalone
from tests.support import QUICK_START

pytestmark = pytest.mark.spark

CODE = """
import pandas as pd
from headwater import mapper, transform, upcaster
from pyspark.sql import functions as F
from prices import rounded


@upcaster("Placed", from_version=1, schema="cents bigint")
def in_cents(event: dict) -> dict:
    return {**event, "cents": int(event["cents"]) * 100}


@mapper("Placed", schema="id bigint, cents bigint, country string, kind string")
def order(event: dict) -> dict:
    from lookups.countries import name  # while it runs, on a worker

    return {"id": event["id"], "cents": rounded(event["cents"]), "country": name(event["country"]), "kind": "placed"}


@mapper(schema="id bigint, kind string")
def other(events: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"id": events["id"], "kind": "other"})


@transform("shouted")
def shouted(orders):
    loud = F.udf(_loud)
    return orders.select("id", loud("country").alias("country"))


def _loud(word):
    import lookups.countries

    return lookups.countries.loud(word)
"""
PROJECT = """\
name: far
code: far.py
spark:
  master: {master}
  conf:
    spark.driver.host: 127.0.0.1
    spark.driver.bindAddress: 127.0.0.1
    spark.driver.memory: 1g
    spark.executor.memory: 512m
    spark.pyspark.python: {python}
    spark.sql.shuffle.partitions: '2'
    spark.driver.extraJavaOptions: '{options}'
    spark.executor.extraJavaOptions: '{options}'
sources: {{landing: {{type: files, path: ./landing}}}}
topics: {{orders: {{from: landing, mappers: far}}}}
tables: {{loud: {{transform: shouted}}}}
"""


@pytest.mark.timeout(600)
def test_functions_and_their_modules_go_with_the_job(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "lookups").mkdir(parents=True)
    (project / "lookups" / "__init__.py").write_text("")
    (project / "lookups" / "countries.py").write_text(
        "NAMES = {'se': 'Sweden'}\n\n\ndef name(code):\n    return NAMES[code]\n\n\ndef loud(word):\n"
        "    return word and word.upper()\n"
    )
    (project / "prices.py").write_text("def rounded(cents):\n    return cents // 10 * 10\n")
    (project / "far.py").write_text(CODE)
    (project / "landing").mkdir()
    events = [
        {"event_type": "Placed", "event_version": 1, "id": 1, "cents": 5, "country": "se"},
        {"event_type": "Placed", "event_version": 2, "id": 2, "cents": 1234, "country": "se"},
        {"event_type": "Shipped", "event_version": 1, "id": 3, "cents": 0, "country": "se"},
    ]
    (project / "landing" / "1.json").write_text("".join(json.dumps(event) + "\n" for event in events))
    with standalone(tmp_path) as cluster:
        assert _imports(cluster, "pyarrow, pandas") == 0
        assert _imports(cluster, "headwater") != 0
        text = PROJECT.format(master=cluster.master, python=cluster.python, options=QUICK_START)
        (project / "headwater.yml").write_text(text)
        ran = _called(project, "run", "--once")
        assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = _called(project, "query", "SELECT id, cents, country, kind FROM orders ORDER BY id", "--output", "json")
    assert json.loads(rows.stdout) == [
        {"id": 1, "cents": 500, "country": "Sweden", "kind": "placed"},
        {"id": 2, "cents": 1230, "country": "Sweden", "kind": "placed"},
        {"id": 3, "cents": None, "country": None, "kind": "other"},
    ], rows.stderr
    loud = _called(project, "query", "SELECT id, country FROM loud ORDER BY id", "--output", "json")
    assert [row["country"] for row in json.loads(loud.stdout)] == ["SWEDEN", "SWEDEN", None], loud.stderr


def _imports(cluster: Cluster, modules: str) -> int:
    return subprocess.run([cluster.python, "-I", "-c", f"import {modules}"], capture_output=True).returncode


def _called(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *arguments, "--project", str(project)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, env={**os.environ, "TZ": "UTC"})
