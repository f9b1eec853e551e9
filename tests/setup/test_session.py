"""The session: its settings, its silence, and that nothing of it outlives its process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.spec import SparkSpec
from headwater.spark.session import Extension, SessionNeeds, merge, open_session, settings
from tests.hints.followed import follows

HOME = Path("/somewhere/.headwater")


def test_needs_are_merged_with_extensions_by_rank() -> None:
    needs = [
        SessionNeeds(("iceberg", "sqlite"), (Extension("Ice", 9),), {"a": "1"}),
        SessionNeeds(("delta",), (Extension("Delta"),), {"a": "1", "b": "2"}),
        SessionNeeds(("sqlite",), (Extension("Delta"), Extension("Mid", 5))),
    ]
    merged = merge(needs, {})
    assert merged.connectors == ("iceberg", "sqlite", "delta")
    assert [extension.name for extension in merged.extensions] == ["Delta", "Mid", "Ice"]
    assert merged.conf == {"a": "1", "b": "2"}


@follows("set spark.conf '{}' to the one that is right")
def test_needs_that_disagree_are_an_error_unless_the_user_chose() -> None:
    needs = [SessionNeeds(conf={"spark.x": "1"}), SessionNeeds(conf={"spark.x": "2"})]
    with pytest.raises(UsageError, match=r"different values of spark\.x: '1' and '2'") as caught:
        merge(needs, {})
    assert caught.value.code is Code.SESSION_FAILED
    assert merge(needs, {"spark.x": "3"}).conf == {}


def test_the_users_settings_win_and_lists_are_joined() -> None:
    needs = SessionNeeds((), (Extension("Ours"),), {"spark.serializer": "ours"})
    chosen = {
        "spark.driver.memory": "5g",
        "spark.serializer": "theirs",
        "spark.sql.extensions": "Theirs,Ours",
        "spark.driver.extraJavaOptions": "-Dtheirs=1",
    }
    conf = settings("x", needs, SparkSpec(master="local[3]", conf=chosen), [], HOME)
    assert conf["spark.driver.memory"] == "5g"
    assert conf["spark.serializer"] == "theirs"
    assert conf["spark.sql.extensions"] == "Ours,Theirs"
    assert conf["spark.driver.extraJavaOptions"].endswith(" -Dtheirs=1")
    assert conf["spark.sql.shuffle.partitions"] == "3"
    assert conf["spark.ui.enabled"] == "false"
    assert settings("x", needs, SparkSpec(ui=True), [], HOME)["spark.ui.enabled"] == "true"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_a_cluster_keeps_its_own_size_and_is_sent_the_jars(master: str) -> None:
    spec = SparkSpec(master=master, conf={"spark.jars": "/mine.jar"})
    conf = settings("x", SessionNeeds(), spec, [Path("/a.jar"), Path("/b.jar")], HOME)
    assert conf["spark.jars"] == "/a.jar,/b.jar,/mine.jar"
    for local in ("spark.driver.memory", "spark.sql.shuffle.partitions", "spark.driver.host"):
        assert local not in conf
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert conf["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"


PROGRAM = """
import json, os, sys, time
from pathlib import Path
from pyspark.sql import functions as F
from headwater.spark.session import Extension, SessionNeeds, jvm_pid, open_session
from headwater.core.spec import SparkSpec

