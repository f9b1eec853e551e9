"""What the hints of a runner, of its Spark and of its sources say is done, and the flows run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from headwater.sources.base import SourceSpec
from headwater.sources.registry import SOURCES
from headwater.spark.java import find_java
from tests.hints.followed import follows
from tests.hints.printed import pattern
from tests.recovery.lab import Moving
from tests.runtime.running import COMMAND, Running
from tests.services.postgres import server
from tests.support import COLD, Shop, headwater

RESTART = ("a runner takes that up when it starts: stop it, and run it again", "stop the runner, and run it again")


def reload(root: Path) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "reload", "--json", "--project", str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.full
@pytest.mark.spark
@follows(*RESTART, here=False)
def test_what_a_runner_does_not_take_up_it_has_when_it_starts_again(tmp_path: Path, runners: list[Running]) -> None:
    shop = Shop.make(tmp_path)
    shop.land("1.json", [{"event_id": "a"}])
    file = tmp_path / "headwater.yml"
    plain = f"spark: {{master: 'local[2]', conf: {COLD}}}\n" + file.read_text()
    file.write_text(plain)
    runners.append(Running(tmp_path))
    runners[0].until(lambda: runners[0].of("step", "topics.orders"))
    more = plain + "  more: {from: landing, format: iceberg}\n"
    for text, hint in zip((plain.replace("local[2]", "local[1]"), more), RESTART, strict=True):
        file.write_text(text)
        refused = reload(tmp_path)
        assert refused.returncode == 2 and "RESTART_NEEDED" in refused.stderr, refused
        assert pattern(hint).search(refused.stderr), refused.stderr
    file.write_text(more.replace("local[2]", "local[1]"))
    runners[0].signal(signal.SIGTERM)
    assert runners[0].process.wait(60) == 0
    runners.append(Running(tmp_path))
    runners[1].until(lambda: runners[1].of("step", "topics.more"))
    reloaded = reload(tmp_path)
    assert json.loads(reloaded.stdout) == {"added": [], "changed": [], "removed": []}, reloaded


@pytest.mark.full
@pytest.mark.usefixtures("spark")
@follows("take {}, or `state: sqlite` and one machine")
def test_a_format_without_a_fence_is_not_kept_on_a_lake_that_machines_share(tmp_path: Path) -> None:
    with server() as running:
        for key, value in (("format", "delta"), ("state", "sqlite")):
            given = {"format": "parquet", "state": running.database()}
            project = Moving.make(tmp_path / key, given["format"], more=f"state: {given['state']}")
            project.land("a.json", [("1", "x", 1)])
            refused = project.do("run", "--once", "--json")
            assert refused.code != 0 and "nothing stops a late writer" in refused.out + refused.err, refused
            file = project.root / "headwater.yml"
            file.write_text(file.read_text().replace(f"{key}: {given[key]}", f"{key}: {value}"))
            assert project.run()[0]["topics.orders"] == (1, 1)


class BusSource(SourceSpec):
    """Of a package that brings only the settings so far."""

    type: Literal["bus"] = "bus"


@pytest.mark.full
@pytest.mark.usefixtures("spark")
@follows("`headwater check` names what can't run")
def test_a_source_that_nothing_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SOURCES.names()
    monkeypatch.setitem(SOURCES._items, "bus", BusSource)
    shop = Shop.make(tmp_path)
    shop.land("1.json", [{"event_id": "a"}])
    file = tmp_path / "headwater.yml"
    good = file.read_text()
    file.write_text(good.replace("topics:", "  bus: {type: bus}\ntopics:").replace("from: landing", "from: bus"))
    refused = shop.run()
    assert refused.code != 0 and "NOT_RUNNABLE_YET" in refused.out + refused.err, refused
    (note,) = headwater("check", "--json", "--project", tmp_path).json["notes"]
    assert note["path"] == "sources.bus" and "nothing reads a source of type bus" in note["message"]
    file.write_text(good)
    assert shop.run().code == 0


@pytest.mark.usefixtures("spark")
@follows("its topics can run as they are: headwater run")
def test_a_source_that_needs_no_preparation(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    shop.land("1.json", [{"event_id": "a"}])
    refused = headwater("source", "prepare", "landing", "--project", tmp_path)
    assert refused.code == 2 and "as it is for postgres_events, postgres_cdc" in refused.err, refused.err
    assert shop.run().code == 0
    assert shop.query("SELECT event_id FROM topic('orders')") == [{"event_id": "a"}]


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from headwater.api.lake import Lake
from headwater.core.errors import HeadwaterError

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with Lake.open(sys.argv[1]) as lake:
    try:
        lake.topic("rows").append([{"id": 1}], key="one")
    except HeadwaterError as error:
        print(error.code, error.problem.hint)
spark.stop()
with Lake.open(sys.argv[1]) as lake:
    print(lake.topic("rows").append([{"id": 1}], key="one").committed, lake.topic("rows").df().count())
    spark = SparkSession.builder.getOrCreate()
    print(spark.range(3).count())
"""


@pytest.mark.full
@pytest.mark.spark
@follows("stop it first, or open the lake before it", here=False)
def test_a_program_that_has_started_a_spark_of_its_own(tmp_path: Path) -> None:
    project = f"name: shop\nspark: {{master: 'local[1]', conf: {COLD}}}\n"
    project += "sources: {api: {type: append}}\ntopics: {rows: {from: api}}\n"
    (tmp_path / "headwater.yml").write_text(project)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "JAVA_HOME": str(find_java().home)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    told = ["SESSION_FAILED stop it first, or open the lake before it", "True 1", "3"]
    assert done.stdout.splitlines() == told, done.stdout + done.stderr
