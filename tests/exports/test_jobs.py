"""Exports by command, statement and API; their jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.errors import Code, HeadwaterError
from tests.exports.lakes import lake_with_rows
from tests.hints.followed import follows
from tests.support import headwater

pytestmark = pytest.mark.usefixtures("spark")

EXPORTS = """exports:
  cheap: {from: "SELECT id, price FROM table('goods') WHERE price < 5", format: csv, to: ./cheap}
  kept: {from: table('goods'), format: delta, to: ./kept, mode: streaming, primary_key: [id]}
"""


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Path:
    with lake_with_rows(tmp_path / "shop", exports=EXPORTS):
        return tmp_path / "shop"


def test_commands_and_jobs(shop: Path) -> None:
    done = headwater(
        "export", "goods", "--format", "parquet", "--destination", shop / "out", "--partition-by", "flag",
        "--columns", "id", "--columns", "flag", "--compression", "zstd", "--json", "--project", shop,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert (done.json["rows"], done.json["source"]) == (6, "tables.goods")
    named = headwater("export", "cheap", "--json", "--project", shop)
    assert named.code == 0, named.err
    assert named.json["rows"] == 3
    jobs = headwater("export", "jobs", "list", "--json", "--project", shop).json
    assert [(job["export"], job["state"], job["rows"]) for job in jobs] == [("cheap", "done", 3), (None, "done", 6)]
    job = headwater("export", "jobs", "status", jobs[1]["id"][:6], "--json", "--project", shop).json
    assert (job["readers"][0]["rows"], job["position"]) == (6, done.json["versions"])
    again = headwater("export", "jobs", "resume", job["id"], "--project", shop)
    assert again.code == 2 and "is done" in again.err
    assert headwater("export", "jobs", "stop", job["id"], "--project", shop).code == 2
    unknown = headwater("export", "jobs", "status", "zz", "--project", shop)
    assert "UNKNOWN_JOB" in unknown.err
    people = headwater("export", "goods", "--format", "json", "--destination", shop / "lines", "--project", shop)
    assert people.code == 0 and "python" in people.out
    listed = headwater("export", "jobs", "--project", shop)
    assert "done" in listed.out
    with Lake.open(shop) as lake:
        rows = lake.sql("SELECT state, rows, format FROM system.exports ORDER BY started_at").rows()
        assert [(row["state"], row["rows"]) for row in rows] == [("done", 6), ("done", 3), ("done", 6)]


def test_statements(shop: Path) -> None:
    with Lake.open(shop) as lake:
        sql = f"EXPORT table('goods') TO PARQUET '{shop}/sql' PARTITIONED BY (date(at)) WITH (compression = 'zstd')"
        told = {row["property"]: row["value"] for row in lake.sql(f"EXPLAIN {sql}")}
        assert (told["partition_by"], told["compression"], told["folder"]) == ("date(at)", "zstd", f"{shop}/sql")
        assert not (shop / "sql").exists()
        (row,) = lake.sql(sql).rows()
        assert (row["rows"], row["format"]) == (6, "parquet")
        lake.sql(f"EXPORT goods TO CSV '{shop}/part' WITH (columns = 'id, name', filter = 'id < 3', delimiter = ';')")
        lines = "".join(file.read_text() for file in (shop / "part").glob("*.csv"))
        assert "id;name" in lines and "1;Ada" in lines
        done = lake.export("SELECT count(*) AS n FROM table('goods')", format="json", to="./n")
        assert done.rows == 1


@follows(
    "a query is one word, in quotes",
    "name a format and a destination",
    "run it: headwater run exports.{}",
    "take `full`, or `off`",
)
def test_wrong_use(shop: Path) -> None:
    with Lake.open(shop) as lake:
        for keys in (
            {"format": "parquet"},
            {"format": "parquet", "to": "./x", "mode": "streaming"},
            {"format": "parquet", "to": "./x", "verify": "sample"},
            {"format": "parquet", "to": "./x", "compresion": "zstd"},
            {"format": "parquet", "to": "./x", "if_exists": "maybe"},
            {"format": "parquet", "to": "./x", "compression": "zip"},
            {"format": "csv", "to": "./x", "target_file_size": "x"},
            {"format": "parquet", "to": "./x", "delimiter": ";"},
        ):
            with pytest.raises(HeadwaterError):
                lake.export("goods", **keys)
        with pytest.raises(HeadwaterError):
            lake.export("kept")
        lake.export("goods", format="parquet", to="./x", verify="off")
    assert headwater("export", "SELECT", "1", "--format", "csv", "--destination", "x", "--project", shop).code == 2


def test_a_stream_is_begun_by_command(shop: Path) -> None:
    begun = headwater(
        "export", "goods", "--format", "delta", "--destination", shop / "stream", "--streaming", "--primary-key", "id",
        "--json", "--project", shop,
    )  # fmt: skip
    assert begun.code == 0, begun.err
    assert (begun.json["id"], begun.json["rows"], begun.json["mode"]) == ("goods_delta", 6, "streaming")
    with Lake.open(shop) as lake:
        lake.sql("INSERT INTO goods (id, name) SELECT 9, 'late'")
        assert "exports.goods_delta" in lake.flows()
        (done,) = lake.run(["exports.goods_delta"], once=True)
        assert (done.flow, done.error) == ("exports.goods_delta", None)
        assert lake.foreign("delta", path=str(shop / "stream")).df().count() == 7
        lake.stop_export("goods_delta")
        assert {one.flow: one.state for one in lake.status()}["exports.goods_delta"] == "paused"


def test_a_job_is_stopped_and_resumed(shop: Path) -> None:
    """A snapshot that would take long: its rows wait."""
    slow = "SELECT id, java_method('java.lang.Thread', 'sleep', 4000L) AS waited FROM range(0, 40, 1, 40)"
    with Lake.open(shop) as lake:
        failed: list[HeadwaterError] = []

        def run() -> None:
            try:
                lake.export(slow, format="parquet", to="./slow", columns=["id"], filter="waited IS NULL OR id > -1")
            except HeadwaterError as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + 60
        while not (jobs := lake.export_jobs()) and time.monotonic() < deadline:
            time.sleep(0.1)
        stopped = lake.stop_export(jobs[0].id)
        assert stopped.state == "stopping"
        thread.join(90)
        assert not thread.is_alive()
        assert failed and failed[0].code is Code.CANCELLED
        assert lake.export_job(jobs[0].id).state == "stopped"
        assert not list((shop / "slow").glob("*")) if (shop / "slow").exists() else True


KILLED = """
import sys
from headwater.api.lake import Lake
with Lake.open(sys.argv[1]) as lake:
    lake.export("table('goods')", format=sys.argv[2], to="./out", if_exists="overwrite")
"""


def test_a_snapshot_that_is_killed_leaves_the_old_one(shop: Path) -> None:
    """Killed while files are aside, and while they are moved in: the manifest is the commit."""
    out = shop / "out"
    with Lake.open(shop) as lake:
        lake.export("goods", format="parquet", to="./out", columns=["id", "name"])
    before = json.loads((out / "_manifest.json").read_text())
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(shop), "parquet"], start_new_session=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(out.glob("_staging-*/part-*")) and process.poll() is None:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    after = json.loads((out / "_manifest.json").read_text())
    assert after["source"]["run"] in (before["source"]["run"], after["source"]["run"])
    for file in after["files"]:
        assert (out / file["path"]).stat().st_size == file["bytes"]
    with Lake.open(shop) as lake:
        (job, *_) = lake.export_jobs()
        if job.state == "interrupted":
            done = lake.resume_export(job.id)
            assert done is not None and done.rows == 6
        names = {path.name for path in out.iterdir()}
    manifest = json.loads((out / "_manifest.json").read_text())
    assert names == {"_manifest.json", *(file["path"] for file in manifest["files"])}