needs = SessionNeeds(
    ("delta",),
    (Extension("io.delta.sql.DeltaSparkSessionExtension"),),
    {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    },
)
cold = {  # it lives for seconds: compiling would take most of them
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
spark = open_session("alone", [needs], SparkSpec(master="local[2]", conf=cold), home=Path(sys.argv[1]))
frame = spark.sql("SELECT timestamp'2024-03-31 02:30:00.123456' AS at, date'0001-01-01' AS day, 'ü' AS word")
frame.write.format("delta").save(sys.argv[2])
worker = F.udf(lambda _: f"{sys.executable} {time.tzname[0]}")
print(json.dumps({
    "jvm": jvm_pid(),
    "worker": spark.range(1).select(worker("id")).first()[0],
    "shuffle": spark.conf.get("spark.sql.shuffle.partitions"),
    "host": spark.conf.get("spark.driver.host"),
    "ui": spark.sparkContext.uiWebUrl,
    "scheduler": spark.conf.get("spark.scheduler.mode"),
    "rows": [str(value) for value in spark.read.format("delta").load(sys.argv[2]).selectExpr(
        "CAST(at AS string)", "CAST(day AS string)", "word").first()],
    "environment": {name: os.environ.get(name) for name in ("SPARK_HOME", "TZ", "SPARK_DIST_CLASSPATH")},
}), flush=True)
time.sleep(600)
"""


@pytest.mark.spark
def test_a_session_is_quiet_in_utc_and_dies_with_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, table, folder = tmp_path / "a home" / ".headwater", tmp_path / "täble", tmp_path / "cwd"
    folder.mkdir()
    for name in ("SPARK_HOME", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "America/New_York")
    monkeypatch.setenv("LC_ALL", "C")
    process = subprocess.Popen(
        [sys.executable, "-X", "utf8", "-c", PROGRAM, str(home), str(table)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, process.communicate()[1]
        facts = json.loads(said)
        jvm = psutil.Process(facts["jvm"])
        listening = {c.laddr.ip for c in jvm.net_connections() if c.status == psutil.CONN_LISTEN}
    finally:
        process.send_signal(signal.SIGKILL)
        rest, errors = process.communicate()

    assert (rest, errors) == ("", "")
    assert facts["worker"] == f"{sys.executable} UTC"
    assert (facts["shuffle"], facts["host"], facts["ui"], facts["scheduler"]) == (
        "2",
        "127.0.0.1",
        None,
        "FAIR",
    )
    assert facts["rows"] == ["2024-03-31 02:30:00.123456", "0001-01-01", "ü"]
    assert facts["environment"] == {
        "SPARK_HOME": None,
        "TZ": "America/New_York",
        "SPARK_DIST_CLASSPATH": None,
    }
    assert {ip.removeprefix("::ffff:") for ip in listening} <= {"127.0.0.1", "::1"}
    assert list(folder.iterdir()) == []
    assert (home / "logs" / "spark.log").exists()

    column = pq.read_schema(next(table.glob("*.parquet"))).field("at")
    assert (column.type.unit, column.type.tz) == ("us", "UTC")
    assert pq.ParquetFile(next(table.glob("*.parquet"))).schema.column(0).physical_type == "INT64"

    gone, _ = psutil.wait_procs([jvm], timeout=30)
    assert gone == [jvm]


@pytest.mark.spark
def test_a_start_that_fails_says_why_in_one_line(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from headwater.spark.session import open_session\n"
        "from headwater.core.errors import HeadwaterError; from headwater.core.spec import SparkSpec\n"
        "for conf in ({'spark.driver.memory': 'lots'}, {'spark.sql.shuffle.partitions': 'many'}):\n"
        "    try: open_session('x', [], SparkSpec(conf=conf), home=Path(sys.argv[1]))\n"
        "    except HeadwaterError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    first, second = done.stdout.splitlines()
    assert "Invalid maximum heap size" in first
    assert "spark.sql.shuffle.partitions should be int, but was many" in second
    assert first.endswith("[SESSION_FAILED]")
    assert second.endswith("[SESSION_FAILED]")
    assert done.stderr == ""


def test_a_second_lake_in_the_process_gets_a_session_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    needs = SessionNeeds(("delta",), conf={"spark.sql.catalog.second": "some.Catalog"})
    second = open_session("second", [needs], SparkSpec(conf={"spark.sql.ansi.enabled": "true"}), home=tmp_path)
    assert second.conf.get("spark.sql.catalog.second") == "some.Catalog"
    assert second.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.sql.catalog.second", "none") == "none"
    assert second.sparkContext is spark.sparkContext


def test_what_the_running_spark_lacks_is_said(spark: SparkSession, tmp_path: Path) -> None:
    needs = SessionNeeds(extensions=(Extension("not.Loaded"),), conf={"spark.serializer": "another"})
    with pytest.raises(HeadwaterError, match=r"lacks not\.Loaded, spark\.serializer=another") as caught:
        open_session("second", [needs], SparkSpec(), home=tmp_path)
    assert caught.value.code is Code.SESSION_FAILED
